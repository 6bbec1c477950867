"""Progress of a run, with the time since its start."""

from time import monotonic
from typing import Final

from rich.console import Console

_OUT: Final = Console(highlight=False, soft_wrap=True)
_started: Final = monotonic()


def elapsed_s() -> float:
    """Seconds since the start."""
    return monotonic() - _started


def tell(text: str) -> None:
    """Print a line with the time since the start."""
    minutes, seconds = divmod(int(elapsed_s()), 60)
    _OUT.print(f"{minutes:02}:{seconds:02} {text}", markup=False)
