"""Progress messages of a run."""

from time import monotonic
from typing import Final

from rich.console import Console

_OUT: Final = Console(highlight=False, soft_wrap=True)
_started: Final = monotonic()


def print_progress(text: str) -> None:
    """Print a line, with the time since the start of the run."""
    minutes, seconds = divmod(int(monotonic() - _started), 60)
    _OUT.print(f"{minutes:02}:{seconds:02} {text}", markup=False)
