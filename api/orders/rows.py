"""Orders as the API shows them."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

import orjson
from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from domain.orders import Order, OrderLine, currency_in
from domain.stores import Store, store_name
from domain.timestamps import timestamp
from messaging.schemas import ShownMoment

OrderEvent = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": True,
            "description": "The order with all fields of its last event",
        }
    ),
]
"""An order as its last event had it."""


class OrderLineRow(TypedDict):
    """A line of an order. `price` is per piece; `availableQuantity` is still returnable, over all lines with this
    id."""

    id: str
    productId: str | None
    name: str | None
    quantity: int
    price: float | None
    availableQuantity: int


class OrderRow(TypedDict):
    """An order. `currency`: that of its prices, like EUR, if its last event names one. `provesPurchase`, if the search
    names an object: the customer bought it with this order."""

    id: str
    number: str | None
    status: str
    statusSince: ShownMoment
    isCancelled: bool
    storeId: str | None
    storeName: str | None
    customerId: str | None
    customerName: str | None
    modifiedDate: ShownMoment
    currency: str | None
    lineItems: list[OrderLineRow]
    provesPurchase: NotRequired[bool]


class OrderDetails(OrderRow):
    """One order, with all fields of its last event in `order`."""

    customerEmail: str | None
    languageCode: str | None
    order: OrderEvent


class OrderList(TypedDict):
    """One page of a list, newest first; `next` is the `after` of the next page, if there is one."""

    next: NotRequired[str]
    results: list[OrderRow]


def order_row(order: Order, stores: Mapping[str, Store]) -> OrderRow:
    """An order as a row of a list."""
    available = order.available()
    return {
        "id": order.id,
        "number": order.number,
        "status": order.status,
        "statusSince": timestamp(order.status_since),
        "isCancelled": order.is_cancelled,
        "storeId": order.store_id,
        "storeName": store_name(order.store_id, stores),
        "customerId": order.customer.id,
        "customerName": order.customer.name,
        "modifiedDate": timestamp(order.modified),
        "currency": currency_of(order),
        "lineItems": [_line_row(line, available[line.id]) for line in order.lines],
    }


def order_details(order: Order, stores: Mapping[str, Store]) -> OrderDetails:
    """An order with all its fields."""
    return {
        **order_row(order, stores),
        "customerEmail": order.customer.email,
        "languageCode": order.customer.language_code,
        "order": orjson.Fragment(order.body),
    }


def currency_of(order: Order) -> str | None:
    """The code of an order's currency, like EUR, by the fields of its last event; None if they don't have it."""
    try:
        event = orjson.loads(order.body)
    except orjson.JSONDecodeError:
        return None
    return currency_in(event) if isinstance(event, dict) else None


def _line_row(line: OrderLine, available: int) -> OrderLineRow:
    return {
        "id": line.id,
        "productId": line.product_id,
        "name": line.name,
        "quantity": line.quantity,
        "price": line.price,
        "availableQuantity": available,
    }
