"""Recent commands of this process: Kafka has them, but MongoDB may not know them yet."""

from dataclasses import dataclass
from typing import Final

from api.auth.timed_cache import TimedCache
from domain.commands import CommandMark

MOST: Final = 20_000
REMEMBERED_S: Final = 600.0


@dataclass(slots=True)
class _Recent:
    mark: CommandMark
    is_accepted: bool = False


class RecentCommands:
    """The commands of the last `remembered_s` seconds by id, at most `most`."""

    def __init__(self, most: int = MOST, remembered_s: float = REMEMBERED_S) -> None:
        self._remembered_s = remembered_s
        self._commands: TimedCache[_Recent] = TimedCache(most)

    def begin(self, command_id: str, mark: CommandMark) -> CommandMark:
        """Note a command that is about to be published. Returns the mark of the first one with this id."""
        recent = self._commands.get(command_id) or _Recent(mark)
        self._commands.put(command_id, recent, self._remembered_s)
        return recent.mark

    def accept(self, command_id: str) -> None:
        """Note that Kafka has acknowledged all messages of a command."""
        if known := self._commands.get(command_id):
            known.is_accepted = True

    def accepted(self, command_id: str) -> CommandMark | None:
        """The mark of a command that Kafka has acknowledged; None if it isn't known here."""
        known = self._commands.get(command_id)
        return known.mark if known and known.is_accepted else None
