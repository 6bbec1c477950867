"""The worker: all consumers of one process."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from faststream.kafka import KafkaBroker
from faststream.kafka.subscriber.usecase import BatchSubscriber

from consumers.dead_letters import ReplayConsumer
from consumers.feedback import FeedbackConsumer
from consumers.housekeeping import run_housekeeping
from consumers.images import ImageCommandConsumer, UploadConsumer
from consumers.inbox import Inbox, retry
from consumers.moderation import ReviewChangeConsumer
from consumers.names import fill_names
from consumers.names_known import KnownNames
from consumers.objects import ObjectConsumer
from consumers.orders import OrderConsumer
from consumers.parked import ParkedCommands
from consumers.ratings import Recounter
from consumers.reminders import ReminderConsumer
from consumers.returns import ReturnConsumer
from consumers.reviews import SubmissionConsumer
from consumers.reviews_relay import ReviewRelay
from consumers.routing import CommandRouter
from consumers.routing_handover import Handover
from consumers.services import Services
from consumers.sessions import SessionConsumer
from consumers.stores import StoreConsumer
from consumers.subscriptions import start, subscribed_broker
from consumers.verdicts import VerdictConsumer
from domain.entity_types import EntityTypes
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.dead_letters import DeadLetterTopics
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.patient_consumer import PatientConsumer
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.images_files import ImageFiles
from storage.pymongo_internals import cancel_and_wait
from storage.topics_growth import GrowthRepository


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A running worker. Housekeeping and relay never end by themselves: if one does, the worker is broken."""

    housekeeping: asyncio.Task[None]
    relay: asyncio.Task[None]
    broker: KafkaBroker
    topics: TopicNames

    def partitions(self) -> set[tuple[Topic, int]]:
        """The partitions that this worker currently reads."""
        names = {self.topics.name(topic): topic for topic in Topic}
        consumers = [each.consumer for each in self.broker.subscribers if isinstance(each, BatchSubscriber)]
        places = [place for consumer in consumers if isinstance(consumer, PatientConsumer) for place in consumer.read]
        return {(names[place.topic], place.partition) for place in places}


@asynccontextmanager
async def running_worker(
    connection: KafkaConnection,
    topics: TopicNames,
    database: Database,
    publisher: Publisher,
    entity_types: EntityTypes,
    *,
    remember: timedelta,
    token_keys: Sequence[bytes],
    image_files: ImageFiles | None,
    erasure_keys: Sequence[bytes],
    only: Collection[Topic] = tuple(Topic),
) -> AsyncIterator[RunningWorker]:
    """Consume the topics `only` until the block ends, then finish batches in progress. Topics and indexes must exist.

    `remember`: retention of the ids of deleted reviews. `token_keys` check review tokens, `erasure_keys` recognise
    erased people.
    """
    without_patience = Services(database, publisher, topics, entity_types, token_keys, image_files, erasure_keys)
    services, names = without_patience.with_patience(partial(retry, "outbox")), KnownNames(entity_types)
    handover, lag, publish = Handover(connection, topics), ConsumerLag(connection, topics), publisher.publish
    parked, returns = _parked_commands(services, handover), ReturnConsumer(services)
    commands, submissions = parked.moderation, SubmissionConsumer(services, parked, names)
    changes = ReviewChangeConsumer(services, Recounter(services))
    orders, replays = OrderConsumer(services, returns), ReplayConsumer(services, DeadLetterTopics(connection, topics))
    broker = subscribed_broker(
        connection,
        topics,
        [
            Inbox(Topic.REVIEW_SUBMISSIONS, submissions, publish, max_records=1_000, shares=2),
            Inbox(Topic.MODERATION_COMMANDS, commands, publish, 1_000, listener=handover),
            Inbox(Topic.REVIEW_FEEDBACK, parked.feedback, publish, max_records=1_000),
            Inbox(Topic.MODERATION_VERDICTS, parked.verdicts, publish),
            Inbox(Topic.REVIEW_CHANGES, changes, publish, max_records=1_000, shares=2),
            Inbox(Topic.IMAGE_UPLOADS, UploadConsumer(services), publish, max_records=5),
            Inbox(Topic.IMAGE_COMMANDS, parked.images, publish),
            Inbox(Topic.ORDER_EVENTS, orders, publish),
            Inbox(Topic.REMINDER_COMMANDS, ReminderConsumer(services), publish),
            Inbox(Topic.RETURN_COMMANDS, returns, publish),
            Inbox(Topic.OBJECT_UPDATES, ObjectConsumer(services), publish),
            Inbox(Topic.ENDED_SESSIONS, SessionConsumer(services), publish),
            Inbox(Topic.DEAD_LETTER_COMMANDS, replays, publish, max_records=100),
            Inbox(Topic.STORE_UPDATES, StoreConsumer(services), publish, is_slow=True),
        ],
        group_prefix=topics.prefix,
        only=only,
    )
    # Without patience: while Kafka is unavailable, the other tasks go on.
    parked_work = _parked_commands(without_patience, handover), ReturnConsumer(without_patience)
    house = asyncio.create_task(run_housekeeping(database, without_patience, lag, *parked_work, remember=remember))
    naming = asyncio.create_task(fill_names(services.reviews, services.rated_objects, entity_types, names))
    relay = asyncio.create_task(ReviewRelay(database, connection, topics).run())
    try:
        await start(broker, topics, GrowthRepository(database))
        yield RunningWorker(house, relay, broker, topics)
    finally:
        for task in (house, naming, relay):
            task.cancel()
        await broker.stop()
        await cancel_and_wait(house, naming, relay)


def _parked_commands(services: Services, handover: Handover) -> ParkedCommands:
    return ParkedCommands(
        CommandRouter(services, handover),
        FeedbackConsumer(services),
        VerdictConsumer(services),
        ImageCommandConsumer(services),
    )
