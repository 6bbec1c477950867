"""The common ground of the subjects: the same servers, the same write concern, the same document."""

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
"""Records at once: the size at which `insert_many` reached its best here."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run until killed, on the event loop that Plaudit has."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def database() -> Database:
    """The database of the run."""
    settings = Settings()
    return connect(settings.mongo_uri(), settings.mongo.database)[1]


def consumer(topic: Topic, group: str) -> AIOKafkaConsumer:
    """A consumer of its own group, which commits by itself alone."""
    settings = Settings()
    return AIOKafkaConsumer(
        settings.topics.name(topic),
        bootstrap_servers=settings.kafka_connection().bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def submitted(value: bytes, timestamp: int) -> dict[str, Any]:
    """The document of a record, without any check."""
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
