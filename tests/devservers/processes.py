"""Seeing the processes that a test started, and waiting for them."""

import time
import uuid
from collections.abc import Callable
from pathlib import Path

DEADLINE_S = 90.0
"""As long as a server may take to start, in seconds: many of them start at a time on two cores."""
_MARK = "PLAUDIT_TEST_MARK"


class Marked:
    """All living processes that were started with a mark in their environment, however distant their parent."""

    def __init__(self) -> None:
        """Make up a mark; `environment` is what carries it."""
        self.environment = {_MARK: uuid.uuid4().hex}

    def commands(self) -> dict[int, str]:
        """Their command lines, by process id."""
        mark = f"{_MARK}={self.environment[_MARK]}".encode()
        found: dict[int, str] = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue  # it ended while we looked
        return {pid: command for pid, command in found.items() if command}  # a zombie has none

    def run(self, part: str) -> bool:
        """Whether one of them has this in its command line."""
        return any(part in command for command in self.commands().values())


def eventually(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait until the condition holds; fail when it doesn't in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)  # until it is asked again
