"""The processes that a test started."""

import uuid
from pathlib import Path

from .waiting import eventually

_PAUSE_S = 0.005
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
        """True if one of them has this in its command line."""
        return any(part in command for command in self.commands().values())

    async def running(self, part: str) -> None:
        """Wait until one of them has this in its command line; asked often, for it may be there for a moment only."""
        await eventually(lambda: self.run(part), pause_s=_PAUSE_S)

    async def gone(self) -> None:
        """Wait until none is left."""
        await eventually(self.commands, lambda found: not found, pause_s=_PAUSE_S)
