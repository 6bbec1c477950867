"""The work that waits in the database, and its age."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from domain.timestamps import EPOCH
from storage import mails, outbox, parking
from storage.database import Database, Document
from storage.leases import REMINDERS, LeaseRepository, Schedule
from storage.returns import parking as returns_parking
from storage.reviews.changes import Relayed, RelayProgress

PARKED: Final[Mapping[str, str]] = {
    "reviews": parking.COLLECTION,
    "returns": returns_parking.COLLECTION,
    "verdicts": parking.VERDICTS_COLLECTION,
}
"""The collections of parked commands by kind: `reviews` has moderation, feedback and image commands."""

_MOST_COUNTED: Final = 100_000


class Waiting(NamedTuple):
    """The number of waiting documents, and the time since when the oldest waits; None if none does."""

    documents: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """The work that waits."""

    parked: Mapping[str, Waiting]
    """Parked commands by kind."""
    owed: Waiting
    """Batches of messages in the outbox."""
    mails: Waiting
    """Mails to be sent, counted up to 100,000, and the time at which the first was or will be due."""
    relayed: Relayed
    reminders: Schedule | None


async def backlog(database: Database) -> Backlog:
    """Read the backlog."""
    parked, owed, owed_mails, relayed, reminders = await asyncio.gather(
        asyncio.gather(*(_waiting(database, name, "parkedAt") for name in PARKED.values())),
        _waiting(database, outbox.COLLECTION, "at"),
        _owed_mails(database),
        RelayProgress(database).relayed(),
        LeaseRepository(database).schedule(REMINDERS),
    )
    return Backlog(dict(zip(PARKED, parked, strict=True)), owed, owed_mails, relayed, reminders)


async def _waiting(database: Database, collection: str, field: str) -> Waiting:
    """The estimated number of documents in a collection, and the earliest value of an indexed field."""
    count, oldest = await asyncio.gather(
        _estimated_count(database, collection),
        _earliest(database, collection, {}, field),
    )
    return Waiting(count, oldest)


async def _owed_mails(database: Database) -> Waiting:
    owed = {"dueAt": {"$gt": EPOCH}}
    count, first = await asyncio.gather(
        database[mails.COLLECTION].count_documents(owed, limit=_MOST_COUNTED),
        _earliest(database, mails.COLLECTION, owed, "dueAt"),
    )
    return Waiting(count, first)


async def _estimated_count(database: Database, collection: str) -> int:
    return await database[collection].estimated_document_count()


async def _earliest(database: Database, collection: str, condition: Document, field: str) -> datetime | None:
    """The earliest moment in an indexed field; None without documents."""
    found = await database[collection].find_one(condition, {field: 1}, sort=[(field, 1)])
    return found[field] if found else None
