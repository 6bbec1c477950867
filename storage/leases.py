"""Leases: one of several candidates does a job, until it releases the lease or the lease expires."""

import os
import socket
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import uuid4

from pymongo import ReturnDocument

from storage.database import Database, Document
from storage.moments import server_time

COLLECTION: Final = "leases"

REMINDERS: Final = "reminders"
"""The lease of the scheduler that sends reminders."""


CLOCK_SKEW: Final = timedelta(minutes=1)
"""Time by which the clock of a holder may be ahead of the server's."""


class Hold(NamedTuple):
    """A lease that is held."""

    is_new: bool
    """True if it was taken just now, not renewed."""
    done: datetime
    """The time at which the job was last done."""
    cron: str | None
    """The cron expression that was recorded last; None while the job is off."""
    since: datetime | None
    """The time since when that is the schedule; None if none was ever recorded."""


class Schedule(NamedTuple):
    """The schedule of a job."""

    cron: str | None
    """The cron expression; None while the job is off."""
    since: datetime
    """The time since when that is the schedule."""
    done: datetime
    """The time at which the job was last done."""


def new_holder() -> str:
    """A name for a holder, unique to it and its process."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:8]}"


class LeaseRepository:
    """Takes and releases leases. Only the server's time counts, so that clients' clocks don't matter."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._leases = database[COLLECTION]

    async def take(self, name: str, holder: str, seconds: float) -> Hold | None:
        """Take a lease, or renew it, for this many seconds from now; None if another holder has it."""
        until = {"$add": ["$$NOW", int(seconds * 1000)]}
        # It is free without a holder, or once the holder's time has run out.
        before = {"$cond": [{"$gt": ["$until", "$$NOW"]}, "$holder", None]}
        is_free = {"$in": [before, [None, holder]]}
        taken: Document = {
            "holder": holder,
            "until": until,
            "isNew": {"$ne": [before, holder]},
            "done": {"$ifNull": ["$done", "$$NOW"]},
        }
        found = await self._leases.find_one_and_update(
            {"_id": name},
            [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"$cond": [is_free, taken, {}]}]}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        if found is None or found["holder"] != holder:
            return None
        return Hold(found["isNew"], found["done"], found.get("cron"), found.get("scheduled"))

    async def now(self) -> datetime:
        """The server's time."""
        return await server_time(self._database)

    async def note_done(self, name: str, at: datetime) -> None:
        """Record, for the next holder of the lease, that the job was done as of this moment: at most CLOCK_SKEW from
        now, also if a later one was recorded before."""
        latest = {"$add": ["$$NOW", int(CLOCK_SKEW.total_seconds() * 1000)]}
        done = {"$min": [{"$max": ["$done", at]}, latest]}
        await self._leases.update_one({"_id": name}, [{"$set": {"done": done}}])

    async def note_schedule(self, name: str, cron: str | None) -> None:
        """Record the schedule that the job has from now on; recording the same one again changes nothing."""
        is_same = {"$and": [{"$eq": ["$cron", {"$literal": cron}]}, {"$gt": ["$scheduled", None]}]}
        since = {"$cond": [is_same, "$scheduled", "$$NOW"]}
        await self._leases.update_one({"_id": name}, [{"$set": {"scheduled": since, "cron": {"$literal": cron}}}])

    async def schedule(self, name: str) -> Schedule | None:
        """The schedule of a job; None if it never had one."""
        found = await self._leases.find_one({"_id": name, "scheduled": {"$exists": True}})
        return Schedule(found["cron"], found["scheduled"], found["done"]) if found else None

    async def is_held(self, name: str) -> bool:
        """True while somebody holds the lease."""
        held = {"_id": name, "$expr": {"$gt": ["$until", "$$NOW"]}}
        return await self._leases.find_one(held, {"_id": 1}) is not None

    async def release(self, name: str, holder: str) -> None:
        """Release the lease, so that the next holder doesn't have to wait."""
        await self._leases.update_one({"_id": name, "holder": holder}, {"$unset": {"holder": "", "until": ""}})
