"""The outcome that each item of an acknowledged command must have. `check_outcomes` compares them."""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

Item = tuple[str, str]
"""Id of a command, and id of an item of it."""


class Outcome(NamedTuple):
    """The outcome of one item of a command, as the service names it, and the code of its reason."""

    outcome: str
    reason: str | None = None


APPLIED = Outcome("applied")
UNCHANGED = Outcome("unchanged")
NOT_FOUND = Outcome("not-found")
ID_TAKEN = Outcome("refused", "id-taken")


@dataclass
class Outcomes:
    """The expected outcomes of acknowledged commands. The first outcome of an item counts: a repeat has the same."""

    expected: dict[Item, Outcome] = field(default_factory=dict)
    if_gone: dict[Item, Outcome] = field(default_factory=dict)
    """The outcome that is allowed, too, if the item has been deleted since: the deletion may have overtaken the
    command, as it takes another way."""
    if_lost: dict[Item, Outcome] = field(default_factory=dict)
    """The outcome of an item that competed with others, if it isn't stored; "applied" if it is."""
    either: dict[Item, Outcome] = field(default_factory=dict)
    """Another outcome that is allowed where the model doesn't know the status before."""
    waiting: set[Item] = field(default_factory=set)
    """Items that wait for their subject. They have no outcome, or "not-found" after an hour."""

    def expect(self, command_id: str | None, item_id: str, outcome: Outcome) -> None:
        """Expect the outcome of an item of a command; nothing without a command id. Later outcomes don't count."""
        if command_id:
            self.waiting.discard((command_id, item_id))
            self.expected.setdefault((command_id, item_id), outcome)

    def wait(self, command_id: str | None, item_id: str) -> None:
        """Expect no outcome until the subject of the item arrives."""
        if command_id and (command_id, item_id) not in self.expected:
            self.waiting.add((command_id, item_id))

    def rename(self, before: str, command_id: str | None) -> None:
        """Give a command the id that the service chose for it, or forget it if it has none: it was refused at once."""
        for items in (self.expected, self.if_gone):
            for item in [item for item in items if item[0] == before]:
                outcome = items.pop(item)
                if command_id:
                    items.setdefault((command_id, item[1]), outcome)

    def compete(self, command_id: str, item_id: str, if_lost: Outcome) -> None:
        """Expect "applied" if the item is stored in the end, else the outcome `if_lost`."""
        self.if_lost[command_id, item_id] = if_lost

    def allowed(self, item: Item, gone: Set[str], winners: Set[str]) -> set[Outcome]:
        """The allowed outcomes of an item of an acknowledged command; empty if no client sent it. `gone`: ids of
        deleted objects; `winners`: ids of the stored ones of competing objects."""
        if item in self.if_lost:
            return {APPLIED if item[1] in winners else self.if_lost[item]}
        if item in self.waiting:
            return {NOT_FOUND}
        allowed = {self.expected[item]} if item in self.expected else set[Outcome]()
        allowed |= {self.either[item]} if item in self.either else set()
        return allowed | ({self.if_gone[item]} if item in self.if_gone and item[1] in gone else set())
