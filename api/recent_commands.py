"""Commands that this process has published of late: what Kafka has, and MongoDB may not know yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from domain.commands import CommandMark

MOST: Final = 20_000
REMEMBERED_S: Final = 600.0


@dataclass(slots=True)
class _Recent:
    mark: CommandMark
    since: float
    is_accepted: bool = False


class RecentCommands:
    """The commands of the last minutes, the newest of them, by id. `now` is a clock in seconds."""

    def __init__(
        self, most: int = MOST, remembered_s: float = REMEMBERED_S, now: Callable[[], float] = monotonic
    ) -> None:
        self._most = most
        self._remembered_s = remembered_s
        self._now = now
        self._commands: OrderedDict[str, _Recent] = OrderedDict()

    def begin(self, command_id: str, mark: CommandMark) -> CommandMark:
        """Note a command that is about to be published; returns the mark of the first one with this id."""
        known = self._known(command_id)
        recent = _Recent(known.mark if known else mark, self._now(), known is not None and known.is_accepted)
        self._commands[command_id] = recent
        self._commands.move_to_end(command_id)
        while len(self._commands) > self._most:
            self._commands.popitem(last=False)
        return recent.mark

    def accept(self, command_id: str) -> None:
        """Note that Kafka has all messages of a command."""
        if known := self._known(command_id):
            known.is_accepted = True

    def accepted(self, command_id: str) -> CommandMark | None:
        """The mark of a command that Kafka has; None for one that isn't known here."""
        known = self._known(command_id)
        return known.mark if known and known.is_accepted else None

    def _known(self, command_id: str) -> _Recent | None:
        oldest = self._now() - self._remembered_s
        while self._commands and next(iter(self._commands.values())).since < oldest:
            self._commands.popitem(last=False)
        return self._commands.get(command_id)
