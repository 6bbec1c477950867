"""Parked commands: those that came before the submission they are about."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.delivery import RecordPosition
from domain.reviews import Moderation, ModerationAction
from storage.database import Database, Document

COLLECTION: Final = "parkedCommands"

INDEXES: Final = [
    IndexModel([("reviewId", ASCENDING)], name="review"),
    IndexModel([("parkedAt", ASCENDING)], name="parked"),
    IndexModel([("commandId", ASCENDING)], name="command", sparse=True),
]


class ParkingRepository:
    """Keeps commands until their review is there, or until nobody expects it any more."""

    def __init__(self, database: Database) -> None:
        self._parked = database[COLLECTION]

    async def park(self, commands: Iterable[Moderation], at: datetime) -> None:
        """Park commands; one that is parked already stays as it is."""
        await self._parked.bulk_write(
            [UpdateOne({"_id": _id(c)}, {"$setOnInsert": _document(c, at)}, upsert=True) for c in commands],
            ordered=False,
        )

    async def about(self, review_ids: Collection[str]) -> list[Moderation]:
        """The parked commands about these reviews, in the order in which they came."""
        if not await self._parked.find_one({}, {"_id": 1}):
            return []  # as nearly always: cheaper than to send all the ids
        found = self._parked.find({"reviewId": {"$in": list(review_ids)}})
        commands = [_moderation(document) async for document in found]
        return sorted(commands, key=lambda c: (c.source.partition, c.source.timestamp, c.source.offset))

    async def release(self, commands: Iterable[Moderation]) -> None:
        """Forget commands that have been passed on."""
        await self._parked.delete_many({"_id": {"$in": [_id(command) for command in commands]}})

    async def parked_before(self, moment: datetime, limit: int) -> list[Moderation]:
        """Commands that have been waiting since before that moment, the oldest first."""
        found = self._parked.find({"parkedAt": {"$lt": moment}}).sort("parkedAt").limit(limit)
        return [_moderation(document) async for document in found]

    async def waiting_for(self, command_id: str) -> set[str]:
        """The ids of the reviews that a command still waits for."""
        return {d["reviewId"] async for d in self._parked.find({"commandId": command_id}, {"reviewId": 1})}


def _id(command: Moderation) -> str:
    return f"{command.source}/{command.review_id}"


def _document(command: Moderation, at: datetime) -> Document:
    document: Document = {
        "reviewId": command.review_id,
        "action": command.action.value,
        "source": [command.source.partition, command.source.offset, command.source.timestamp],
        "at": command.at,
        "moderator": command.moderator,
        "reason": command.reason,
        "parkedAt": at,
    }
    if command.command_id:
        document["commandId"] = command.command_id
    if command.stores is not None:
        document["stores"] = list(command.stores)
    return document


def _moderation(document: Document) -> Moderation:
    return Moderation(
        review_id=document["reviewId"],
        action=ModerationAction(document["action"]),
        source=RecordPosition(*document["source"]),
        at=document["at"],
        moderator=document["moderator"],
        reason=document["reason"],
        command_id=document.get("commandId"),
        stores=document.get("stores"),
    )
