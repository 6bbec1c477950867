"""The worker: all consumers of one process."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from faststream.kafka import KafkaBroker
from faststream.kafka.subscriber.usecase import BatchSubscriber

from consumers.dead_letters import ReplayConsumer
from consumers.feedback import FeedbackConsumer
from consumers.housekeeping import run_housekeeping
from consumers.images.commands import ImageCommandConsumer
from consumers.images.consumer import UploadConsumer
from consumers.inbox import Inbox, retry
from consumers.moderation import ReviewChangeConsumer
from consumers.names import fill_names
from consumers.names_known import KnownNames
from consumers.objects import ObjectConsumer
from consumers.orders import OrderConsumer
from consumers.parked_commands import ParkedCommands
from consumers.reminders import ReminderConsumer
from consumers.returns import ReturnConsumer
from consumers.reviews.consumer import SubmissionConsumer
from consumers.reviews.relay import ReviewRelay
from consumers.routing import CommandRouter
from consumers.routing_handover import Handover
from consumers.services import Services
from consumers.sessions import SessionConsumer
from consumers.stores import StoreConsumer
from consumers.subscriptions import start, subscribed_broker
from consumers.verdicts import VerdictConsumer
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.dead_letters import DeadLetterTopics
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.patient_consumer import PatientConsumer
from messaging.topics import Topic, TopicNames
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
    services: Services, connection: KafkaConnection, *, remember: timedelta, only: Collection[Topic]
) -> AsyncIterator[RunningWorker]:
    """Consume the topics `only` until the block ends, then finish batches in progress. Topics and indexes must exist.

    `remember`: retention of the ids of deleted reviews.
    """
    topics, entity_types = services.topics, services.entity_types
    names = KnownNames(entity_types)
    handover = Handover(connection, topics)
    patient = services.with_patience(partial(retry, "outbox"))
    inboxes = _inboxes(patient, names, handover, DeadLetterTopics(connection, topics))
    broker = subscribed_broker(connection, topics, inboxes, group_prefix=topics.prefix, only=only)
    # Housekeeping without patience: while Kafka is unavailable, its other tasks go on.
    lag = ConsumerLag(connection, topics)
    parked = _parked_commands(services, handover)
    house = asyncio.create_task(run_housekeeping(services, lag, parked, ReturnConsumer(services), remember=remember))
    naming = asyncio.create_task(fill_names(services.reviews, services.rated_objects, entity_types, names))
    relay = asyncio.create_task(ReviewRelay(services.database, connection, topics).run())
    try:
        await start(broker, topics, GrowthRepository(services.database))
        yield RunningWorker(house, relay, broker, topics)
    finally:
        for task in (house, naming, relay):
            task.cancel()
        await broker.stop()
        await cancel_and_wait(house, naming, relay)


def _inboxes(
    services: Services, names: KnownNames, handover: Handover, letters: DeadLetterTopics
) -> Sequence[Inbox[Any]]:
    """The inbox of each topic, with the consumer of its messages."""
    publish = services.publisher.publish
    parked = _parked_commands(services, handover)
    submissions = SubmissionConsumer(services, parked, names)
    returns = ReturnConsumer(services)
    return [
        Inbox(Topic.REVIEW_SUBMISSIONS, submissions, publish, max_records=1_000, shares=4),
        Inbox(Topic.MODERATION_COMMANDS, parked.moderation, publish, max_records=1_000, listener=handover),
        Inbox(Topic.REVIEW_FEEDBACK, parked.feedback, publish, max_records=1_000),
        Inbox(Topic.MODERATION_VERDICTS, parked.verdicts, publish),
        Inbox(Topic.REVIEW_CHANGES, ReviewChangeConsumer(services), publish, max_records=1_000, shares=4),
        Inbox(Topic.IMAGE_UPLOADS, UploadConsumer(services), publish, max_records=5),
        Inbox(Topic.IMAGE_COMMANDS, parked.images, publish),
        Inbox(Topic.ORDER_EVENTS, OrderConsumer(services, returns), publish),
        Inbox(Topic.REMINDER_COMMANDS, ReminderConsumer(services), publish),
        Inbox(Topic.RETURN_COMMANDS, returns, publish),
        Inbox(Topic.OBJECT_UPDATES, ObjectConsumer(services), publish),
        Inbox(Topic.ENDED_SESSIONS, SessionConsumer(services), publish),
        Inbox(Topic.DEAD_LETTER_COMMANDS, ReplayConsumer(services, letters), publish, max_records=100),
        Inbox(Topic.STORE_UPDATES, StoreConsumer(services), publish, is_slow=True),
    ]


def _parked_commands(services: Services, handover: Handover) -> ParkedCommands:
    return ParkedCommands(
        CommandRouter(services, handover),
        FeedbackConsumer(services),
        VerdictConsumer(services),
        ImageCommandConsumer(services),
    )
