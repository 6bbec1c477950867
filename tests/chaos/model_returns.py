"""The part of the oracle about orders and their returns."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.outcomes import APPLIED, ID_TAKEN, UNCHANGED, Outcome, Outcomes

Json = dict[str, Any]

UNKNOWN_RETURN = "unknown-return"
NOT_AVAILABLE = Outcome("refused", "quantity-not-available")


@dataclass
class Order:
    """An order: quantities by order line, and its newest event."""

    lines: Mapping[str, int]
    newest: Json


@dataclass
class Return:
    """A return: its order, quantities by order line, status and resolution."""

    order: str
    lines: Mapping[str, int]
    status: str = "New"
    resolution: str | None = None

    def state(self) -> tuple[list[tuple[str, int]], str, str | None]:
        """The fields that decide whether an update changes the return."""
        return list(self.lines.items()), self.status, self.resolution

    def reserved(self) -> Mapping[str, int]:
        """Quantities by order line that no other return can have; none if the return is canceled."""
        return {} if self.status == "Canceled" else self.lines


@dataclass
class OrdersAndReturns:
    """The expected orders and returns. Methods that apply a command return the outcome that the API must report."""

    outcomes: Outcomes = field(default_factory=Outcomes)
    """Expected outcomes of commands."""
    applied: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of times that an action changed a review's status or a return, by id and action."""
    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of edits, replies and reports that clients sent, by review id and action. Removing a reply counts as a
    reply."""
    orders: dict[str, Order] = field(default_factory=dict)
    returns: dict[str, Return] = field(default_factory=dict)
    return_requests: dict[str, Json] = field(default_factory=dict)
    """The requests that created returns, by return id; those of deleted returns are kept."""
    deleted_returns: set[str] = field(default_factory=set)
    refused_returns: set[str] = field(default_factory=set)
    """Ids with a refused command, by any way."""
    return_ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Ids of existing returns by order id, in the order of their creation."""
    early_returns: dict[str, list[tuple[str, str, Json, str | None]]] = field(default_factory=lambda: defaultdict(list))
    """Commands on returns of unknown orders, by order id: action, return id, body, command id."""
    waiting_returns: dict[str, str] = field(default_factory=dict)
    """Id of the order that a return waits for, by return id."""
    rushes: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    """Orders with competing returns: the ordered quantity, and the ids of the returns of one piece each."""

    def apply_order_event(self, event: Json) -> None:
        """Apply an order event. The newest one counts, in any order of arrival, with any number of repeats.

        The first event of an order also runs the commands on returns that waited for it, in their order.
        """
        known = self.orders.get(event["id"])
        if known is None:
            self.orders[event["id"]] = Order({item["id"]: item["quantity"] for item in event["items"]}, event)
            for action, id, wanted, command in self.early_returns.pop(event["id"], ()):
                self.waiting_returns.pop(id, None)
                self.command_return(action, id, wanted, command)
        elif event["modifiedDate"] > known.newest["modifiedDate"]:
            known.newest = event

    def command_return(self, action: str, id: str, wanted: Json, command: str | None = None) -> str:
        """Create, change ("update") or delete a return. `command`: the id of the command, if it has one."""
        match action:
            case "create":
                return self.create_return(id, wanted, command)
            case "update":
                return self.change_return(id, wanted, command)
        return self.delete_return(id, command)

    def create_return(self, id: str, wanted: Json, command: str | None = None) -> str:
        """Create a return if its order has enough left. If the order is unknown, keep the command until it is known."""
        order_id = wanted["orderId"]
        if id not in self.deleted_returns and id not in self.returns and order_id not in self.orders:
            self.waiting_returns[id] = order_id
            return self._return_waits("create", id, wanted, command)
        outcome = self._created_return(id, wanted)
        return self._answer(command, id, outcome)

    def _created_return(self, id: str, wanted: Json) -> Outcome:
        if id in self.deleted_returns:
            return ID_TAKEN
        if id in self.returns:
            return UNCHANGED if wanted == self.return_requests[id] else ID_TAKEN
        order_id, lines = wanted["orderId"], quantities(wanted["lineItems"])
        available = self.available(order_id)
        if any(quantity > available.get(line, 0) for line, quantity in lines.items()):
            return NOT_AVAILABLE
        self.returns[id] = Return(order_id, lines, wanted.get("status", "New"), wanted.get("resolution"))
        self.return_requests[id] = wanted
        self.return_ids[order_id].append(id)
        self.applied[id, "create"] += 1
        return APPLIED

    def change_return(self, id: str, changes: Json, command: str | None = None) -> str:
        """Change a return if its order has enough left. If the return still waits for its order, keep the command
        behind it."""
        if id in self.waiting_returns:
            return self._return_waits("update", id, changes, command)
        outcome = self._changed_return(id, changes)
        return self._answer(command, id, outcome)

    def _changed_return(self, id: str, changes: Json) -> Outcome:
        known = self.returns.get(id)
        if known is None:
            return Outcome("refused", UNKNOWN_RETURN)
        lines = quantities(changes["lineItems"]) if "lineItems" in changes else known.lines
        wanted = Return(
            known.order, lines, changes.get("status", known.status), changes.get("resolution", known.resolution)
        )
        available, own = self.available(known.order), known.reserved()
        if any(quantity > available.get(line, 0) + own.get(line, 0) for line, quantity in wanted.reserved().items()):
            return NOT_AVAILABLE
        ordered = self.orders[known.order].lines
        if any(quantity > max(ordered.get(line, 0), known.lines.get(line, 0)) for line, quantity in lines.items()):
            return NOT_AVAILABLE
        self.returns[id] = wanted
        if wanted.state() == known.state():
            return UNCHANGED
        self.applied[id, "update"] += 1
        return APPLIED

    def delete_return(self, id: str, command: str | None = None) -> str:
        """Delete a return for good. If it still waits for its order, keep the command behind it."""
        if id in self.waiting_returns:
            return self._return_waits("delete", id, {"id": id}, command)
        known = self.returns.pop(id, None)
        if known is None:
            return self._answer(command, id, Outcome("not-found", UNKNOWN_RETURN))
        self.return_ids[known.order].remove(id)
        self.deleted_returns.add(id)
        self.applied[id, "delete"] += 1
        return self._answer(command, id, APPLIED)

    def _answer(self, command: str | None, id: str, outcome: Outcome) -> str:
        self.outcomes.expect(command, id, outcome)
        if outcome.reason:
            self.refused_returns.add(id)
        return outcome.outcome

    def _return_waits(self, action: str, id: str, body: Json, command: str | None) -> str:
        self.early_returns[self.waiting_returns[id]].append((action, id, body, command))
        self.outcomes.wait(command, id)
        return "not-found"

    def rushed(self) -> Iterator[str]:
        """Ids of the competing returns."""
        return (id for _, ids in self.rushes.values() for id in ids)

    def available(self, order_id: str) -> dict[str, int]:
        """Quantities of an order that can still be returned, by order line."""
        left = Counter(self.orders[order_id].lines)
        for id in self.return_ids[order_id]:
            left.subtract(self.returns[id].reserved())
        return dict(left)


def quantities(line_items: Sequence[Json]) -> dict[str, int]:
    """Quantities by order line."""
    taken: Counter[str] = Counter()
    for item in line_items:
        taken[item["orderLineItemId"]] += item["quantity"]
    return dict(taken)
