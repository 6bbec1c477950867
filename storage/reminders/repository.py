"""Orders that are due for a reminder, and the number of reminders to each customer."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from pymongo import DESCENDING, UpdateOne

from domain.reminders import (
    MOST_TIMES,
    Item,
    ReviewableOrder,
    SentReminders,
    earliest_status_since,
    latest_counted_from,
    status_key,
)
from domain.stores import ReminderSettings
from storage.database import Database, Document, Session
from storage.id_ranges import TEXTS, found_in_ranges
from storage.moments import microseconds, moment
from storage.orders import repository as orders
from storage.orders.shape import ORDER
from storage.queries import write_all
from storage.reminders import states as reminders_states
from storage.shapes import (
    STRING,
    TEXT_OR_NULL,
    WHOLE,
    Shape,
    StoredDocumentError,
    check_whole,
    default_field,
    irrecoverable_field,
    read,
    require,
)

CUSTOMERS: Final = "reminderCustomers"

_NAMES: Final = (
    *("number", "status", "statusSince", "isCancelled", "storeId", "customerId", "customerName", "customerEmail"),
    *("languageCode", "reminder"),
)
_LINES: Final = ("lines.id", "lines.productId", "lines.name", "lines.quantity")
# `modified` stands in for a missing `statusSince`.
_FIELDS: Final = dict.fromkeys((*_NAMES, "modified", *_LINES), 1)
_SIZE: Final[Document] = {"lines": {"$cond": [{"$isArray": "$lines"}, {"$size": "$lines"}, 0]}}

MOST_LINES: Final = 10_000
"""The maximum number of lines of orders that are decided on at once: as many as one order can have. The product ids of
twice as many lines, which a single query looks up, could exceed what MongoDB accepts if they are as long as allowed."""

REMINDED: Final = Shape(CUSTOMERS, {"sent": irrecoverable_field(WHOLE, 0)})

_WHOLE: Final = Shape(orders.COLLECTION, {name: ORDER.fields[name] for name in (*_NAMES, "lines")})
_WHOLE_LINE: Final = Shape(
    orders.COLLECTION,
    {"id": default_field(STRING), **dict.fromkeys(("productId", "name"), default_field(TEXT_OR_NULL))},
)
_WHOLE_STATE: Final = Shape(orders.COLLECTION, dict.fromkeys(("sent", "toCustomer"), default_field(WHOLE)))


class Readable(NamedTuple):
    """Orders that can be decided on, and the errors of damaged ones, which wait until they are mended."""

    orders: list[ReviewableOrder]
    damaged: list[StoredDocumentError]


class Sent(NamedTuple):
    """Reminders by customer, and the errors of damaged documents of customers."""

    of_customers: dict[str, SentReminders]
    damaged: dict[str, StoredDocumentError]


class ReminderRepository:
    """Reads the parts of orders that reminders need, and writes only the state of their reminders."""

    def __init__(self, database: Database) -> None:
        self._orders = database[orders.COLLECTION]
        self._customers = database[CUSTOMERS]

    async def due(
        self,
        settings: ReminderSettings,
        stores: Collection[str | None],
        now: datetime,
        limit: int,
        *,
        without: Collection[str] = (),
    ) -> list[str]:
        """The ids of due orders in these stores, except for those in `without`: at most `limit`, and if several, with
        at most MOST_LINES lines together.

        Orders that aren't due cost nothing, however many there are: see the index.
        """
        found: list[Document] = []
        for due in _due_filters(settings, stores, now):
            if without:
                due["_id"] = {"$nin": list(without)}
            if len(found) < limit:
                more = self._orders.find(due, _SIZE).hint(reminders_states.INDEX_KEYS).limit(limit - len(found))
                found += [document async for document in more]
        return _decidable_at_once(found)

    async def of_ids(self, ids: Collection[str], session: Session | None = None) -> list[ReviewableOrder]:
        """These orders, with stand-ins for lost fields. Raises StoredDocumentError."""
        found = self._orders.find({"_id": {"$in": list(ids)}}, _FIELDS, session=session)
        return [read(ORDER, _reviewable, document) async for document in found]

    async def readable(self, ids: Collection[str], session: Session | None = None) -> Readable:
        """The orders among these that have all fields that reminders depend on, and the errors of the others."""
        found = Readable([], [])
        async for document in self._orders.find({"_id": {"$in": list(ids)}}, _FIELDS, session=session):
            try:
                found.orders.append(_whole_order(document))
            except StoredDocumentError as error:
                found.damaged.append(error)
        return found

    async def in_status(
        self, settings: ReminderSettings, stores: Collection[str | None], now: datetime
    ) -> AsyncIterator[ReviewableOrder]:
        """All orders in the status that reminders are for, the due ones first, as sorted by `due`; without damaged
        ones."""
        dues = _due_filters(settings, stores, now)
        for due in dues:
            async for document in self._orders.find(due, _FIELDS).hint(reminders_states.INDEX_KEYS):
                with suppress(StoredDocumentError):
                    yield _whole_order(document)
        async for document in found_in_ranges(self._orders, TEXTS, _others_filter(settings, dues), _FIELDS):
            with suppress(StoredDocumentError):
                yield _whole_order(document)

    async def others(
        self,
        settings: ReminderSettings,
        stores: Collection[str | None],
        now: datetime,
        limit: int,
        *,
        within: Collection[str] | None = None,
    ) -> list[str]:
        """The ids of orders in the status that aren't due, latest first: at most `limit`, and if several, with at most
        MOST_LINES lines together.

        `within`: only orders of these stores. No index serves this: a few such orders among many cost a scan.
        """
        others = _others_filter(settings, _due_filters(settings, stores, now))
        if within is not None:
            others["storeId"] = {"$in": list(within)}
        found = self._orders.find(others, _SIZE).sort([("$natural", DESCENDING)]).limit(limit)
        return _decidable_at_once([document async for document in found])

    async def save(self, decided: Iterable[ReviewableOrder], session: Session) -> None:
        """Write the state of these orders' reminders."""
        writes = [
            UpdateOne(
                {"_id": order.id},
                {"$set": {"reminder": reminders_states.document_of(order.reminders, order.status_since)}},
            )
            for order in decided
        ]
        await write_all(self._orders, writes, session)

    async def sent_to(self, customers: Collection[str], session: Session | None = None) -> Sent:
        """The reminders to each of these customers over all orders; customers without any are left out."""
        sent = Sent({}, {})
        async for document in self._customers.find({"_id": {"$in": list(customers)}}, session=session):
            try:
                require(REMINDED, document, ("sent",))
                sent.of_customers[document["_id"]] = read(REMINDED, _sent_from, document)
            except StoredDocumentError as error:
                sent.damaged[document["_id"]] = error
        return sent

    async def add_sent(self, customers: Iterable[str], now: datetime, session: Session) -> None:
        """Count a reminder to each of these customers; one named twice got two."""
        writes = []
        for id, count in Counter(customers).items():
            times = {"$each": [microseconds(now)] * count, "$sort": 1, "$slice": -MOST_TIMES}
            writes.append(UpdateOne({"_id": id}, {"$inc": {"sent": count}, "$push": {"times": times}}, upsert=True))
        await write_all(self._customers, writes, session)


