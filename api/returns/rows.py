"""Returns as the API shows them."""

from typing import NotRequired

import orjson
from typing_extensions import TypedDict

from api.orders.rows import OrderEvent, currency_of
from domain.orders import Order
from domain.returns import Return
from domain.returns_lines import ReturnLine
from domain.returns_statuses import ReturnStatus
from domain.timestamps import timestamp
from messaging.schemas import ShownMoment


class ReturnLineRow(TypedDict):
    """A returned quantity of an order line. `availableQuantity` is its maximum: the quantity still returnable plus,
    unless the return is canceled, its own."""

    id: str
    returnId: str
    orderLineItemId: str
    quantity: int
    availableQuantity: int
    price: float | None
    reason: str | None
    createdDate: ShownMoment
    modifiedDate: ShownMoment
    createdBy: str | None
    modifiedBy: str | None


class ReturnRow(TypedDict):
    """A return with its order, and the currency of its prices, like EUR; null if the order doesn't name one."""

    id: str
    number: str
    orderId: str
    status: str
    resolution: str | None
    currency: str | None
    order: OrderEvent | None
    lineItems: list[ReturnLineRow]
    createdDate: ShownMoment
    modifiedDate: ShownMoment
    createdBy: str | None
    modifiedBy: str | None


class ReturnList(TypedDict):
    """One page of a list, and the total number of returns; `next` is the `after` of the next page, if there is one."""

    totalCount: NotRequired[int]
    next: NotRequired[str]
    results: list[ReturnRow]


def return_row(stored: Return, order: Order | None, *, with_order: bool = True) -> ReturnRow:
    """A stored return, with its order if it is known and wanted."""
    available = order.available() if order else {}
    return {
        "id": stored.id,
        "number": stored.number,
        "orderId": stored.order_id,
        "status": stored.status,
        "resolution": stored.resolution,
        "currency": currency_of(order) if order else None,
        "order": orjson.Fragment(order.body) if order and with_order else None,
        "lineItems": [_line_row(stored, line, available.get(line.order_line_id, 0)) for line in stored.lines],
        "createdDate": timestamp(stored.created),
        "modifiedDate": timestamp(stored.modified),
        "createdBy": stored.created_by,
        "modifiedBy": stored.modified_by,
    }


def _line_row(stored: Return, line: ReturnLine, available: int) -> ReturnLineRow:
    own = 0 if stored.status == ReturnStatus.CANCELED else line.quantity
    return {
        "id": line.id,
        "returnId": stored.id,
        "orderLineItemId": line.order_line_id,
        "quantity": line.quantity,
        "availableQuantity": available + own,
        "price": line.price,
        "reason": line.reason,
        "createdDate": timestamp(line.created),
        "modifiedDate": timestamp(line.modified),
        "createdBy": line.created_by,
        "modifiedBy": line.modified_by,
    }
