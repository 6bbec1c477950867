"""Trace contexts of long waits: of reviews until they are moderated, of commands while they are parked.

Written and read only while tracing is on, so that other documents don't have to know of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from storage.database import Database

COLLECTION: Final = "traces"
REMEMBERED_SECONDS: Final = 7 * 86_400
"""About as long as tracing systems keep a trace."""

INDEXES: Final = [IndexModel([("at", ASCENDING)], name="expiry", expireAfterSeconds=REMEMBERED_SECONDS)]


class TraceRepository:
    """Remembers the first trace context of each thing, by its id."""

    def __init__(self, database: Database) -> None:
        self._traces = database[COLLECTION]

    async def remember(self, contexts: Mapping[str, str], at: datetime) -> None:
        """Keep contexts (`traceparent`) by id; an empty one is none, and an id that has one keeps it."""
        writes = [
            UpdateOne({"_id": id}, {"$setOnInsert": {"traceparent": context, "at": at}}, upsert=True)
            for id, context in contexts.items()
            if context
        ]
        if writes:
            await self._traces.bulk_write(writes, ordered=False)

    async def of(self, ids: Collection[str]) -> dict[str, str]:
        """The contexts that are remembered."""
        if not ids:
            return {}
        return {d["_id"]: d["traceparent"] async for d in self._traces.find({"_id": {"$in": list(ids)}})}