def _sent_from(document: Document) -> SentReminders:
    """The reminders in a customer's document."""
    check_whole(REMINDED, document)
    return SentReminders(document["sent"], tuple(map(moment, document.get("times", ()))))


def _due_filters(settings: ReminderSettings, stores: Collection[str | None], now: datetime) -> list[Document]:
    """The filters for due orders: those below the limit, and those for which the limit's period may be over."""
    limit, period_days = settings.max_emails_per_customer, settings.limit_period_days
    due: Document = {
        "statusKey": status_key(settings.order_status),
        "storeId": {"$in": list(stores)},
        "reminder.from": {
            "$gte": microseconds(earliest_status_since(settings, now)),
            "$lte": microseconds(latest_counted_from(settings, now)),
        },
    }
    below = {**due, "reminder.toCustomer": {"$lt": limit}}
    if period_days is None or limit == 0:
        return [below]
    free = {"$not": {"$gt": microseconds(now - timedelta(days=period_days))}}
    return [below, {**due, "reminder.toCustomer": {"$gte": limit}, "reminder.limitSince": free}]


def _decidable_at_once(found: Iterable[Document]) -> list[str]:
    """The ids of the first of these orders that can be decided on at once, at least one."""
    ids, lines = list[str](), 0
    for document in found:
        lines += document["lines"]
        if ids and lines > MOST_LINES:
            break
        ids.append(document["_id"])
    return ids


def _others_filter(settings: ReminderSettings, dues: list[Document]) -> Document:
    return {"statusKey": status_key(settings.order_status), "$nor": dues}


def _whole_order(document: Document) -> ReviewableOrder:
    """The order in a document, to decide on. Raises StoredDocumentError if a stand-in would affect the decision."""
    require(ORDER, document, ("status", "lines"))
    return read(_WHOLE, _checked_order, document)


def _checked_order(document: Document) -> ReviewableOrder:
    check_whole(_WHOLE, document)
    check_whole(_WHOLE_STATE, document["reminder"])
    for line in document["lines"]:
        check_whole(_WHOLE_LINE, line)
    return _reviewable(document)


def _reviewable(document: Document) -> ReviewableOrder:
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
    """The products of an order's lines, each once; a line with the quantity 0 is no purchase."""
    products: dict[str, Item] = {}
    for line in lines:
        if (product_id := line["productId"]) and line.get("quantity") != 0:
            products.setdefault(product_id, Item(product_id, line["name"] or product_id, line["id"]))
    return products.values()
