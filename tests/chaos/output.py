"""The standard output of the fault suite, which others read while it runs."""

import sys


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
