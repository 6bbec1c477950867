"""Outcomes of commands, kept for a day for those who sent them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.reviews import Outcome
from storage.database import Database, Session

COLLECTION: Final = "outcomes"
REMEMBERED_SECONDS: Final = 86_400

INDEXES: Final = [IndexModel([("at", ASCENDING)], name="expiry", expireAfterSeconds=REMEMBERED_SECONDS)]


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one item of a command."""

    command_id: str
    item_id: str
    outcome: Outcome
    reason: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The command and the item: the pair that it is found by."""
        return self.command_id, self.item_id


class OutcomeRepository:
    """Remembers the first answer to each item of a command."""

    def __init__(self, database: Database) -> None:
        self._outcomes = database[COLLECTION]

    async def remember(self, answers: Iterable[Answer], at: datetime, session: Session | None = None) -> None:
        """Keep answers; an item that has one keeps it."""
        writes = [
            UpdateOne(
                {"_id": _id(answer.key)},
                {"$setOnInsert": {"outcome": answer.outcome.value, "reason": answer.reason, "at": at}},
                upsert=True,
            )
            for answer in answers
        ]
        if writes:
            await self._outcomes.bulk_write(writes, ordered=False, session=session)

    async def answers(
        self, keys: Collection[tuple[str, str]], session: Session | None = None
    ) -> dict[tuple[str, str], Answer]:
        """The answers there are to these items, each a pair of command id and item id."""
        if not keys:
            return {}
        by_id = {_id(key): key for key in keys}
        found = self._outcomes.find({"_id": {"$in": list(by_id)}}, session=session)
        return {
            by_id[d["_id"]]: Answer(*by_id[d["_id"]], outcome=Outcome(d["outcome"]), reason=d["reason"])
            async for d in found
        }


def _id(key: tuple[str, str]) -> str:
    return f"{key[0]}/{key[1]}"
