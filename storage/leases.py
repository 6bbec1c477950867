"""Leases: of those who could do a job, one does, until it lets go or its time runs out."""

import os
import socket
from datetime import datetime
from typing import Final, NamedTuple
from uuid import uuid4

from pymongo import ReturnDocument

from storage.database import Database, Document

COLLECTION: Final = "leases"

REMINDERS: Final = "reminders"
"""The lease of the scheduler that sends reminders."""


class Hold(NamedTuple):
    """A lease that is held: whether it was taken just now, when the job was last done, and the schedule that was noted
    last: its cron expression, None while it was off, and since when it is that; `since` is None where none ever was."""

    is_new: bool
    done: datetime
    cron: str | None = None
    since: datetime | None = None


class Schedule(NamedTuple):
    """The schedule of a job: its cron expression, None while it is off, since when, and when the job was last done."""

    cron: str | None
    since: datetime
    done: datetime


def new_holder() -> str:
    """A name for a holder, of this process and nobody else."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:8]}"


class LeaseRepository:
    """Takes and releases leases. Time is the server's alone, so that clients' clocks don't matter."""

    def __init__(self, database: Database) -> None:
        self._leases = database[COLLECTION]

    async def take(self, name: str, holder: str, seconds: float) -> Hold | None:
        """Take a lease, or renew it, for so many seconds from now. None if another holder has it."""
        until = {"$add": ["$$NOW", int(seconds * 1000)]}
        before = {"$cond": [{"$gt": ["$until", "$$NOW"]}, "$holder", None]}
        taken: Document = {
            "holder": holder,
            "until": until,
            "isNew": {"$ne": [before, holder]},
            "done": {"$ifNull": ["$done", "$$NOW"]},
        }
        found = await self._leases.find_one_and_update(
            {"_id": name},
            # Without a holder, or with one whose time has run out, it is free.
            [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"$cond": [_is_free(before, holder), taken, {}]}]}}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        if found is None or found["holder"] != holder:
            return None
        return Hold(found["isNew"], found["done"], found.get("cron"), found.get("scheduled"))

    async def note_done(self, name: str, at: datetime) -> None:
        """Remember that the job was done, as it stood at that moment, for the next holder of the lease."""
        await self._leases.update_one({"_id": name}, {"$max": {"done": at}})

    async def note_schedule(self, name: str, cron: str | None) -> None:
        """Remember the schedule that the job has from now on; the same one again changes nothing."""
        is_same = {"$and": [{"$eq": ["$cron", {"$literal": cron}]}, {"$gt": ["$scheduled", None]}]}
        since = {"$cond": [is_same, "$scheduled", "$$NOW"]}
        await self._leases.update_one({"_id": name}, [{"$set": {"scheduled": since, "cron": {"$literal": cron}}}])

    async def schedule(self, name: str) -> Schedule | None:
        """The schedule of a job, None where it never had one."""
        found = await self._leases.find_one({"_id": name, "scheduled": {"$exists": True}})
        return Schedule(found["cron"], found["scheduled"], found["done"]) if found else None

    async def is_held(self, name: str) -> bool:
        """True if somebody holds the lease."""
        held = {"_id": name, "$expr": {"$gt": ["$until", "$$NOW"]}}
        return await self._leases.find_one(held, {"_id": 1}) is not None

    async def release(self, name: str, holder: str) -> None:
        """Let go, so that another one needn't wait."""
        await self._leases.update_one({"_id": name, "holder": holder}, {"$unset": {"holder": "", "until": ""}})


def _is_free(before: Document, holder: str) -> Document:
    return {"$in": [before, [None, holder]]}
