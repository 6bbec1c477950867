"""Commands of the HTTP interface: the mark that all messages of a command carry, and the outcome of the whole."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

KEY_REUSED: Final = "idempotency-key-reused"
"""The reason for refusing a command whose idempotency key was used with other content."""

_TEXT: Final = re.compile(r"([1-9]\d{0,8}) ([0-9a-f]*) ([0-9a-f]*)")


class Outcome(StrEnum):
    """The outcome of one item of a command."""

    APPLIED = "applied"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not-found"
    REFUSED = "refused"


class CommandOutcome(StrEnum):
    """The outcome of a command; "accepted" until the outcomes of all its items are known."""

    ACCEPTED = "accepted"
    APPLIED = "applied"
    PARTIAL = "partial"
    REFUSED = "refused"


def command_outcome(outcomes: Collection[Outcome]) -> CommandOutcome:
    """The outcome of a command, from the outcomes of all its items."""
    successful = sum(outcome in (Outcome.APPLIED, Outcome.UNCHANGED) for outcome in outcomes)
    if successful == len(outcomes):
        return CommandOutcome.APPLIED
    return CommandOutcome.PARTIAL if successful else CommandOutcome.REFUSED


@dataclass(frozen=True, slots=True)
class CommandMark:
    """The part of a command that each of its messages carries, and that is stored with each outcome."""

    items: int
    """Number of items."""
    content: str = ""
    """Digest of the request in hexadecimal; empty without an idempotency key."""
    caller: str = ""
    """Digest of the sender in hexadecimal; empty without authentication."""

    def __str__(self) -> str:
        """The mark as text, which `mark_from` parses."""
        return f"{self.items} {self.content} {self.caller}"

    def is_of_another(self, other: "CommandMark") -> bool:
        """True if the other mark, under the same idempotency key, is of other content."""
        return bool(self.content and other.content) and self.content != other.content


def mark_from(text: str | None) -> CommandMark | None:
    """Parse the text of a mark; None for a missing text or one that is not a mark."""
    found = _TEXT.fullmatch(text or "")
    return CommandMark(int(found[1]), found[2], found[3]) if found else None
