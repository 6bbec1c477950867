"""Moderation commands that came before the submission they are about."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.commands import CommandMark, mark_from
from domain.reviews import Moderation
from messaging.moderation import moderation_from, parked_value
from storage.database import Database

COLLECTION: Final = "parkedCommands"

INDEXES: Final = [
    IndexModel([("reviewId", ASCENDING)], name="review"),
    IndexModel([("parkedAt", ASCENDING)], name="parked"),
    IndexModel([("commandId", ASCENDING)], name="command", sparse=True),
]


class ParkingRepository:
    """Keeps commands until their review is stored, or until they are given up."""

    def __init__(self, database: Database) -> None:
        self._parked = database[COLLECTION]

    async def park(self, commands: Iterable[Moderation], at: datetime) -> None:
        """Park commands; one that is parked already stays as it is."""
        await self._parked.bulk_write(
            [
                UpdateOne({"_id": _id(c)}, {"$setOnInsert": {**parked_value(c), "parkedAt": at}}, upsert=True)
                for c in commands
            ],
            ordered=False,
        )

    async def about(self, review_ids: Collection[str]) -> list[Moderation]:
        """The parked commands about these reviews, in the order in which they came."""
        if not await self._parked.find_one({}, {"_id": 1}):
            return []  # as nearly always: cheaper than to send all the ids
        found = self._parked.find({"reviewId": {"$in": list(review_ids)}})
        commands = [moderation_from(document) async for document in found]
        return sorted(commands, key=lambda c: (c.source.partition, c.source.timestamp, c.source.offset))

    async def release(self, commands: Iterable[Moderation]) -> None:
        """Remove commands that have been passed on or given up."""
        await self._parked.delete_many({"_id": {"$in": [_id(command) for command in commands]}})

    async def parked_before(self, moment: datetime, limit: int) -> list[Moderation]:
        """Commands that have been waiting since before that moment, the oldest first."""
        found = self._parked.find({"parkedAt": {"$lt": moment}}).sort("parkedAt").limit(limit)
        return [moderation_from(document) async for document in found]

    async def waiting_for(self, command_id: str) -> dict[str, CommandMark | None]:
        """The reviews that a command still waits for, by id, with the mark of the command."""
        found = self._parked.find({"commandId": command_id}, {"reviewId": 1, "commandMark": 1})
        return {document["reviewId"]: mark_from(document.get("commandMark")) async for document in found}


def _id(command: Moderation) -> str:
    return f"{command.source}/{command.review_id}"
