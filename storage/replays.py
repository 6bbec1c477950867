"""Replayed dead letters: each is published again once, however often it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from storage.database import Database, Session

COLLECTION: Final = "replayedDeadLetters"


def indexes(remember_days: int) -> list[IndexModel]:
    """Replays are remembered for so many days: longer than Kafka keeps the letters."""
    return [IndexModel([("at", ASCENDING)], name="expiry", expireAfterSeconds=remember_days * 86_400)]


class ReplayRepository:
    """Remembers which dead letters were replayed; a letter is `<topic>/<partition>-<offset>-<timestamp>`."""

    def __init__(self, database: Database) -> None:
        self._replays = database[COLLECTION]

    async def counts(self, letters: Collection[str], session: Session | None = None) -> Mapping[str, int]:
        """The number of replays of each of these dead letters; those never replayed are left out."""
        found = self._replays.find({"_id": {"$in": list(letters)}}, session=session)
        return {d["_id"]: d["count"] async for d in found}

    async def remember(self, letters: Collection[str], at: datetime, session: Session | None = None) -> None:
        """These letters have been published again."""
        writes = [UpdateOne({"_id": id}, {"$inc": {"count": 1}, "$set": {"at": at}}, upsert=True) for id in letters]
        if writes:
            await self._replays.bulk_write(writes, ordered=False, session=session)

    async def count(self) -> int:
        """The number of replayed dead letters on record."""
        return await self._replays.estimated_document_count()
