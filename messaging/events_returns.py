"""Events about returns."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from domain.returns import Return, ReturnRequest
from domain.returns_refusals import RefusalReason, ReturnRefusal
from domain.timestamps import timestamp
from messaging.schemas import ShownMoment

_PLACES: Final = {
    ReturnRefusal.UNKNOWN_STATUS: "/status",
    ReturnRefusal.STATUS_CHANGED: "/expectedStatus",
}
"""The places of reasons that don't concern a line, the order or the return itself."""


class ReturnedLine(TypedDict):
    """The quantity and reason of one returned order line."""

    id: str
    orderLineItemId: str
    quantity: int
    price: float | None
    reason: str | None


class ReturnState(TypedDict):
    """ReturnCreated or ReturnChanged: the current state of the return."""

    returnId: str
    number: str
    orderId: str
    status: str
    resolution: str | None
    lineItems: list[ReturnedLine]
    at: ShownMoment


class ReturnDeleted(TypedDict):
    """A return was deleted, and its quantities can be returned again."""

    returnId: str
    number: str
    orderId: str
    at: ShownMoment


class ReturnObjection(TypedDict):
    """A reason for refusing a return, and the place in the command that it refers to."""

    code: str
    message: str
    pointer: str


class ReturnRefused(TypedDict):
    """A return, or a change of one, that was refused, with every reason."""

    returnId: str
    orderId: Annotated[str, Field(description="Empty if the return is unknown and its command names no order")]
    reasons: list[ReturnObjection]
    at: ShownMoment


def return_event(stored: Return) -> ReturnState:
    """The data of ReturnCreated and ReturnChanged."""
    return {
        "returnId": stored.id,
        "number": stored.number,
        "orderId": stored.order_id,
        "status": str(stored.status),
        "resolution": stored.resolution,
        "lineItems": [
            {
                "id": line.id,
                "orderLineItemId": line.order_line_id,
                "quantity": line.quantity,
                "price": line.price,
                "reason": line.reason,
            }
            for line in stored.lines
        ],
        "at": timestamp(stored.modified),
    }


def return_deleted(before: Return, at: datetime) -> ReturnDeleted:
    """The data of ReturnDeleted."""
    return {"returnId": before.id, "number": before.number, "orderId": before.order_id, "at": timestamp(at)}


def return_refused(request: ReturnRequest, reasons: Iterable[RefusalReason], at: datetime) -> ReturnRefused:
    """The data of ReturnRefused: every reason, with its place in the command."""
    return {
        "returnId": request.id,
        "orderId": request.order_id,
        "reasons": [
            {
                "code": reason.code.value,
                "message": reason.message,
                "pointer": _pointer(request, reason),
            }
            for reason in reasons
        ],
        "at": timestamp(at),
    }


def _pointer(request: ReturnRequest, reason: RefusalReason) -> str:
    """The place of a reason in its command, among the fields that the command has."""
    if reason.line_index is not None:
        # A change that names no lines can only ask too much by its status.
        return f"/lineItems/{reason.line_index}" if request.lines is not None else "/status"
    if reason.field is not None:
        return f"/{reason.field}"
    if reason.code is ReturnRefusal.UNKNOWN_ORDER:
        return "/orderId" if request.is_new or request.named_order_id is not None else "/id"
    return _PLACES.get(reason.code, "/id")
