"""Returns as MongoDB keeps them.

As with reviews, a refused or deleted return leaves a placeholder with its id and marks for some time, so that a
redelivery of the command has no effect.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel, ReplaceOne, UpdateOne

from domain.returns import Return
from storage.database import Database, Document, Session
from storage.id_ranges import TEXTS, found_in_ranges
from storage.keyset import position_of
from storage.queries import expiry_index, write_all
from storage.returns.documents import (
    IS_RETURN,
    RETURN,
    StoredReturn,
    document_of,
    removal_of_person,
    shown_from,
    stored_from,
)
from storage.returns.search import FoundReturn, ReturnPage, ReturnSearch, criteria, order, with_keyword
from storage.shapes import StoredDocumentError

COLLECTION: Final = RETURN.collection

SUPERSEDED: Final = ("number", "store")
"""Indexes of earlier versions: one had numbers unique over all stores, the other is a part of `store_numbered`."""
_NUMBERED: Final = [("number", ASCENDING), ("_id", ASCENDING)]
_OLDEST: Final = [("createdDate", ASCENDING), ("_id", ASCENDING)]


def indexes(remember_days: int) -> list[IndexModel]:
    """Indexes of the collection; ids of refused and deleted returns are remembered for this many days."""
    return [
        IndexModel([("orderId", ASCENDING), ("number", ASCENDING)], name="order"),
        IndexModel(
            [("number", ASCENDING), ("storeId", ASCENDING)],
            name="number_in_store",
            unique=True,
            partialFilterExpression={"number": {"$type": "string"}},
        ),
        IndexModel([("createdDate", DESCENDING), ("_id", DESCENDING)], name="newest"),
        # The default order of a list.
        IndexModel(_NUMBERED, name="numbered"),
        IndexModel([("storeId", ASCENDING), *_NUMBERED], name="store_numbered"),
        IndexModel([("status", ASCENDING), *_OLDEST], name="status_oldest"),
        IndexModel([("storeId", ASCENDING), ("status", ASCENDING), *_OLDEST], name="store_status_oldest"),
        IndexModel([("storeId", ASCENDING), *_OLDEST], name="store_oldest"),
        expiry_index(
            "refusedAt",
            remember_days,
            name="refused_expiry",
            partialFilterExpression={"refusedAt": {"$exists": True}},
        ),
    ]


class ReturnRepository:
    """Reads and writes returns."""

    def __init__(self, database: Database) -> None:
        self._returns = database[COLLECTION]

    async def of_ids(self, ids: Collection[str], session: Session | None = None) -> dict[str, StoredReturn]:
        """The returns, and the placeholders of refused and deleted ones, with these ids.

        In a transaction, where decisions depend on them, raises StoredDocumentError for a return that has lost too
        much.
        """
        found = self._returns.find({"_id": {"$in": list(ids)}}, session=session)
        return {document["_id"]: stored_from(document, is_shown=session is None) async for document in found}

    async def readable(self, ids: Collection[str], session: Session) -> tuple[list[Return], dict[str, str]]:
        """The returns with these ids, and for each one that has lost too much, by id, the id of its order."""
        returns, damaged = list[Return](), dict[str, str]()
        async for document in self._returns.find({"_id": {"$in": list(ids)}, **IS_RETURN}, session=session):
            try:
                stored = stored_from(document)
            except StoredDocumentError:
                damaged[document["_id"]] = str(document.get("orderId"))
                continue
            if isinstance(stored, Return):
                returns.append(stored)
        return returns, damaged

    async def forget_in_damaged(self, id: str, person: str, session: Session, *, with_texts: bool) -> None:
        """Remove a person's name and, `with_texts`, all free text from a return that can't be read."""
        await self._returns.update_one({"_id": id}, removal_of_person(person, with_texts=with_texts), session=session)

    async def order_ids(self, ids: Collection[str]) -> dict[str, str]:
        """The order of each return, by id; unknown, refused and deleted ones are left out."""
        found = self._returns.find({"_id": {"$in": list(ids)}, **IS_RETURN}, {"orderId": 1})
        return {document["_id"]: document.get("orderId", "?") async for document in found}

    async def ids_of_order(self, order_id: str) -> list[str]:
        """The ids of all returns of an order, by number."""
        found = self._returns.find({"orderId": order_id, **IS_RETURN}, {"_id": 1}).sort("number")
        return [document["_id"] async for document in found]

    async def ids_naming(self, person: str) -> list[str]:
        """The ids of returns that this person made or changed, themselves or one of their lines. MongoDB scans all
        returns, which is acceptable because few ask for it."""
        names = ("createdBy", "modifiedBy", "lines.createdBy", "lines.modifiedBy")
        named = {"$or": [{name: person} for name in names], **IS_RETURN}
        return [each["_id"] async for each in found_in_ranges(self._returns, TEXTS, named, {"_id": 1})]

    async def save(self, returns: Iterable[StoredReturn], session: Session) -> None:
        """Write returns, and placeholders of refused and deleted ones, as they are now."""
        now = datetime.now(UTC)
        writes = [ReplaceOne({"_id": each.id}, document_of(each, now), upsert=True) for each in returns]
        await write_all(self._returns, writes, session)

    async def give_stores(self, stores: Mapping[str, str]) -> None:
        """Set the store of those returns of these orders that have none; `stores` is by order id. Raises BulkWriteError
        if another return of the store has the number of one; all others have their store then."""
        if not stores:
            return
        storeless: Document = {"storeId": None, **IS_RETURN}
        found = await self._returns.find({"orderId": {"$in": list(stores)}, **storeless}, {"orderId": 1}).to_list()
        writes = [
            UpdateOne({"_id": each["_id"], **storeless}, {"$set": {"storeId": stores[each["orderId"]]}})
            for each in found
        ]
        await write_all(self._returns, writes)

    async def get(self, id: str) -> Return | None:
        """One return, or None."""
        document = await self._returns.find_one({"_id": id, **IS_RETURN})
        return shown_from(document) if document else None

    async def page(self, search: ReturnSearch) -> ReturnPage:
        """One page, without the returns themselves; ties are broken by id."""
        if search.take == 0:
            return ReturnPage([], None)
        search = await self._by_number(search)
        fields = dict.fromkeys(("orderId", *(name for name, _ in order(search))), 1)
        shown = {**fields, "size": {"$bsonSize": "$$ROOT"}}
        sorted_returns = self._returns.find(criteria(search), shown).sort(order(search))
        # One more shows whether there is another page.
        found = await sorted_returns.skip(search.skip).limit(search.take + 1).to_list()
        documents = found[: search.take]
        rows = [FoundReturn(each["_id"], each.get("orderId", "?"), each["size"]) for each in documents]
        is_last = len(found) == len(documents)
        return ReturnPage(rows, None if is_last else position_of(documents[-1], order(search)))

    async def count(self, search: ReturnSearch, most: int | None = None) -> int:
        """The number of matching returns over all pages, counted up to `most`."""
        search = await self._by_number(search)
        limit: dict[str, Any] = {} if most is None else {"limit": most}
        return await self._returns.count_documents(criteria(search), **limit)

    async def count_at_bounded_cost(self, search: ReturnSearch, most: int, among: int) -> int:
        """The number of matching returns, counted up to `most`; with a keyword that is no number, only among the newest
        `among` of those that meet the other criteria."""
        search = await self._by_number(search)
        if not search.keyword:
            return await self.count(search, most)
        stages: list[Document] = [
            {"$match": criteria(replace(search, keyword=None))},
            {"$sort": {"createdDate": DESCENDING, "_id": DESCENDING}},
            {"$limit": among},
            {"$match": with_keyword(search.keyword)},
            {"$limit": most},
            {"$count": "count"},
        ]
        counted = await (await self._returns.aggregate(stages)).to_list()
        return int(counted[0]["count"]) if counted else 0

    async def _by_number(self, search: ReturnSearch) -> ReturnSearch:
        """The search by number, which an index serves, if its keyword is that of a matching return, and no other number
        in its stores begins with it; else the same search."""
        text = (search.keyword or "").strip()
        if not text:
            return search
        numbers = sorted({text, text.upper()})
        exact = replace(search, keyword=None, numbers=numbers)
        if await self._returns.find_one(criteria(replace(exact, after=None)), {"_id": 1}) is None:
            return search
        in_its_stores = criteria(ReturnSearch(store_id=search.store_id, stores=search.stores))
        longer = [{"number": {"$gt": each, "$lt": f"{each}\U0010ffff"}} for each in numbers]
        has_longer = await self._returns.find_one({"$and": [in_its_stores, {"$or": longer}]}, {"_id": 1}) is not None
        return search if has_longer else exact
