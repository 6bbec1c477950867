"""The reasons for refusing a return."""

from dataclasses import dataclass
from enum import StrEnum


class ReturnRefusal(StrEnum):
    """The reason for refusing a return."""

    UNKNOWN_ORDER = "unknown-order"
    UNKNOWN_LINE = "unknown-line"
    UNKNOWN_RETURN_LINE = "unknown-return-line"
    TOO_MANY = "quantity-not-available"
    UNKNOWN_RETURN = "unknown-return"
    ID_TAKEN = "id-taken"
    UNKNOWN_STATUS = "unknown-status"
    STATUS_CHANGED = "status-changed"


@dataclass(frozen=True, slots=True)
class RefusalReason:
    """One reason for a refusal."""

    code: ReturnRefusal
    message: str
    """One sentence."""
    line_index: int | None = None
    """Index in the list of line items, if it concerns one of them."""
    field: str | None = None
    """The field that it concerns, if the code doesn't imply it."""


def unknown_order(order_id: str) -> list[RefusalReason]:
    """The reason against a return of an order that is unknown, or hidden from its sender."""
    return [RefusalReason(ReturnRefusal.UNKNOWN_ORDER, f"Order {order_id} is unknown")]


def crowded_order(order_id: str) -> list[RefusalReason]:
    """The reason against a command that would be one too many to wait for an order."""
    message = (
        f"Order {order_id} is unknown, and too many commands wait for it: send the command again once the "
        "order is stored"
    )
    return [RefusalReason(ReturnRefusal.UNKNOWN_ORDER, message)]
