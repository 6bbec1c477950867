"""Returns, and those that wait for their order.

As with reviews, a refused or deleted return leaves its id and its marks for a while: a redelivery of the command isn't
news.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel, ReplaceOne, UpdateOne

from domain.commands import CommandMark, mark_from
from domain.returns import Return
from storage.database import Database, Document, Session
from storage.returns_documents import IS_RETURN, StoredReturn, document_of, shown_from, stored_from
from storage.returns_search import ReturnPage, ReturnPlace, ReturnSearch, criteria, order, place_of

COLLECTION: Final = "returns"
PARKED: Final = "parkedReturns"

SUPERSEDED: Final = ("number",)
"""Indexes of earlier versions that stand in the way: this one had numbers unique over all stores."""
_OLDEST: Final = [("createdDate", ASCENDING), ("_id", ASCENDING)]


def indexes(remember_days: int) -> list[IndexModel]:
    """Indexes of the collection; ids of refused and deleted returns are remembered for so many days."""
    return [
        IndexModel([("orderId", ASCENDING), ("number", ASCENDING)], name="order"),
        IndexModel(
            [("number", ASCENDING), ("storeId", ASCENDING)],
            name="number_in_store",
            unique=True,
            partialFilterExpression={"number": {"$type": "string"}},
        ),
        IndexModel([("createdDate", DESCENDING), ("_id", DESCENDING)], name="newest"),
        IndexModel([("storeId", ASCENDING), ("number", ASCENDING)], name="store"),
        IndexModel([("status", ASCENDING), *_OLDEST], name="status_oldest"),
        IndexModel([("storeId", ASCENDING), ("status", ASCENDING), *_OLDEST], name="store_status_oldest"),
        IndexModel([("storeId", ASCENDING), *_OLDEST], name="store_oldest"),
        IndexModel(
            [("refusedAt", ASCENDING)],
            name="refused_expiry",
            expireAfterSeconds=remember_days * 86_400,
            partialFilterExpression={"refusedAt": {"$exists": True}},
        ),
    ]


PARKED_INDEXES: Final = [
    IndexModel([("orderId", ASCENDING)], name="order"),
    IndexModel([("parkedAt", ASCENDING)], name="parked"),
    IndexModel([("commandId", ASCENDING)], name="command", sparse=True),
]


@dataclass(frozen=True, slots=True)
class ParkedReturn:
    """A command that came before its order: the return's id, and the record's value to send again."""

    id: str
    order_id: str
    value: bytes
    command_id: str | None
    mark: CommandMark | None = None


class ReturnRepository:
    """Reads and writes returns."""

    def __init__(self, database: Database) -> None:
        self._returns = database[COLLECTION]
        self._parked = database[PARKED]

    async def of_ids(self, ids: Collection[str], session: Session | None = None) -> dict[str, StoredReturn]:
        """The returns, refusals and deletions stored under these ids.

        In a transaction, where it is decided about them, raises StoredDocumentError for one that has lost too much.
        """
        found = self._returns.find({"_id": {"$in": list(ids)}}, session=session)
        return {document["_id"]: stored_from(document, is_shown=session is None) async for document in found}

    async def order_ids(self, ids: Collection[str]) -> dict[str, str]:
        """The order of each return; unknown, refused and deleted ones are left out."""
        found = self._returns.find({"_id": {"$in": list(ids)}, **IS_RETURN}, {"orderId": 1})
        return {document["_id"]: document.get("orderId", "?") async for document in found}

    async def save(self, returns: Iterable[StoredReturn], session: Session) -> None:
        """Write returns, and the places of refused and deleted ones, as they are now."""
        writes = [ReplaceOne({"_id": each.id}, document_of(each), upsert=True) for each in returns]
        if writes:
            await self._returns.bulk_write(writes, ordered=False, session=session)

    async def get(self, id: str) -> Return | None:
        """One return, or None."""
        document = await self._returns.find_one({"_id": id, **IS_RETURN})
        return shown_from(document) if document else None

    async def search(self, search: ReturnSearch) -> list[Return]:
        """One page; ties are broken by id."""
        return [shown_from(document) for document in await self._found(search, None, search.take)]

    async def page(self, search: ReturnSearch) -> ReturnPage:
        """The same page, without the returns themselves."""
        fields = dict.fromkeys(("orderId", *(name for name, _ in order(search))), 1)
        shown = {**fields, "size": {"$bsonSize": "$$ROOT"}}
        # One more tells if there is another page.
        found = await self._found(search, shown, search.take + 1)
        documents = found[: search.take]
        places = [ReturnPlace(each["_id"], each.get("orderId", "?"), each["size"]) for each in documents]
        is_last = len(found) == len(documents)
        return ReturnPage(places, None if is_last else place_of(documents[-1].get, search))

    async def _found(self, search: ReturnSearch, fields: Document | None, limit: int) -> list[Document]:
        if search.take == 0:
            return []
        return (
            await self._returns.find(criteria(search), fields)
            .sort(order(search))
            .skip(search.skip)
            .limit(limit)
            .to_list()
        )

    async def count(self, search: ReturnSearch, most: int | None = None) -> int:
        """The number of matching returns over all pages; counted up to `most` at most."""
        limit: dict[str, Any] = {} if most is None else {"limit": most}
        return await self._returns.count_documents(criteria(search), **limit)

    async def park(self, parked: Iterable[ParkedReturn], at: datetime) -> None:
        """Park commands; one that is parked already stays as it is."""
        writes = [
            UpdateOne(
                {"_id": _place(each)},
                {
                    "$setOnInsert": {"returnId": each.id, "orderId": each.order_id, "value": each.value, "parkedAt": at}
                    | ({"commandId": each.command_id} if each.command_id else {})
                    | ({"commandMark": str(each.mark)} if each.mark else {})
                },
                upsert=True,
            )
            for each in parked
        ]
        await self._parked.bulk_write(writes, ordered=False)

    async def parked_for(self, order_ids: Collection[str]) -> list[ParkedReturn]:
        """The commands that wait for these orders, the oldest first."""
        found = self._parked.find({"orderId": {"$in": list(order_ids)}}).sort("parkedAt")
        return [_parked(document) async for document in found]

    async def all_parked(self) -> list[ParkedReturn]:
        """Every command that waits for its order: what came within an hour."""
        return [_parked(document) async for document in self._parked.find()]

    async def rewrite_parked(self, parked: ParkedReturn, value: bytes) -> None:
        """Let the command go on with another value, unless it has gone on already."""
        places = {"_id": {"$in": [_place(parked), parked.id]}, "orderId": parked.order_id}
        await self._parked.update_one(places, {"$set": {"value": value}})

    async def parked_before(self, moment: datetime, limit: int) -> list[ParkedReturn]:
        """Commands that have been waiting since before that moment, the oldest first."""
        found = self._parked.find({"parkedAt": {"$lt": moment}}).sort("parkedAt").limit(limit)
        return [_parked(document) async for document in found]

    async def release(self, parked: Iterable[ParkedReturn]) -> None:
        """Forget commands that have been passed on."""
        places = [place for each in parked for place in (_place(each), each.id)]
        await self._parked.delete_many({"_id": {"$in": places}})

    async def waiting_for(self, command_id: str) -> dict[str, CommandMark | None]:
        """The returns that a command still waits to create, by id, with the mark of the command."""
        found = self._parked.find({"commandId": command_id}, {"returnId": 1, "commandMark": 1})
        return {_parked_id(document): mark_from(document.get("commandMark")) async for document in found}


def _parked(document: Document) -> ParkedReturn:
    command_id, mark = document.get("commandId"), mark_from(document.get("commandMark"))
    return ParkedReturn(_parked_id(document), document["orderId"], document["value"], command_id, mark)


def _parked_id(document: Document) -> str:
    # Earlier versions parked by the id alone, and what they parked waits up to an hour.
    id: str = document.get("returnId") or document["_id"]
    return id


def _place(parked: ParkedReturn) -> dict[str, str]:
    # With the order: others may have chosen the same id, and which of them has it is seen once the orders are known.
    return {"returnId": parked.id, "orderId": parked.order_id}
