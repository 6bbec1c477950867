"""The work of the steps of `domain.schema`, a slice at a time; each slice may be done twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from bson import ObjectId
from pymongo import ASCENDING

from domain.ratings import Entity
from storage.database import Database, Document
from storage.ratings import COLLECTION as RATINGS
from storage.ratings import key_from
from storage.reviews import COLLECTION as REVIEWS
from storage.reviews_queue import ENTER, NOT_QUEUED


class Slice(NamedTuple):
    """The part that a slice looked at: up to the id `after`, so many documents, and the objects whose ratings are to be
    counted from their reviews."""

    after: str
    documents: int
    entities: list[Entity]


class StepWork(Protocol):
    """The work of a step on one database."""

    async def count(self) -> int:
        """The number of documents that the step would change."""

    async def slice(self, after: str) -> Slice | None:
        """The slice behind an id, "" for the first; None behind the last one."""


class CountStars:
    """Step 1: ratings without a histogram are counted from their reviews."""

    _AT_ONCE: Final = 50
    _WANTED: Final[Document] = {"histogram": None, "entityType": {"$exists": True}, "entityId": {"$exists": True}}

    def __init__(self, database: Database) -> None:
        self._ratings = database[RATINGS]

    async def count(self) -> int:
        """The number of ratings without a histogram."""
        return await self._ratings.count_documents(self._WANTED)

    async def slice(self, after: str) -> Slice | None:
        """The next of them, by their ids."""
        wanted = {**self._WANTED, **({"_id": {"$gt": ObjectId(after)}} if after else {})}
        found = await self._ratings.find(wanted).sort("_id", ASCENDING).limit(self._AT_ONCE).to_list()
        if not found:
            return None
        return Slice(str(found[-1]["_id"]), len(found), sorted({key_from(document).entity for document in found}))


class GivePlaces:
    """Step 2: no document changes. What was stored before keeps its id, and is looked up."""

    def __init__(self, database: Database) -> None:
        pass

    async def count(self) -> int:
        """None."""
        return 0

    async def slice(self, after: str) -> Slice | None:
        """None."""
        return None


class FillQueue:
    """Step 3: unapproved reviews enter the queue."""

    _AT_ONCE: Final = 1_000

    def __init__(self, database: Database) -> None:
        self._reviews = database[REVIEWS]

    async def count(self) -> int:
        """The number of unapproved reviews that aren't in the queue."""
        return await self._reviews.count_documents(NOT_QUEUED)

    async def slice(self, after: str) -> Slice | None:
        """The next of them, by their ids."""
        wanted = {**NOT_QUEUED, **({"_id": {"$gt": after}} if after else {})}
        found = await self._reviews.find(wanted, {"_id": 1}).sort("_id", ASCENDING).limit(self._AT_ONCE).to_list()
        if not found:
            return None
        ids = [document["_id"] for document in found]
        await self._reviews.update_many({**NOT_QUEUED, "_id": {"$in": ids}}, ENTER)
        return Slice(ids[-1], len(ids), [])


WORK: Final[Mapping[int, Callable[[Database], StepWork]]] = {1: CountStars, 2: GivePlaces, 3: FillQueue}
"""The work of each step, by its number."""
