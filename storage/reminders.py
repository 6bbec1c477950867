"""Orders that are due for a reminder, and the number of reminders to each customer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from pymongo import UpdateOne

from domain.reminders import Item, ReviewableOrder, due_up_to, status_key
from domain.stores import ReminderSettings
from storage import orders, reminders_states
from storage.database import Database, Document, Session
from storage.moments import microseconds, moment

CUSTOMERS: Final = "reminderCustomers"

_FIELDS: Final = dict.fromkeys(
    (
        *("number", "status", "statusSince", "isCancelled", "storeId", "customerId", "customerName", "customerEmail"),
        *("languageCode", "lines.productId", "lines.name", "reminder"),
    ),
    1,
)


class ReminderRepository:
    """Reads orders without what reminders don't need, and writes only how far their reminders have come."""

    def __init__(self, database: Database) -> None:
        self._orders = database[orders.COLLECTION]
        self._customers = database[CUSTOMERS]

    async def due(
        self, settings: ReminderSettings, stores: Collection[str | None], now: datetime, limit: int
    ) -> list[str]:
        """The ids of orders in these stores that are due, at most so many.

        What is not due costs nothing, whatever its number: see the index.
        """
        found = self._orders.find(_due(settings, stores, now), {"_id": 1}).hint(reminders_states.INDEX_NAME)
        return [document["_id"] async for document in found.limit(limit)]

    async def of_ids(self, ids: Collection[str], session: Session | None = None) -> list[ReviewableOrder]:
        """These orders."""
        return [_order(d) async for d in self._orders.find({"_id": {"$in": list(ids)}}, _FIELDS, session=session)]

    async def in_status(
        self, settings: ReminderSettings, stores: Collection[str | None], now: datetime
    ) -> AsyncIterator[ReviewableOrder]:
        """Every order in the status that reminders are for: first those that are due, in the order of `due`."""
        due = _due(settings, stores, now)
        others = {"statusKey": due["statusKey"], "$nor": [due]}
        async for document in self._orders.find(due, _FIELDS).hint(reminders_states.INDEX_NAME):
            yield _order(document)
        async for document in self._orders.find(others, _FIELDS):
            yield _order(document)

    async def save(self, completed: Iterable[ReviewableOrder], session: Session) -> None:
        """Write how far the reminders of these orders have come."""
        writes = [
            UpdateOne({"_id": o.id}, {"$set": {"reminder": reminders_states.document_of(o.reminders, o.status_since)}})
            for o in completed
        ]
        if writes:
            await self._orders.bulk_write(writes, ordered=False, session=session)

    async def sent_to(self, customers: Collection[str], session: Session | None = None) -> dict[str, int]:
        """The number of reminders to each of these customers over all orders; those without any are left out."""
        found = self._customers.find({"_id": {"$in": list(customers)}}, session=session)
        return {document["_id"]: document["sent"] async for document in found}

    async def save_sent(self, sent: Mapping[str, int], session: Session) -> None:
        """Write how many reminders these customers have got by now."""
        writes = [UpdateOne({"_id": id}, {"$set": {"sent": count}}, upsert=True) for id, count in sent.items()]
        if writes:
            await self._customers.bulk_write(writes, ordered=False, session=session)


def _due(settings: ReminderSettings, stores: Collection[str | None], now: datetime) -> Document:
    return {
        "statusKey": status_key(settings.order_status),
        "storeId": {"$in": list(stores)},
        "reminder.toCustomer": {"$lt": settings.max_emails_per_customer},
        "reminder.from": {"$lte": microseconds(due_up_to(settings, now))},
    }


def _order(document: Document) -> ReviewableOrder:
    return ReviewableOrder(
        id=document["_id"],
        number=document["number"],
        status=document["status"],
        status_since=moment(document["statusSince"]),
        is_cancelled=document["isCancelled"],
        store_id=document["storeId"],
        customer=orders.customer_from(document),
        items=tuple(_items(document["lines"])),
        reminders=reminders_states.state_from(document["reminder"]),
    )


def _items(lines: Iterable[Mapping[str, Any]]) -> Iterable[Item]:
    """The products of an order's lines, each once."""
    products: dict[str, Item] = {}
    for line in lines:
        if product_id := line["productId"]:
            products.setdefault(product_id, Item(product_id, line["name"] or product_id))
    return products.values()
