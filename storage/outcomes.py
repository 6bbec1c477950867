"""Outcomes of commands, kept for a day for their senders."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final, NamedTuple

from pymongo import ASCENDING, IndexModel

from domain.commands import CommandMark, Outcome, mark_from
from messaging.json_values import present
from storage.database import Database, Document, Session
from storage.queries import ONE_ANSWER, insert_if_free

COLLECTION: Final = "outcomes"
REMEMBERED_SECONDS: Final = 86_400

INDEXES: Final = [IndexModel([("at", ASCENDING)], name="expiry", expireAfterSeconds=REMEMBERED_SECONDS)]


class ItemOutcome(NamedTuple):
    """The outcome of one item of a command."""

    command_id: str
    item_id: str
    outcome: Outcome
    reason: str | None = None
    mark: CommandMark | None = None
    """The mark of the command; None if it didn't come by HTTP."""
    status: str | None = None
    """With `moderator`: of a review that somebody else had moderated meanwhile."""
    moderator: str | None = None
    message: str | None = None
    """The reason in words, if the code doesn't say it all."""

    @property
    def key(self) -> tuple[str, str]:
        """The command and the item, by which it is found."""
        return self.command_id, self.item_id


class OutcomeRepository:
    """Remembers the first answer to each item of a command."""

    def __init__(self, database: Database) -> None:
        self._outcomes = database[COLLECTION]

    async def remember(self, answers: Iterable[ItemOutcome], at: datetime, session: Session | None = None) -> None:
        """Store answers; an item that already has one keeps it."""
        # Not by upserts, which take MongoDB several times as long.
        documents = [{"_id": _id(answer.key), **_fields(answer), "at": at} for answer in answers]
        if session is None:
            await insert_if_free(self._outcomes, documents)
        elif documents and (unanswered := await self._unanswered(documents, session)):
            await self._outcomes.insert_many(unanswered, ordered=False, session=session)

    async def _unanswered(self, documents: Iterable[Document], session: Session) -> list[Document]:
        """The first of these documents with each id, without those whose id is taken: a duplicate would end the
        transaction."""
        first = {document["_id"]: document for document in reversed(list(documents))}
        found = self._outcomes.find({"_id": {"$in": list(first)}}, {"_id": 1}, batch_size=ONE_ANSWER, session=session)
        taken = {document["_id"] async for document in found}
        return [document for id, document in first.items() if id not in taken]

    async def answers(
        self, keys: Collection[tuple[str, str]], session: Session | None = None
    ) -> dict[tuple[str, str], ItemOutcome]:
        """The stored answers to these items, each a pair of command id and item id."""
        if not keys:
            return {}
        by_id = {_id(key): key for key in keys}
        found = self._outcomes.find({"_id": {"$in": list(by_id)}}, session=session)
        return {by_id[document["_id"]]: _answer(*by_id[document["_id"]], document) async for document in found}

    async def of_command(self, command_id: str, limit: int) -> list[ItemOutcome]:
        """The stored answers to items of a command, by item, at most `limit`."""
        prefix = _id((command_id, ""))
        # The character after "/" ends the range.
        found = self._outcomes.find({"_id": {"$gte": prefix, "$lt": f"{prefix[:-1]}0"}}).sort("_id").limit(limit)
        return [_answer(command_id, document["_id"].removeprefix(prefix), document) async for document in found]


def _fields(answer: ItemOutcome) -> Document:
    fields = {
        "mark": str(answer.mark) if answer.mark else None,
        "status": answer.status,
        "moderator": answer.moderator,
        "message": answer.message,
    }
    required = {"outcome": answer.outcome.value, "reason": answer.reason}
    return required | present(fields)


def _answer(command_id: str, item_id: str, document: Document) -> ItemOutcome:
    return ItemOutcome(
        command_id,
        item_id,
        outcome=Outcome(document["outcome"]),
        reason=document["reason"],
        mark=mark_from(document.get("mark")),
        status=document.get("status"),
        moderator=document.get("moderator"),
        message=document.get("message"),
    )


def _id(key: tuple[str, str]) -> str:
    # Ids of both come from outside. The item begins after the first slash, so that no two pairs share a document.
    return f"{key[0].replace('%', '%25').replace('/', '%2F')}/{key[1]}"
