"""The worker: all consumers of one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from consumers.housekeeping import keep_house
from consumers.ratings import EventOutbox, ReviewChangeConsumer
from consumers.reviews import CommandRouter, ModerationConsumer, SubmissionConsumer
from consumers.stores import StoreConsumer
from consumers.subscriptions import Subscription, subscribed_broker
from messaging.connection import KafkaConnection
from messaging.envelope import Envelope
from messaging.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.outbox import OutboxRepository
from storage.outcomes import OutcomeRepository
from storage.parking import ParkingRepository
from storage.ratings import RatingRepository
from storage.reviews import ReviewRepository
from storage.stores import StoreRepository


@asynccontextmanager
async def running_worker(
    connection: KafkaConnection, topics: TopicNames, database: Database, publisher: Publisher
) -> AsyncIterator[asyncio.Task[None]]:
    """Consume until the block ends; then finish the batches in hand. Topics and indexes must exist.

    Yields the housekeeping task, which never ends by itself: if it does, the worker is broken.
    """
    envelope = Envelope("/plaudit/worker")
    reviews, stores = ReviewRepository(database), StoreRepository(database)
    outcomes, parking = OutcomeRepository(database), ParkingRepository(database)
    router = CommandRouter(parking, publisher, topics, envelope)
    events = EventOutbox(OutboxRepository(database), publisher)
    moderation = ModerationConsumer(reviews, outcomes, parking, router)
    changes = ReviewChangeConsumer(database, reviews, RatingRepository(database), outcomes, events, topics, envelope)
    broker = subscribed_broker(
        connection,
        topics,
        [
            Subscription(Topic.REVIEW_SUBMISSIONS, SubmissionConsumer(reviews, stores, outcomes, router)),
            Subscription(Topic.MODERATION_COMMANDS, moderation),
            Subscription(Topic.REVIEW_CHANGES, changes),
            Subscription(Topic.STORE_UPDATES, StoreConsumer(database, stores, outcomes, publisher)),
        ],
        publisher.publish,
        group_prefix=topics.prefix,
    )
    await broker.start()
    house = asyncio.create_task(keep_house(moderation, events))
    try:
        yield house
    finally:
        house.cancel()
        await broker.stop()
