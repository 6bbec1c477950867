"""The worker: all consumers of one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from faststream.kafka import KafkaBroker
from faststream.kafka.subscriber.usecase import BatchSubscriber

from consumers.housekeeping import keep_house
from consumers.moderation import CommandRouter, ModerationConsumer
from consumers.names import fill_names
from consumers.names_known import KnownNames
from consumers.orders import OrderConsumer
from consumers.outbox import EventOutbox
from consumers.ratings import ReviewChangeConsumer
from consumers.returns import ReturnConsumer, ReturnRouter
from consumers.reviews import SubmissionConsumer
from consumers.stores import StoreConsumer
from consumers.subscriptions import Subscription, start, subscribed_broker
from domain.entity_types import SAMPLE, EntityTypes
from messaging.envelope import Envelope
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.orders import OrderRepository
from storage.outbox import OutboxRepository
from storage.outcomes import OutcomeRepository
from storage.parking import ParkingRepository
from storage.purchases import PurchaseRepository
from storage.pymongo_internals import cancel_and_wait
from storage.ratings import RatingRepository
from storage.returns import ReturnRepository
from storage.reviews import ReviewRepository
from storage.stores import StoreRepository
from storage.traces import TraceRepository


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A worker that consumes. Housekeeping never ends by itself: if it does, the worker is broken."""

    housekeeping: asyncio.Task[None]
    broker: KafkaBroker
    topics: TopicNames

    def partitions(self) -> set[tuple[Topic, int]]:
        """Those that this worker consumes at the moment."""
        names = {self.topics.name(topic): topic for topic in Topic}
        consumers = [each.consumer for each in self.broker.subscribers if isinstance(each, BatchSubscriber)]
        places = [place for consumer in consumers if consumer for place in consumer.assignment()]
        return {(names[place.topic], place.partition) for place in places}


@asynccontextmanager
async def running_worker(
    connection: KafkaConnection,
    topics: TopicNames,
    database: Database,
    publisher: Publisher,
    entity_types: EntityTypes = SAMPLE,
    *,
    remember: timedelta,
) -> AsyncIterator[RunningWorker]:
    """Consume until the block ends; then finish the batches in hand. Topics and indexes must exist.

    Ids of deleted reviews are remembered for that long.
    """
    envelope = Envelope("/plaudit/worker")
    reviews, stores = ReviewRepository(database), StoreRepository(database)
    outcomes, parking = OutcomeRepository(database), ParkingRepository(database)
    traces = TraceRepository(database)
    router = CommandRouter(parking, publisher, topics, envelope, traces)
    events = EventOutbox(OutboxRepository(database), publisher)
    moderation = ModerationConsumer(reviews, outcomes, parking, router)
    orders, returns = OrderRepository(database), ReturnRepository(database)
    return_router = ReturnRouter(returns, publisher, topics, envelope)
    return_consumer = ReturnConsumer(database, orders, returns, stores, outcomes, return_router, events)
    purchases = PurchaseRepository(database, entity_types.purchase_item_fields)
    names = KnownNames(entity_types)
    submissions = SubmissionConsumer(reviews, stores, purchases, outcomes, router, names)
    ratings = RatingRepository(database)
    changes = ReviewChangeConsumer(database, reviews, ratings, outcomes, events, topics, envelope, traces)
    broker = subscribed_broker(
        connection,
        topics,
        [
            Subscription(Topic.REVIEW_SUBMISSIONS, submissions, max_records=1_000, shares=2),
            Subscription(Topic.MODERATION_COMMANDS, moderation, max_records=1_000),
            Subscription(Topic.REVIEW_CHANGES, changes, max_records=1_000, shares=2),
            Subscription(Topic.ORDER_EVENTS, OrderConsumer(database, orders, return_router, publisher)),
            Subscription(Topic.RETURN_COMMANDS, return_consumer),
            Subscription(Topic.STORE_UPDATES, StoreConsumer(database, stores, outcomes, publisher)),
        ],
        publisher.publish,
        group_prefix=topics.prefix,
    )
    house = asyncio.create_task(keep_house(database, reviews, moderation, return_consumer, events, remember=remember))
    naming = asyncio.create_task(fill_names(reviews, entity_types, names))
    try:
        await start(broker)
        yield RunningWorker(house, broker, topics)
    finally:
        house.cancel()
        naming.cancel()
        await broker.stop()
        await cancel_and_wait(house, naming)
