"""The standard output of the fault suite, which can be followed while it runs."""

import sys


def say(line: str) -> None:
    """Print a line and flush."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
