"""Orders of the domain."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from domain.orders import NO_BODY, Customer, Order, OrderLine

NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


def order_of(lines: Iterable[OrderLine] = (), **fields: Any) -> Order:
    """An order of one store and customer, modified at `NOON` unless `fields` differ."""
    given = {"id": "o", "number": "CO1", "status": "New", "is_cancelled": False, "store_id": "shop"}
    return Order(
        **{**given, "customer": Customer("anna"), "modified": NOON, "lines": tuple(lines), "body": NO_BODY, **fields}
    )
