"""The work of the steps of `domain.schema`, a slice at a time. Slices are idempotent."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from bson import ObjectId
from pymongo import ASCENDING
from pymongo.asynchronous.collection import AsyncCollection

from domain.ratings import Entity
from storage.database import Database, Document
from storage.id_ranges import SIZE, id_ranges, last_of_range
from storage.ratings.repository import COLLECTION as RATINGS
from storage.ratings.repository import key_from
from storage.reviews.queue import ENTER, NOT_QUEUED
from storage.reviews.repository import COLLECTION as REVIEWS


class Slice(NamedTuple):
    """The result of a slice."""

    after: str
    """The last id that was examined."""
    documents: int
    """The number of documents that the slice changes, often none."""
    entities: list[Entity]
    """The objects whose ratings have to be counted from their reviews."""


class StepWork(Protocol):
    """The work of a step on one database."""

    async def count(self) -> int:
        """The number of documents that the step would change."""

    async def slice(self, after: str) -> Slice | None:
        """Process the slice after an id, "" for the first one; None after the last one."""


class _Part(NamedTuple):
    """Documents that a step changes, with their keys, and the last id that was examined."""

    documents: list[Document]
    last: Any


async def _next_part(
    collection: AsyncCollection[Document], wanted: Document, after: str | ObjectId, at_once: int
) -> _Part | None:
    """The next documents that a step changes, among the next SIZE after an id; None if no documents follow."""
    ids: Document = {"$gt": after}
    end = await last_of_range(collection, ids, SIZE)
    within = ids if end is None else {**ids, "$lte": end}
    keys = {"entityType": 1, "entityId": 1, "storeId": 1}
    found = collection.find({**wanted, "_id": within}, keys).sort("_id", ASCENDING).hint("_id_").limit(at_once)
    documents = await found.to_list()
    if len(documents) == at_once or (end is None and documents):
        end = documents[-1]["_id"]
    return None if end is None else _Part(documents, end)


async def _count(collection: AsyncCollection[Document], wanted: Document, ids: Document) -> int:
    ranges = id_ranges(collection, ids)
    return sum([await collection.count_documents({**wanted, **within}, hint="_id_") async for within in ranges])


class CountStars:
    """Step 1: count ratings without a histogram from their reviews."""

    _AT_ONCE: Final = 50
    _FIRST: Final = ObjectId(bytes(12))
    _WANTED: Final[Document] = {"histogram": None, "entityType": {"$exists": True}, "entityId": {"$exists": True}}

    def __init__(self, database: Database) -> None:
        self._ratings = database[RATINGS]

    async def count(self) -> int:
        """The number of ratings without a histogram."""
        return await _count(self._ratings, self._WANTED, {"$gt": self._FIRST})

    async def slice(self, after: str) -> Slice | None:
        """The next of them, by id."""
        part = await _next_part(self._ratings, self._WANTED, ObjectId(after) if after else self._FIRST, self._AT_ONCE)
        if part is None:
            return None
        return Slice(str(part.last), len(part.documents), sorted({key_from(each).entity for each in part.documents}))


class FillQueue:
    """Step 3: put unapproved reviews into the queue."""

    _AT_ONCE: Final = 1_000

    def __init__(self, database: Database) -> None:
        self._reviews = database[REVIEWS]

    async def count(self) -> int:
        """The number of unapproved reviews that aren't in the queue."""
        return await _count(self._reviews, NOT_QUEUED, {"$gt": ""})

    async def slice(self, after: str) -> Slice | None:
        """The next of them, by id."""
        part = await _next_part(self._reviews, NOT_QUEUED, after, self._AT_ONCE)
        if part is None:
            return None
        if ids := [document["_id"] for document in part.documents]:
            await self._reviews.update_many({**NOT_QUEUED, "_id": {"$in": ids}}, ENTER)
        return Slice(part.last, len(ids), [])


WORK: Final[Mapping[int, Callable[[Database], StepWork]]] = {1: CountStars, 3: FillQueue}
"""The work of each step, by its number. Step 2 has none: reviews from before it keep their ids, and are looked up."""
