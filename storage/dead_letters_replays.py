"""Settled dead letters: each is published again once, however often that is requested, or discarded."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import DESCENDING, IndexModel, UpdateOne

from messaging.dead_letters_replays import LetterState, ReplayObstacle, letter_id, replay_obstacle
from messaging.decoding import RawRecord
from storage.database import Database, Document, Session
from storage.privacy.erasures import Erasures
from storage.queries import expiry_index, write_all

COLLECTION: Final = "replayedDeadLetters"

_AT_ONCE: Final = 10_000
"""Ids in one batch of a cursor: a process that reads many does other work in between."""


def indexes(remember_days: int) -> list[IndexModel]:
    """Indexes of the collection. Marks are kept for this many days: longer than Kafka keeps the letters."""
    return [expiry_index("at", remember_days)]


@dataclass(frozen=True, slots=True)
class LetterMark:
    """The mark of a settled letter."""

    times: int
    """The number of times that it, or a letter that came of its replays, was published again."""
    state: LetterState


UNMARKED: Final = LetterMark(0, LetterState.OPEN)


class ReplayRepository:
    """Remembers which dead letters were replayed or discarded, by `letter_id`."""

    def __init__(self, database: Database) -> None:
        self._replays = database[COLLECTION]

    async def marks(self, letters: Collection[str], session: Session | None = None) -> Mapping[str, LetterMark]:
        """The marks of these dead letters; letters that were never settled are left out."""
        found = self._replays.find({"_id": {"$in": list(letters)}}, session=session)
        return {document["_id"]: _mark(document) async for document in found}

    async def remember(self, letters: Mapping[str, str], at: datetime, session: Session | None = None) -> None:
        """Record that these letters were published again; by the id of each, that of the first letter of its chain."""
        change = {"$inc": {"count": 1}, "$set": {"at": at}, "$unset": {"discarded": 1}}
        writes = [UpdateOne({"_id": id}, change, upsert=True) for id in letters]
        # A header names the first letter, so that it may be anybody's: only a letter that was replayed is counted.
        first_ids = [first for id, first in letters.items() if first != id]
        writes += [UpdateOne({"_id": first, "count": {"$gt": 0}}, {"$inc": {"count": 1}}) for first in first_ids]
        await write_all(self._replays, writes, session)

    async def discard(self, letters: Collection[str], at: datetime, session: Session | None = None) -> None:
        """Settle these letters without publishing them again."""
        change = {"$set": {"at": at, "discarded": True}, "$setOnInsert": {"count": 0}}
        writes = [UpdateOne({"_id": id}, change, upsert=True) for id in letters]
        await write_all(self._replays, writes, session)

    async def settled(self, most: int) -> list[str]:
        """The ids of at most `most` letters that were replayed or discarded, latest first."""
        found = self._replays.find({}, {"_id": 1}, batch_size=_AT_ONCE).sort("at", DESCENDING).limit(most)
        return [document["_id"] async for document in found]

    async def is_empty(self) -> bool:
        """True if no settled letter is on record."""
        return await self._replays.find_one({}, {"_id": 1}) is None


async def obstacle_to_replay(
    letter: RawRecord,
    mended: bytes | None,
    replays: ReplayRepository,
    erasures: Erasures,
    session: Session | None = None,
) -> ReplayObstacle | None:
    """The obstacle to replaying a letter, by the stored data about the letter and its people; None if there is none."""
    id = letter_id(letter)
    mark = (await replays.marks([id], session)).get(id, UNMARKED)
    is_replayable = bool(await erasures.replayable([letter]))
    return replay_obstacle(letter, mended, state=mark.state, is_replayable=is_replayable)


def _mark(document: Document) -> LetterMark:
    return LetterMark(document["count"], LetterState.DISCARDED if document.get("discarded") else LetterState.REPLAYED)
