"""Settled dead letters: each is published again once, however often it is asked for, or discarded."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateOne

from messaging.dead_letters_replays import Hindrance, LetterState, hindrance, letter_id
from messaging.decoding import RawRecord
from storage.database import Database, Session, write_all
from storage.privacy_erasures import Erasures

COLLECTION: Final = "replayedDeadLetters"

_AT_ONCE: Final = 10_000
"""Ids of one answer: a process that reads many does other work in between."""


def indexes(remember_days: int) -> list[IndexModel]:
    """Marks are kept for so many days: longer than Kafka keeps the letters."""
    return [IndexModel([("at", ASCENDING)], name="expiry", expireAfterSeconds=remember_days * 86_400)]


@dataclass(frozen=True, slots=True)
class LetterMark:
    """The record of a settled letter: how often it or what came of its replays was published again, and its state."""

    times: int
    state: LetterState


UNMARKED: Final = LetterMark(0, LetterState.OPEN)


class ReplayRepository:
    """Remembers which dead letters were replayed or discarded, by `letter_id`."""

    def __init__(self, database: Database) -> None:
        self._replays = database[COLLECTION]

    async def marks(self, letters: Collection[str], session: Session | None = None) -> Mapping[str, LetterMark]:
        """The marks of these dead letters; those that nothing was done with are left out."""
        found = self._replays.find({"_id": {"$in": list(letters)}}, session=session)
        return {document["_id"]: _mark(document) async for document in found}

    async def remember(self, letters: Mapping[str, str], at: datetime, session: Session | None = None) -> None:
        """These letters have been published again; by the id of each, that of the first letter of its line."""
        change = {"$inc": {"count": 1}, "$set": {"at": at}, "$unset": {"discarded": 1}}
        writes = [UpdateOne({"_id": id}, change, upsert=True) for id in letters]
        # The first is told by a header, so that it may be anybody's: only a letter that was replayed counts on.
        firsts = [first for id, first in letters.items() if first != id]
        writes += [UpdateOne({"_id": first, "count": {"$gt": 0}}, {"$inc": {"count": 1}}) for first in firsts]
        await write_all(self._replays, writes, session)

    async def discard(self, letters: Collection[str], at: datetime, session: Session | None = None) -> None:
        """These letters are settled without being published again."""
        change = {"$set": {"at": at, "discarded": True}, "$setOnInsert": {"count": 0}}
        writes = [UpdateOne({"_id": id}, change, upsert=True) for id in letters]
        await write_all(self._replays, writes, session)

    async def settled(self, most: int) -> list[str]:
        """The ids of at most so many letters that were replayed or discarded, those that were last before others."""
        found = self._replays.find({}, {"_id": 1}, batch_size=_AT_ONCE).sort("at", DESCENDING).limit(most)
        return [document["_id"] async for document in found]

    async def is_empty(self) -> bool:
        """True if no letter was ever settled."""
        return await self._replays.find_one({}, {"_id": 1}) is None


async def hindrance_of(
    letter: RawRecord,
    mended: bytes | None,
    replays: ReplayRepository,
    erasures: Erasures,
    session: Session | None = None,
) -> Hindrance | None:
    """The reason against replaying a letter as `hindrance` tells it, by what is stored of the letter and its people."""
    id = letter_id(letter)
    mark = (await replays.marks([id], session)).get(id, UNMARKED)
    is_spared = bool(await erasures.spared([letter]))
    return hindrance(letter, mended, state=mark.state, is_spared=is_spared)


def _mark(document: Mapping[str, object]) -> LetterMark:
    is_discarded = bool(document.get("discarded"))
    return LetterMark(int(str(document["count"])), LetterState.DISCARDED if is_discarded else LetterState.REPLAYED)
