"""The growth of topics: among how many partitions keys are divided, and which of them may be read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from storage.database import Database, Document

COLLECTION: Final = "topics"


@dataclass(frozen=True, slots=True)
class Growth:
    """The partitions of a topic: keys are divided among `count`; while it grows, `to` so many are made."""

    count: int
    to: int | None = None


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
        await self._topics.replace_one({"_id": topic}, asdict(growth), upsert=True)


def _growth(document: Document) -> Growth:
    return Growth(document["count"], document["to"])
