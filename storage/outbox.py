"""The outbox: messages that a transaction owes to Kafka, written with its effects and kept until acknowledged.

One document holds the messages of a whole batch, so the promise costs one insert and one delete for hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from domain.delivery import OutgoingMessage
from storage.database import Database, Session

COLLECTION: Final = "outbox"

INDEXES: Final = [IndexModel([("at", ASCENDING)], name="age")]


class OutboxRepository:
    """Keeps messages until they are published."""

    def __init__(self, database: Database) -> None:
        self._outbox = database[COLLECTION]

    async def add(self, messages: Iterable[OutgoingMessage], at: datetime, session: Session) -> ObjectId | None:
        """Owe these messages; the id settles them. None when there are none."""
        packed = [[m.topic, m.key, m.value, [list(header) for header in m.headers]] for m in messages]
        if not packed:
            return None
        id = ObjectId()
        await self._outbox.insert_one({"_id": id, "at": at, "messages": packed}, session=session)
        return id

    async def settle(self, id: ObjectId) -> None:
        """The messages have been acknowledged by the broker."""
        await self._outbox.delete_one({"_id": id})

    async def owed_before(self, moment: datetime, limit: int) -> list[tuple[ObjectId, list[OutgoingMessage]]]:
        """What has been owed since before that moment, the oldest first."""
        found = self._outbox.find({"at": {"$lt": moment}}).sort([("at", ASCENDING), ("_id", ASCENDING)]).limit(limit)
        return [
            (d["_id"], [OutgoingMessage(t, k, v, [(n, b) for n, b in headers]) for t, k, v, headers in d["messages"]])
            async for d in found
        ]
