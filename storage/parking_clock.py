"""The time that counts for what is parked: that in which a worker was there to bring what it waits for."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Final

from pymongo import ReturnDocument

from storage.backlog import PARKED
from storage.database import Database, Document, Session, in_transaction

COLLECTION: Final = "parkingClock"

_ID: Final = "workers"


class ParkingClock:
    """Notes that workers work, and leaves out of parking times how long none did. Time is the server's alone."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock = database[COLLECTION]

    async def tick(self, longest: timedelta) -> timedelta:
        """Note that a worker works now. Returns for how long none did if that is more than `longest`, else zero.

        What was parked before waits for that much longer. One of several workers sees the gap, and no other one gives
        anything up before the parking times have followed: both are one transaction.
        """
        return await in_transaction(self._database, partial(self._tick, longest))

    async def _tick(self, longest: timedelta, session: Session) -> timedelta:
        gap = {"$subtract": ["$$NOW", {"$ifNull": ["$at", "$$NOW"]}]}
        found = await self._clock.find_one_and_update(
            {"_id": _ID},
            [{"$set": {"gap": gap, "at": "$$NOW"}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        noted: Document = found or {}
        away = timedelta(milliseconds=noted["gap"])
        if away <= longest:
            return timedelta()
        later = [{"$set": {"parkedAt": {"$add": ["$parkedAt", noted["gap"]]}}}]
        for name in PARKED.values():
            await self._database[name].update_many(
                {"parkedAt": {"$lte": noted["at"] - longest}}, later, session=session
            )
        return away
