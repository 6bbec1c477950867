"""The processes that a test started."""

import uuid
from pathlib import Path

from .waiting import eventually

_PAUSE_S = 0.005
_MARK = "PLAUDIT_TEST_MARK"


class Marked:
    """All living processes started with a marker in their environment, including indirect children."""

    def __init__(self) -> None:
        """Create a unique marker. `environment` has the variable that carries it."""
        self.environment = {_MARK: uuid.uuid4().hex}

    def commands(self) -> dict[int, str]:
        """Command lines by process id."""
        mark = f"{_MARK}={self.environment[_MARK]}".encode()
        found: dict[int, str] = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue  # it ended meanwhile
        return {pid: command for pid, command in found.items() if command}  # a zombie has none

    def run(self, part: str) -> bool:
        """True if the command line of one of them contains this."""
        return any(part in command for command in self.commands().values())

    async def running(self, part: str) -> None:
        """Wait until the command line of one of them contains this. Polls often, because it may run only briefly."""
        await eventually(lambda: self.run(part), pause_s=_PAUSE_S)

    async def gone(self) -> None:
        """Wait until none is left."""
        await eventually(self.commands, lambda found: not found, pause_s=_PAUSE_S)
