"""Commands of the HTTP interface: what their messages carry of the whole, and the outcome of all their items."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

KEY_REUSED: Final = "idempotency-key-reused"
"""The reason for refusing a command whose key stands for another content already."""

_TEXT: Final = re.compile(r"([1-9]\d{0,8}) ([0-9a-f]*) ([0-9a-f]*)")


class Outcome(StrEnum):
    """The outcome of one item of a command."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not-found"
    REFUSED = "refused"


class CommandOutcome(StrEnum):
    """The outcome of a command; "accepted" while that of an item isn't known."""

    ACCEPTED = "accepted"
    APPLIED = "applied"
    PARTIAL = "partial"
    REFUSED = "refused"


def command_outcome(outcomes: Collection[Outcome]) -> CommandOutcome:
    """The outcome of a command, by those of all its items."""
    good = sum(outcome in (Outcome.APPLIED, Outcome.UNCHANGED) for outcome in outcomes)
    if good == len(outcomes):
        return CommandOutcome.APPLIED
    return CommandOutcome.PARTIAL if good else CommandOutcome.REFUSED


@dataclass(frozen=True, slots=True)
class CommandMark:
    """The part of a command that each of its messages carries, and that is stored with each outcome.

    `items`: their number. `content`: a digest of the request, empty for one without a key. `caller`: a digest of who
    sent it, empty without authentication. Both are hexadecimal.
    """

    items: int
    content: str = ""
    caller: str = ""

    def __str__(self) -> str:
        """The mark as a text, which `mark_from` reads."""
        return f"{self.items} {self.content} {self.caller}"

    def is_of_another(self, other: "CommandMark") -> bool:
        """True if the key of this command stands for another content."""
        return bool(self.content and other.content) and self.content != other.content


def mark_from(text: str | None) -> CommandMark | None:
    """The mark that a text stands for; None for no text, or another one."""
    found = _TEXT.fullmatch(text or "")
    return CommandMark(int(found[1]), found[2], found[3]) if found else None
