"""The growth of topics: among how many partitions keys are divided, and which of them may be read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from storage.database import Database, Document

COLLECTION: Final = "topics"


class Step(StrEnum):
    """What our own processes do while a topic grows: divide its keys as before, wait, or divide them anew."""

    ANNOUNCED = "announced"
    SWITCHING = "switching"
    SWITCHED = "switched"


@dataclass(frozen=True, slots=True)
class Growth:
    """The partitions of a topic: `count` of them may be read; while it grows, `to` so many are made."""

    count: int
    to: int | None = None
    step: Step = Step.ANNOUNCED

    @property
    def published(self) -> int | None:
        """The number of partitions among which our own processes divide keys; None while that changes."""
        if self.to is None or self.step is Step.ANNOUNCED:
            return self.count
        return self.to if self.step is Step.SWITCHED else None


class GrowthRepository:
    """Keeps the growth of each topic, by its name without prefix. One process changes it, `plaudit topics grow`."""

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
        """So many partitions of a topic may be read; None: all of them."""
        growth = await self.of(topic)
        return growth.count if growth and growth.to else None

    async def save(self, topic: str, growth: Growth) -> None:
        """Write the growth of a topic."""
        fields = {"count": growth.count, "to": growth.to, "step": growth.step}
        await self._topics.replace_one({"_id": topic}, fields, upsert=True)

    async def go_to(self, step: Step, topics: Collection[str]) -> None:
        """Have all of these topics, which grow, at a step."""
        await self._topics.update_many({"_id": {"$in": list(topics)}}, {"$set": {"step": step}})


def _growth(document: Document) -> Growth:
    # A growth that the version before began has no step.
    return Growth(document["count"], document["to"], Step(document.get("step", Step.ANNOUNCED)))
