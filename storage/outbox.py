"""The outbox: messages that a transaction owes to Kafka, written with its effects and kept until acknowledged.

One document holds the messages of a whole batch, so the promise costs one insert and one delete for hundreds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol, TypeVar

import structlog
from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from domain.delivery import OutgoingMessage
from messaging.kafka.publisher import TOO_LARGE
from storage.database import Database, Session

log = structlog.get_logger()

COLLECTION: Final = "outbox"

INDEXES: Final = [IndexModel([("at", ASCENDING)], name="age")]

OVERDUE: Final = timedelta(seconds=15)
"""Older than this, owed messages belong to a process that died: a living one publishes at once and waits for less."""

_MOST_BYTES: Final = 4 * 1024 * 1024
"""Of the values in one document, but for the last of them; MongoDB allows 16 MiB."""

_PAGE: Final = 5

Publish = Callable[[Sequence[OutgoingMessage]], Awaitable[None]]


class Owed(NamedTuple):
    """Messages of one document of the outbox, and its id."""

    id: ObjectId
    messages: Sequence[OutgoingMessage]


class Outbox:
    """Keeps messages until they are published, at least once; `publish` returns once all are acknowledged."""

    def __init__(self, database: Database, publish: Publish) -> None:
        self._outbox = database[COLLECTION]
        self._publish = publish

    async def add(self, messages: Iterable[OutgoingMessage], at: datetime, session: Session) -> list[Owed]:
        """Owe these messages; `settle` publishes them once the transaction is committed."""
        owed = [Owed(ObjectId(), part) for part in in_parts(messages)]
        if owed:
            documents = [{"_id": each.id, "at": at, "messages": [_packed(m) for m in each.messages]} for each in owed]
            await self._outbox.insert_many(documents, session=session)
        return owed

    async def settle(self, owed: Iterable[Owed]) -> list[ObjectId]:
        """Publish messages that are owed, and forget them; returns the ids of what is owed on.

        A message that is too large for its topic has taken effect, and nobody can be told: it is owed until the topic
        takes it, and what was owed with it is published.
        """
        kept = []
        for each in owed:
            left = await self._refused(each.messages)
            if not left:
                await self._outbox.delete_one({"_id": each.id})
                continue
            kept.append(each.id)
            if len(left) < len(each.messages):
                await self._outbox.update_one({"_id": each.id}, {"$set": {"messages": [_packed(m) for m in left]}})
        return kept

    async def settle_overdue(self) -> int:
        """Publish what processes that died still owe, the oldest first. Returns how many batches there were."""
        count, kept = 0, list[ObjectId]()
        while owed := await self._overdue(kept):
            kept += await self.settle(owed)
            count += len(owed)
        return count - len(kept)

    async def _refused(self, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        """Publish messages; returns those that are too large for their topics."""
        try:
            await self._publish(messages)
        except TOO_LARGE:
            if len(messages) > 1:
                return [refused for message in messages for refused in await self._refused([message])]
            (message,) = messages
            log.error(
                "a message is too large for its topic, and waits: raise its max.message.bytes",
                topic=message.topic,
                bytes=len(message.value or b""),
            )
            return [message]
        return []

    async def _overdue(self, kept: Sequence[ObjectId]) -> list[Owed]:
        """What is overdue, but for what was found to be owed on."""
        before = {"at": {"$lt": datetime.now(UTC) - OVERDUE}, **({"_id": {"$nin": kept}} if kept else {})}
        found = self._outbox.find(before).sort([("at", ASCENDING), ("_id", ASCENDING)]).limit(_PAGE)
        return [Owed(d["_id"], [_unpacked(*fields) for fields in d["messages"]]) async for d in found]


def _packed(message: OutgoingMessage) -> tuple[object, ...]:
    return message.topic, message.key, message.value, message.headers


def _unpacked(
    topic: str, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> OutgoingMessage:
    return OutgoingMessage(topic, key, value, tuple((name, content) for name, content in headers))


class _Valued(Protocol):
    @property
    def value(self) -> bytes | None: ...


V = TypeVar("V", bound=_Valued)


def in_parts(messages: Iterable[V]) -> Iterator[list[V]]:
    """Messages in parts that a document can hold, and that are acknowledged within the publisher's timeout."""
    part: list[V] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.value or b"")
        if size >= _MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
