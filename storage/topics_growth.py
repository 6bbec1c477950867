"""The growth of topics, as the database keeps it."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Final
from uuid import uuid4

from messaging.kafka.partition_counts import Growth, Step
from storage.database import Database, Document

COLLECTION: Final = "topics"


class GrowthRepository:
    """Keeps the growth of each topic, by its name without prefix. Only `plaudit topics grow` changes it."""

    def __init__(self, database: Database) -> None:
        self._topics = database[COLLECTION]

    async def of(self, topic: str) -> Growth | None:
        """The growth of a topic; None if it never grew."""
        found = await self._topics.find_one({"_id": topic})
        return _growth(found) if found else None

    async def all(self) -> dict[str, Growth]:
        """The growth of every topic that ever grew."""
        return {document["_id"]: _growth(document) async for document in self._topics.find({})}

    async def readable(self, topic: str) -> int | None:
        """The number of a topic's partitions that may be read; None: all of them."""
        growth = await self.of(topic)
        return growth.count if growth and growth.to else None

    async def save(self, topic: str, growth: Growth) -> None:
        """Write the growth of a topic."""
        await self._topics.replace_one({"_id": topic}, asdict(growth), upsert=True)

    async def go_to(self, step: Step, topics: Collection[str]) -> None:
        """Move the growing ones of these topics to a step, unless their keys were divided anew already."""
        turn = uuid4().hex if step is Step.SWITCHING else None
        change = {"$set": {"step": step, "turn": turn}, "$currentDate": {"since": True}}
        await self._topics.update_many(_undivided_filter(topics), change)

    async def switch(self, topics: Collection[str], within_s: float) -> bool:
        """Move the growing ones of these topics from the step SWITCHING to SWITCHED. False, and unchanged, if that step
        is longer than `within_s` seconds ago by MongoDB's clock: a write can wait for a server that hangs."""
        is_recent = {"$gt": ["$since", {"$subtract": ["$$NOW", int(within_s * 1000)]}]}
        recent = {**_undivided_filter(topics), "step": Step.SWITCHING, "$expr": is_recent}
        await self._topics.update_many(recent, {"$set": {"step": Step.SWITCHED, "turn": None}})
        # An earlier attempt, whose answer was lost, may have switched them.
        return not await self._topics.count_documents(_undivided_filter(topics))

    async def give_up(self, topics: Collection[str]) -> None:
        """Cancel the growth of these topics, unless their keys were divided anew already."""
        await self._topics.update_many(
            _undivided_filter(topics), {"$set": {"to": None, "step": Step.ANNOUNCED, "turn": None}}
        )

    async def complete(self, topic: str, to: int) -> None:
        """Complete the growth of a topic to this number of partitions: all of it may be read."""
        await self._topics.update_one({"_id": topic, "to": to}, {"$set": asdict(Growth(to))})


def _undivided_filter(topics: Collection[str]) -> Document:
    return {"_id": {"$in": list(topics)}, "to": {"$ne": None}, "step": {"$ne": Step.SWITCHED}}


def _growth(document: Document) -> Growth:
    return Growth(document["count"], document["to"], Step(document["step"]), document["turn"])
