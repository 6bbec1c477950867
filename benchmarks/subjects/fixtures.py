"""Servers, write concern and document, the same for all subjects."""

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import uvloop
from aiokafka import AIOKafkaConsumer

from messaging.topics import Topic
from plaudit.config import Settings
from storage.database import Database, connect

FETCH: Final = 2_000
"""Maximum records in a batch: the size at which `insert_many` was fastest here."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run until killed, on the same event loop as Plaudit."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def database() -> Database:
    """The database of the measurement."""
    settings = Settings()
    return connect(settings.mongo_uri(), settings.mongo.database)[1]


def consumer(topic: Topic, group: str) -> AIOKafkaConsumer:
    """A consumer in this group, without automatic commits."""
    settings = Settings()
    return AIOKafkaConsumer(
        settings.topics.name(topic),
        bootstrap_servers=settings.kafka_connection().bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def submission_document(value: bytes, timestamp: int) -> dict[str, Any]:
    """The document for a record's value and timestamp, without any checks."""
    return document(orjson.loads(value), datetime.fromtimestamp(timestamp / 1000, UTC))


def document(review: Mapping[str, Any], created: datetime) -> dict[str, Any]:
    """The document that Plaudit stores for a submission."""
    return {
        "_id": review["id"],
        "entityType": review["EntityType"],
        "entityId": review["EntityId"],
        "entityName": review["EntityName"],
        "storeId": review["storeId"],
        "userId": review["userId"],
        "userName": review["userName"],
        "title": review["title"],
        "review": review["review"],
        "ratingHundredths": review["rating"] * 100,
        "status": 0,
        "createdDate": created,
        "modifiedDate": created,
    }
