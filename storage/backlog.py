"""The work that waits in the database, and since when."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from domain.timestamps import EPOCH
from storage import mails, outbox, parking, returns_parking
from storage.database import Database, Document
from storage.leases import REMINDERS, LeaseRepository, Schedule
from storage.reviews_changes import RelayProgress

PARKED: Final[Mapping[str, str]] = {
    "reviews": parking.COLLECTION,
    "returns": returns_parking.COLLECTION,
    "verdicts": parking.VERDICTS_COLLECTION,
}
"""The collections of parked commands, by kind: `reviews` are moderation, feedback and commands about images."""

_MOST_COUNTED: Final = 100_000


class Waiting(NamedTuple):
    """So many documents wait, the oldest since that moment; None where none does."""

    documents: int
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Parked commands by kind, batches of owed messages, the state that the topic of reviews shows, and the schedule of
    reminders. `mails`: those to be sent, 100,000 of them at most, and when the first was due, or will be."""

    parked: Mapping[str, Waiting]
    owed: Waiting
    mails: Waiting
    relayed_until: datetime | None
    reminders: Schedule | None


async def backlog(database: Database) -> Backlog:
    """The work that waits now."""
    parked, owed, owed_mails, relayed, reminders = await asyncio.gather(
        asyncio.gather(*(_waiting(database, name, "parkedAt") for name in PARKED.values())),
        _waiting(database, outbox.COLLECTION, "at"),
        _owed_mails(database),
        RelayProgress(database).relayed_until(),
        LeaseRepository(database).schedule(REMINDERS),
    )
    return Backlog(dict(zip(PARKED, parked, strict=True)), owed, owed_mails, relayed, reminders)


async def _waiting(database: Database, collection: str, moment: str) -> Waiting:
    """All documents of a collection, with the oldest by an indexed field."""
    count, oldest = await asyncio.gather(
        _number(database, collection),
        _first(database, collection, {}, moment),
    )
    return Waiting(count, oldest)


async def _owed_mails(database: Database) -> Waiting:
    owed = {"dueAt": {"$gt": EPOCH}}
    count, first = await asyncio.gather(
        database[mails.COLLECTION].count_documents(owed, limit=_MOST_COUNTED),
        _first(database, mails.COLLECTION, owed, "dueAt"),
    )
    return Waiting(count, first)


async def _number(database: Database, collection: str) -> int:
    return await database[collection].estimated_document_count()


async def _first(database: Database, collection: str, condition: Document, moment: str) -> datetime | None:
    """The earliest moment in an indexed field."""
    found = await database[collection].find_one(condition, {moment: 1}, sort=[(moment, 1)])
    return found[moment] if found else None
