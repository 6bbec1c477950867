"""Orders, and what is returned of them: concurrent returns conflict on the document of the order."""

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, ReplaceOne, UpdateOne

from domain.addresses import bare_address
from domain.orders import NO_BODY, Customer, Order, OrderLine
from domain.privacy import is_of, order_without_customer
from domain.reminders import status_key
from storage.database import Database, Document, Session
from storage.id_ranges import TEXTS, found_in_ranges
from storage.moments import microseconds, moment
from storage.orders.search import NEWEST, OrderPage, OrderPosition, OrderSearch, criteria
from storage.orders.shape import BROUGHT_BY_EVENTS, ORDER, returned_by
from storage.queries import in_stores, write_all
from storage.reminders import states as reminders_states
from storage.returns.documents import RETURN
from storage.shapes import is_field_damaged, is_whole, read, read_for_display, require

COLLECTION: Final = ORDER.collection
_CUSTOMER: Final = ("customerId", "customerName", "customerEmail", "languageCode")
_BEFORE_ALL_EVENTS: Final = datetime.min.replace(tzinfo=UTC)

INDEXES: Final = [
    IndexModel([("customerId", ASCENDING), *NEWEST], name="customer_newest"),
    IndexModel([("storeId", ASCENDING), *NEWEST], name="store_newest"),
    IndexModel([("number", ASCENDING), *NEWEST], name="number_newest"),
    IndexModel(NEWEST, name="newest"),
    reminders_states.INDEX,
]


class OrderRepository:
    """Reads and writes orders."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._orders = database[COLLECTION]

    async def get(self, id: str) -> Order | None:
        """One order, or None."""
        return (await self.of_ids([id])).get(id)

    async def of_ids(
        self, ids: Collection[str], session: Session | None = None, *, with_bodies: bool = True
    ) -> dict[str, Order]:
        """The known ones among these orders, by id. Their bodies, which can be large, may be left out.

        In a transaction, where decisions depend on them, raises StoredDocumentError for an order that has lost too
        much.
        """
        if not ids:
            return {}
        fields = None if with_bodies else {"body": 0}
        found = self._orders.find({"_id": {"$in": list(ids)}}, fields, session=session)
        return {document["_id"]: await self._order_with_returned(document, session) async for document in found}

    async def before_events(self, ids: Collection[str], session: Session) -> dict[str, Order]:
        """The known ones among these orders, by id, to apply their events to.

        A damaged order has stand-ins and no digests, so that its newest event, sent again, restores it. One without its
        status or lines is older than any event. Raises StoredDocumentError for one that can't be read.
        """
        found = self._orders.find({"_id": {"$in": list(ids)}}, session=session)
        return {document["_id"]: await self._order_before_events(document, session) async for document in found}

    async def _order_before_events(self, document: Document, session: Session) -> Order:
        if is_whole(ORDER, document):
            return read(ORDER, _order, document)
        lost = {name for name in ORDER.fields if is_field_damaged(ORDER, document, name)}
        document = {name: value for name, value in document.items() if name not in lost}
        await self._add_returned(document, session)
        order = replace(read(ORDER, _order, document), digests=())
        return replace(order, modified=_BEFORE_ALL_EVENTS) if lost & BROUGHT_BY_EVENTS else order

    async def _order_with_returned(self, document: Document, session: Session | None) -> Order:
        await self._add_returned(document, session)
        if session is None:
            return read_for_display(ORDER, _order, document)
        require(ORDER, document, ("lines",))
        return read(ORDER, _order, document)

    async def _add_returned(self, document: Document, session: Session | None) -> None:
        if document.get("returned") is None:
            # Computed from its returns, so that never more is returned than was ordered.
            returns = self._database[RETURN.collection].find({"orderId": document["_id"]}, session=session)
            document["returned"] = returned_by(await returns.to_list(), is_shown=session is None)

    async def sizes(self, ids: Collection[str]) -> dict[str, int]:
        """The stored size in bytes of each of these orders; unknown ones are left out."""
        found = self._orders.find({"_id": {"$in": list(ids)}}, {"size": {"$bsonSize": "$$ROOT"}})
        return {document["_id"]: document["size"] async for document in found}

    async def ids_of_customer(self, customer_id: str, stores: Collection[str] | None, *, most: int) -> list[str]:
        """The ids of the newest orders of a customer in these stores, or in any, at most `most`."""
        wanted = {"customerId": customer_id, **in_stores(stores)}
        found = self._orders.find(wanted, {"_id": 1}).sort(NEWEST).limit(most)
        return [document["_id"] async for document in found]

    async def customers(self, ids: Collection[str], session: Session | None = None) -> dict[str, Customer]:
        """The customers of the known ones among these orders, by order id, without their damaged fields."""
        found = self._orders.find({"_id": {"$in": list(ids)}}, dict.fromkeys(_CUSTOMER, 1), session=session)
        return {document["_id"]: customer_from(_customer_fields(document)) async for document in found}

    async def forget_customer(self, id: str, session: Session) -> None:
        """Remove the customer from an order, however damaged it is. Conflicts as `save` does."""
        document = await self._orders.find_one({"_id": id}, session=session)
        if document is not None:
            left = order_without_customer(read_for_display(ORDER, _order, document))
            change = {"$set": {**dict.fromkeys(_CUSTOMER), "body": left.body}, "$unset": {"formerCustomers": ""}}
            await self._orders.update_one({"_id": id}, change, session=session)

    async def of_guest(self, person: str) -> list[str]:
        """The ids of orders without a customer id that have this mail address. MongoDB scans all orders."""
        mailbox, at, _ = bare_address(person.strip()).partition("@")
        if not at:
            return []
        wanted = {"customerId": None, "customerEmail": {"$regex": re.escape(mailbox), "$options": "i"}}
        found = found_in_ranges(self._orders, TEXTS, wanted, {"customerEmail": 1})
        return [each["_id"] async for each in found if is_of(Customer(email=each["customerEmail"]), person)]

    async def page(self, search: OrderSearch) -> OrderPage:
        """One page, newest first, without the orders themselves; ties are broken by id."""
        shown = {"modified": 1, "size": {"$bsonSize": "$$ROOT"}}
        # One more shows whether there is another page.
        found = self._orders.find(criteria(search), shown).sort(NEWEST).limit(search.take + 1)
        documents = await found.to_list()
        page = documents[: search.take]
        end = _position(page[-1]) if len(documents) > len(page) else None
        return OrderPage({document["_id"]: document["size"] for document in page}, end)

    async def save(self, orders: Iterable[Order], session: Session) -> None:
        """Write orders as they are now. Another transaction that writes one of them conflicts and is repeated."""
        writes = [ReplaceOne({"_id": order.id}, document_of(order), upsert=True) for order in orders]
        await write_all(self._orders, writes, session)

    async def save_returned(self, orders: Iterable[Order], session: Session) -> None:
        """Write what is returned of orders, and nothing else. Conflicts as `save` does."""
        writes = [UpdateOne({"_id": order.id}, {"$set": {"returned": _returned(order)}}) for order in orders]
        await write_all(self._orders, writes, session)

    async def hold_ids(self, ids: Collection[str], session: Session) -> None:
        """Keep these orders, which are missing, from being stored until the transaction ends: it conflicts with those
        that store one, and is repeated if one was stored since it began."""
        if ids:
            await self._orders.insert_many([{"_id": id} for id in ids], session=session)
            await self._orders.delete_many({"_id": {"$in": list(ids)}}, session=session)

    async def forget_former_customers(self, orders: Iterable[Order]) -> None:
        """Record that the reviews of former customers of these orders were examined."""
        writes = [
            UpdateOne({"_id": order.id}, {"$pullAll": {"formerCustomers": list(order.former_customers)}})
            for order in orders
            if order.former_customers
        ]
        await write_all(self._orders, writes)


def document_of(order: Order) -> Document:
    """An order as it is stored."""
    former = {"formerCustomers": list(order.former_customers)} if order.former_customers else {}
    return {
        "_id": order.id,
        "number": order.number,
        "status": order.status,
        "statusKey": status_key(order.status),
        "statusSince": microseconds(order.status_since),
        "isCancelled": order.is_cancelled,
        "storeId": order.store_id,
        "customerId": order.customer.id,
        "customerName": order.customer.name,
        "customerEmail": order.customer.email,
        "languageCode": order.customer.language_code,
        "modified": microseconds(order.modified),
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
        "observations": [[microseconds(at), status] for at, status in order.observations],
        "digests": list(order.digests),
        "returned": _returned(order),
        "reminder": reminders_states.document_of(order.reminders, order.status_since),
        **former,
    }


def _position(document: Document) -> OrderPosition:
    modified = document.get("modified")
    return OrderPosition(None if modified is None else moment(modified), document["_id"])


def _returned(order: Order) -> list[list[str | int]]:
    # Not a document by line id: ids are free text, field names are not.
    return [[line_id, quantity] for line_id, quantity in order.returned.items()]


def _customer_fields(document: Document) -> Document:
    return {name: None if is_field_damaged(ORDER, document, name) else document[name] for name in _CUSTOMER}


def customer_from(document: Document) -> Customer:
    """The customer in an order's document."""
    return Customer(
        document["customerId"], document["customerName"], document["customerEmail"], document["languageCode"]
    )


def _order(document: Document) -> Order:
    return Order(
        id=document["_id"],
        number=document["number"],
        status=document["status"],
        is_cancelled=document["isCancelled"],
        store_id=document["storeId"],
        customer=customer_from(document),
        modified=moment(document["modified"]),
        lines=tuple(
            OrderLine(line["id"], line["productId"], line["name"], line["quantity"], line["price"])
            for line in document["lines"]
        ),
        body=document.get("body") or NO_BODY,
        observations=tuple((moment(at), status) for at, status in document["observations"]),
        digests=tuple(document["digests"]),
        returned=dict(document["returned"]),
        former_customers=tuple(document.get("formerCustomers", ())),
        reminders=reminders_states.state_from(document["reminder"]),
    )
