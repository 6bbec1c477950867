"""What is kept of one person, and the record of those who were forgotten."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from pymongo import ASCENDING, IndexModel

from domain.orders import Order
from domain.privacy import forgotten_order, forgotten_return, mark_of
from domain.returns import Return
from storage.audit import COLLECTION as AUDIT_LOG
from storage.database import Database, Document, Session, in_transaction
from storage.mails import COLLECTION as MAILS
from storage.mails import MailRepository
from storage.orders import COLLECTION as ORDERS
from storage.orders import OrderRepository
from storage.reminders import CUSTOMERS
from storage.returns import ReturnRepository, ReturnSearch
from storage.reviews import COLLECTION as REVIEWS

ERASURES: Final = "erasures"

INDEXES: Final = [IndexModel([("mark", ASCENDING)], name="mark")]

_PAGE: Final = 1_000


class PersonalData:
    """Finds what one customer left, and forgets it, all but reviews: those are deleted by their consumer."""

    def __init__(self, database: Database, customer_id: str) -> None:
        self._database = database
        self._customer = customer_id
        self._orders = OrderRepository(database)
        self._returns = ReturnRepository(database)

    async def reviews(self) -> list[Document]:
        """Their reviews as they are stored, in any store and status."""
        return await self._database[REVIEWS].find({"userId": self._customer}).sort("_id").to_list()

    async def review_ids(self, limit: int) -> list[str]:
        """The ids of some of their reviews."""
        found = self._database[REVIEWS].find({"userId": self._customer}, {"_id": 1}).limit(limit)
        return [document["_id"] async for document in found]

    async def orders(self) -> list[Order]:
        """Their orders."""
        found = await self._orders.of_ids(await self._order_ids())
        return [found[id] for id in sorted(found)]

    async def returns(self) -> list[Return]:
        """The returns of their orders."""
        return [each for id in await self._order_ids() for each in await self._returns_of(id)]

    async def reminders(self) -> int:
        """How many reminders they have got."""
        document = await self._database[CUSTOMERS].find_one({"_id": self._customer})
        return int(document["sent"]) if document else 0

    async def waiting_mails(self) -> list[bytes]:
        """The mails to them that have not been sent yet."""
        found = self._database[MAILS].find(self._mails_filter(), {"record.value": 1})
        return [document["record"]["value"] async for document in found]

    async def audit_entries(self) -> list[Document]:
        """What they did as a moderator; it stays."""
        return await self._database[AUDIT_LOG].find({"subject": self._customer}, {"_id": 0}).sort("at").to_list()

    async def forget_orders(self) -> Mapping[str, int]:
        """Take them out of their orders, and their words out of the returns; returns how many there were of each.

        Order by order, each in one transaction: whoever changes it at the same time does so before or after.
        """
        orders, returns = 0, 0
        for id in await self._order_ids():
            forgotten = await in_transaction(self._database, partial(self._forget_order, id))
            orders += 1
            returns += forgotten
        return {"orders": orders, "returns": returns}

    async def forget_mails(self, at: datetime) -> int:
        """Give up the mails to them that have not been sent; their ids stay taken."""
        found = self._database[MAILS].find(self._mails_filter(), {"_id": 1})
        ids = [document["_id"] async for document in found]
        return await MailRepository(self._database).give_up(ids, at)

    async def forget_reminders(self) -> int:
        """Forget how many reminders they got; returns how many that were."""
        sent = await self.reminders()
        await self._database[CUSTOMERS].delete_one({"_id": self._customer})
        return sent

    async def _forget_order(self, id: str, session: Session) -> int:
        order = (await self._orders.of_ids([id], session)).get(id)
        if order is None or order.customer_id != self._customer:
            return 0
        stored = await self._returns.of_ids([each.id for each in await self._returns_of(id)], session)
        returns = [forgotten_return(each, self._customer) for each in stored.values() if isinstance(each, Return)]
        await self._orders.save([forgotten_order(order)], session)
        await self._returns.save(returns, session)
        return len(returns)

    async def _order_ids(self) -> list[str]:
        found = self._database[ORDERS].find({"customerId": self._customer}, {"_id": 1})
        return sorted([document["_id"] async for document in found])

    async def _returns_of(self, order_id: str) -> list[Return]:
        return await self._returns.search(ReturnSearch(order_id=order_id, take=_PAGE))

    def _mails_filter(self) -> Document:
        return {"record.key": self._customer.encode()}


class Erasures:
    """The record of who was forgotten when: by a mark of their id, not by the id."""

    def __init__(self, database: Database) -> None:
        self._erasures = database[ERASURES]

    async def add(self, customer_id: str, at: datetime, counts: Mapping[str, int]) -> None:
        """Somebody has been forgotten, with so many things of each kind."""
        await self._erasures.insert_one({"mark": mark_of(customer_id), "at": at, "counts": dict(counts)})

    async def latest(self, people: Collection[str]) -> dict[str, datetime]:
        """When those of these people who were forgotten were so last."""
        people_of = {mark_of(person): person for person in people}
        found = self._erasures.find({"mark": {"$in": list(people_of)}}).sort("at", ASCENDING)
        return {people_of[document["mark"]]: document["at"] async for document in found}
