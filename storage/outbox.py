"""The outbox: messages that a transaction owes to Kafka, written with its effects and kept until acknowledged.

One document holds the messages of a whole batch, so that hundreds of them cost one insert and one delete.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog
from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from domain.delivery import OutgoingMessage, in_parts
from messaging.kafka.connection import is_broker_away, is_too_large
from storage.database import Database, Document, Session
from storage.shapes import READ_ERRORS, log_damage

log = structlog.get_logger()

COLLECTION: Final = "outbox"

INDEXES: Final = [IndexModel([("at", ASCENDING)], name="age")]

OVERDUE: Final = timedelta(seconds=15)
"""The age from which owed messages belong to a dead process: a live one publishes at once and waits for less."""

_CLOCK_SKEW: Final = timedelta(seconds=2)
"""Time by which the clock of a process that owes messages may be ahead of ours."""

MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of values in one document, which are acknowledged within the publisher's timeout, unless a single one is
larger. MongoDB allows 16 MiB."""

_PAGE: Final = 5

_MOST_FAILED: Final = 3

_LOOK_S: Final = 0.1

Publish = Callable[[Sequence[OutgoingMessage]], Awaitable[None]]


class Owed(NamedTuple):
    """The id of a document of the outbox, and its messages."""

    id: ObjectId
    messages: Sequence[OutgoingMessage]


@dataclass(slots=True)
class _Topics:
    """Topics that messages were published to, or couldn't be."""

    accepted: set[str] = field(default_factory=set)
    failed: dict[str, Exception] = field(default_factory=dict)

    def are_away(self) -> bool:
        """True if so many have failed, and none has accepted anything, that Kafka itself seems to be unavailable: each
        further attempt would take as long as the publisher's timeout."""
        return len(self.failed) >= _MOST_FAILED and not self.accepted


class Outbox:
    """Keeps messages until they are published, at least once; `publish` returns once all are acknowledged."""

    def __init__(self, database: Database, publish: Publish) -> None:
        self._outbox = database[COLLECTION]
        self._publish = publish
        self._kept: list[ObjectId] = []
        """The ids of documents that `settle_before` doesn't wait for."""

    async def add(self, messages: Iterable[OutgoingMessage], at: datetime, session: Session) -> list[Owed]:
        """Store messages to be published; `settle` publishes them once the transaction is committed."""
        parts = in_parts(messages, MOST_BYTES, lambda message: len(message.value or b""))
        owed = [Owed(ObjectId(), part) for part in parts]
        if owed:
            documents = [
                {"_id": each.id, "at": at, "messages": [_pack(message) for message in each.messages]} for each in owed
            ]
            await self._outbox.insert_many(documents, session=session)
        return owed

    async def settle(self, owed: Iterable[Owed]) -> list[ObjectId]:
        """Publish owed messages, and delete them from the outbox.

        A message that exceeds the limit of its topic stays owed until the topic accepts it, and holds up no other.
        Returns the ids of documents with such messages.
        """
        kept = []
        for each in owed:
            left = await self._publish_fitting(each.messages)
            await self._keep(each, left)
            kept += [each.id] if left else []
        return kept

    async def settle_overdue(self) -> int:
        """Publish the messages that dead processes still owe, oldest first. Returns the number of batches published.

        A topic that can't be written holds up no message to another one: its error is raised once these are published,
        or sooner if no topic accepts any. A damaged document waits for its repair.
        """
        count = 0
        kept = list[ObjectId]()
        topics = _Topics()
        while owed := await self._owed_before(datetime.now(UTC) - OVERDUE, kept):
            for each in owed:
                left = await self._publish_possible(each.messages, topics)
                await self._keep(each, left)
                kept += [each.id] if left else []
                count += not left
        for error in topics.failed.values():
            raise error
        return count

    async def settle_current(self) -> None:
        """Wait until all messages owed so far are published, also by processes whose clocks are ahead by 2 s."""
        await self.settle_before(datetime.now(UTC) + _CLOCK_SKEW)

    async def settle_before(self, moment: datetime) -> None:
        """Wait until all messages owed before a moment are published: by the process that owes them, or by this one
        once they are overdue. Messages that are too large for their topic are tried once, and left, and so are damaged
        documents."""
        while await self._outbox.find_one(_before(moment, self._kept), {"_id": 1}):
            overdue = await self._owed_before(min(moment, datetime.now(UTC) - OVERDUE), self._kept)
            self._kept += await self.settle(overdue)
            if not overdue:
                await asyncio.sleep(_LOOK_S)

    async def _keep(self, owed: Owed, left: Sequence[OutgoingMessage]) -> None:
        """Keep only the messages of a document that are still owed."""
        if not left:
            await self._outbox.delete_one({"_id": owed.id})
        elif len(left) < len(owed.messages):
            await self._outbox.update_one({"_id": owed.id}, {"$set": {"messages": [_pack(m) for m in left]}})

    async def _publish_possible(
        self, messages: Sequence[OutgoingMessage], topics: _Topics
    ) -> Sequence[OutgoingMessage]:
        """Publish messages topic by topic, without topics that failed before. Returns those that are left."""
        left = list[OutgoingMessage]()
        for topic in dict.fromkeys(message.topic for message in messages):
            of_topic = [message for message in messages if message.topic == topic]
            if topic in topics.failed:
                left += of_topic
                continue
            try:
                left += await self._publish_fitting(of_topic)
                topics.accepted.add(topic)
            except Exception as error:
                topics.failed[topic] = error
                if not is_broker_away(error) or topics.are_away():
                    raise
                left += of_topic
        return left

    async def _publish_fitting(self, messages: Sequence[OutgoingMessage]) -> Sequence[OutgoingMessage]:
        """Publish messages; returns those that are too large."""
        try:
            await self._publish(messages)
        except Exception as error:
            if not is_too_large(error):
                raise
            if len(messages) == 1:
                (message,) = messages
                advice = "a message is too large for its topic, and waits: increase the topic's max.message.bytes"
                log.error(advice, topic=message.topic, bytes=len(message.value or b""))
                return messages
            return [left for message in messages for left in await self._publish_fitting([message])]
        return ()

    async def _owed_before(self, moment: datetime, kept: list[ObjectId]) -> list[Owed]:
        """The oldest documents from before this moment, without those in `kept`, to which damaged ones are added."""
        owed = list[Owed]()
        oldest = [("at", ASCENDING), ("_id", ASCENDING)]
        while not owed:
            documents = await self._outbox.find(_before(moment, kept)).sort(oldest).limit(_PAGE).to_list()
            if not documents:
                break
            for document in documents:
                try:
                    owed.append(Owed(document["_id"], [_unpack(*fields) for fields in document["messages"]]))
                except READ_ERRORS as error:
                    log_damage("owed messages can't be read", id=str(document["_id"]), error=repr(error))
                    kept.append(document["_id"])
        return owed


def _before(moment: datetime, kept: Sequence[ObjectId]) -> Document:
    wanted: Document = {"at": {"$lt": moment}}
    return wanted | ({"_id": {"$nin": kept}} if kept else {})


def _pack(message: OutgoingMessage) -> tuple[object, ...]:
    return message.topic, message.key, message.value, message.headers


def _unpack(topic: Any, key: Any, value: Any, headers: Any) -> OutgoingMessage:
    """The message in its stored form. Raises one of READ_ERRORS."""
    message = OutgoingMessage(topic, key, value, tuple((name, content) for name, content in headers))
    texts = (message.topic, *(name for name, _ in message.headers))
    contents = (message.key, message.value, *(content for _, content in message.headers))
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("a topic or the name of a header isn't a text")
    if not all(isinstance(each, bytes | None) for each in contents):
        raise TypeError("a key, a value or the content of a header isn't binary")
    return message
