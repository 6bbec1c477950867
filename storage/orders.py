"""Orders, and what is returned of them: the order's document is what concurrent returns contend for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from pymongo import ASCENDING, IndexModel, ReplaceOne

from domain.orders import Order, OrderLine
from storage.database import Database, Document, Session

COLLECTION: Final = "orders"

INDEXES: Final = [
    IndexModel([("customerId", ASCENDING), ("storeId", ASCENDING)], name="customer_store"),
    IndexModel([("statusKey", ASCENDING), ("statusSince", ASCENDING)], name="status_since"),
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class OrderRepository:
    """Reads and writes orders."""

    def __init__(self, database: Database) -> None:
        self._orders = database[COLLECTION]

    async def get(self, id: str) -> Order | None:
        """One order, or None."""
        document = await self._orders.find_one({"_id": id})
        return _order(document) if document else None

    async def of_ids(self, ids: Collection[str], session: Session | None = None) -> dict[str, Order]:
        """The known ones among these orders, by id."""
        if not ids:
            return {}
        found = self._orders.find({"_id": {"$in": list(ids)}}, session=session)
        return {document["_id"]: _order(document) async for document in found}

    async def known(self, ids: Collection[str]) -> set[str]:
        """Which of these orders are known."""
        found = self._orders.find({"_id": {"$in": list(ids)}}, {"_id": 1})
        return {document["_id"] async for document in found}

    async def save(self, orders: Iterable[Order], session: Session) -> None:
        """Write orders as they are now. Whoever else writes one of them in a transaction of its own has to repeat."""
        writes = [ReplaceOne({"_id": order.id}, _document(order), upsert=True) for order in orders]
        if writes:
            await self._orders.bulk_write(writes, ordered=False, session=session)


def _document(order: Order) -> Document:
    return {
        "_id": order.id,
        "number": order.number,
        "status": order.status,
        "statusKey": order.status.casefold(),
        "statusSince": order.status_since,
        "isCancelled": order.is_cancelled,
        "storeId": order.store_id,
        "customerId": order.customer_id,
        "modified": _microseconds(order.modified),
        "lines": [
            {
                "id": line.id,
                "productId": line.product_id,
                "name": line.name,
                "quantity": line.quantity,
                "price": line.price,
            }
            for line in order.lines
        ],
        "body": order.body,
        "observations": [[_microseconds(moment), status] for moment, status in order.observations],
        "digests": list(order.digests),
        # Not a document by line id: ids are free text, and field names are not.
        "returned": [[line_id, quantity] for line_id, quantity in order.returned.items()],
    }


def _order(document: Document) -> Order:
    return Order(
        id=document["_id"],
        number=document["number"],
        status=document["status"],
        is_cancelled=document["isCancelled"],
        store_id=document["storeId"],
        customer_id=document["customerId"],
        modified=_moment(document["modified"]),
        lines=tuple(
            OrderLine(line["id"], line["productId"], line["name"], line["quantity"], line["price"])
            for line in document["lines"]
        ),
        body=document["body"],
        observations=tuple((_moment(moment), status) for moment, status in document["observations"]),
        digests=tuple(document["digests"]),
        returned=dict(document["returned"]),
    )


def _microseconds(moment: datetime) -> int:
    # MongoDB's dates have milliseconds only, and two events of one millisecond have an order.
    return (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND
