"""Consumers in the event loop of the test, with a database of their own and a fake Kafka."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

from consumers.feedback import FeedbackConsumer
from consumers.images.commands import ImageCommandConsumer
from consumers.images.consumer import UploadConsumer
from consumers.inbox import Handler, Inbox, retry
from consumers.moderation import ReviewChangeConsumer
from consumers.names_known import KnownNames
from consumers.orders import OrderConsumer
from consumers.parked_commands import ParkedCommands
from consumers.returns import ReturnConsumer
from consumers.reviews.consumer import SubmissionConsumer
from consumers.routing import CommandRouter
from consumers.routing_handover import Handover
from consumers.services import Services
from consumers.stores import StoreConsumer
from consumers.verdicts import VerdictConsumer
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.entity_types import SAMPLE
from domain.images import upload_digest
from domain.review_tokens import ReviewToken, sign_token
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.images.files import files_in_memory

from .app import NOWHERE
from .facade import EVERYONE, new_id, submission
from .records import Record
from .service import Json, Servers, once_each, own_database

TOPICS: Final = TopicNames("test.")
LONG_AGO: Final = 1_700_000_000_000
"""A timestamp in milliseconds: in 2023."""


class RecordingKafka(Publisher):
    """Records published messages. Each exception in `failures` is raised by one call."""

    def __init__(self) -> None:
        super().__init__(KafkaConnection(NOWHERE))
        self.published: list[OutgoingMessage] = []
        self.failures: list[BaseException] = []

    async def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        if messages and self.failures:
            raise self.failures.pop(0)
        self.published += messages


class FirstOwner(Handover):
    """Takes over partitions that nobody had before."""

    async def wait(self) -> None:
        return


@dataclass
class Desk:
    """The consumers of one worker, with what they store and publish. All records are in one partition per topic."""

    database: Database
    services: Services
    kafka: RecordingKafka
    product: str = field(default_factory=new_id)
    offset: int = 0

    def records(self, *values: Any, at: int | None = None) -> list[Record]:
        """New records with these values after all earlier ones, with a timestamp in milliseconds; default: now."""
        found = []
        for value in values:
            self.offset += 1
            written = round(datetime.now(UTC).timestamp() * 1_000) if at is None else at
            content = json.dumps(value).encode()
            found.append(Record(self.offset, key=b"key", value=content, timestamp=written, partition=0))
        return found

    async def open_store(self, id: str | None = None, **settings: Any) -> str:
        """A store that accepts reviews from everyone unless the settings differ. Returns its id."""
        store = id or new_id("store")
        rules = {**EVERYONE, **settings}
        inbox = self._inbox(Topic.STORE_UPDATES, StoreConsumer(self.services))
        await inbox.deliver(self.records({"id": store, "name": store, "settings": rules}))
        return store

    def review(self, **fields: Any) -> Json:
        """A submission about this desk's object."""
        return submission(self.product, **{"id": new_id("review"), **fields})

    async def review_token(self, store: str) -> tuple[ReviewToken, str]:
        """A token for a review of this desk's object by a new customer, and its signed text."""
        expires = datetime.now(UTC) + timedelta(days=1)
        token = ReviewToken(store, new_id("order"), "1", self.product, new_id("customer"), expires)
        return token, sign_token(token, await self.services.review_tokens.signing_key())

    @property
    def parked(self) -> ParkedCommands:
        """The handler of commands that wait for their review."""
        services = self.services
        router = CommandRouter(services, FirstOwner(KafkaConnection(NOWHERE), TOPICS))
        images = ImageCommandConsumer(services)
        return ParkedCommands(router, FeedbackConsumer(services), VerdictConsumer(services), images)

    @property
    def submissions(self) -> SubmissionConsumer:
        return SubmissionConsumer(self.services, self.parked, KnownNames(SAMPLE))

    async def submit(self, records: Sequence[Record]) -> None:
        """Deliver submissions in one batch."""
        await self._inbox(Topic.REVIEW_SUBMISSIONS, self.submissions).deliver(records)

    async def moderate(self, *changes: tuple[str, str], sent: int = 0, **fields: Any) -> None:
        """Deliver moderation changes in one batch, each an action and a review id, sent at `sent` (milliseconds)."""
        consumer = ReviewChangeConsumer(self.services)
        values = [
            {
                "kind": "moderation",
                "action": action,
                "reviewId": id,
                "source": [0, self.offset + n, sent + self.offset + n],
                **fields,
            }
            for n, (action, id) in enumerate(changes)
        ]
        await self._inbox(Topic.REVIEW_CHANGES, consumer).deliver(self.records(*values))

    async def route(self, records: Sequence[Record]) -> None:
        """Deliver moderation commands in one batch."""
        await self._inbox(Topic.MODERATION_COMMANDS, self.parked.moderation).deliver(records)

    def changes(self) -> list[Json]:
        """The published changes of reviews."""
        topic = TOPICS.name(Topic.REVIEW_CHANGES)
        return [json.loads(each.value or b"") for each in self.kafka.published if each.topic == topic]

    def verdicts(self, review: Json, *verdicts: str) -> list[Record]:
        """Records with a classifier's verdicts on a review."""
        hash = sha256(f"{review['title']}\n{review['review']}".encode()).hexdigest()
        verdict = {"reviewId": review["id"], "textHash": hash, "source": "ai"}
        return self.records(*({**verdict, "verdict": each} for each in verdicts))

    async def judge(self, records: Sequence[Record]) -> None:
        """Deliver verdicts in one batch."""
        consumer = VerdictConsumer(self.services)
        await self._inbox(Topic.MODERATION_VERDICTS, consumer).deliver(records)

    async def give_feedback(self, records: Sequence[Record]) -> None:
        """Deliver feedback in one batch."""
        consumer = FeedbackConsumer(self.services)
        await self._inbox(Topic.REVIEW_FEEDBACK, consumer).deliver(records)

    async def order(self, order: Json) -> None:
        """Deliver an order event."""
        consumer = OrderConsumer(self.services, ReturnConsumer(self.services))
        await self._inbox(Topic.ORDER_EVENTS, consumer).deliver(self.records(order))

    async def command_returns(self, records: Sequence[Record]) -> None:
        """Deliver return commands in one batch."""
        consumer = ReturnConsumer(self.services)
        await self._inbox(Topic.RETURN_COMMANDS, consumer).deliver(records)

    async def upload(self, content: bytes, *, at: int | None = None, **fields: Any) -> str:
        """Store an upload and deliver its message, written at `at` (milliseconds). Returns the image's id."""
        id, digest = str(fields.pop("id", None) or uuid4()), upload_digest(content)
        await self.services.image_files.put_upload(id, digest, content)
        await self.read_uploads(self.records({"id": id, "digest": digest, **fields}, at=at))
        return id

    async def read_uploads(self, records: Sequence[Record]) -> None:
        """Deliver messages of uploads in one batch."""
        consumer = UploadConsumer(self.services)
        await self._inbox(Topic.IMAGE_UPLOADS, consumer).deliver(records)

    async def command_images(self, records: Sequence[Record]) -> None:
        """Deliver image commands in one batch."""
        consumer = ImageCommandConsumer(self.services)
        await self._inbox(Topic.IMAGE_COMMANDS, consumer).deliver(records)

    async def stored(self, id: str) -> Json:
        """The stored document of a review; empty without one."""
        return await self.database["reviews"].find_one({"_id": id}) or {}

    async def outcomes(self, item: str, *commands: str) -> list[Outcome]:
        """The stored outcomes of commands about an item, in the order of the commands."""
        keys = [(command, item) for command in commands]
        answers = await self.services.outcomes.answers(keys)
        return [answers[key].outcome for key in keys if key in answers]

    def events(self) -> list[tuple[str, Json]]:
        """Type and data of all published events in order, without repeats."""
        return once_each(message for message in self.kafka.published if message.topic == TOPICS.name(Topic.EVENTS))

    def event_kinds(self, id: str) -> list[str]:
        """Types of the events about a review, in order."""
        return [kind for kind, data in self.events() if data.get("reviewId") == id]

    def _inbox(self, topic: Topic, handler: Handler[Any]) -> Inbox[Any]:
        return Inbox(topic, handler, self.kafka.publish)


@asynccontextmanager
async def opened_desk(servers: Servers) -> AsyncIterator[Desk]:
    """Consumers on a database of their own, which is dropped after the block."""
    async with own_database(servers) as database:
        yield desk_on(database)


def desk_on(database: Database) -> Desk:
    """Consumers on this database."""
    kafka = RecordingKafka()
    services = Services(database, kafka, TOPICS, files_in_memory())
    return Desk(database, services.with_patience(partial(retry, "outbox")), kafka)
