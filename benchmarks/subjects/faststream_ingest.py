"""The usual FastStream handler: a typed model and an insert for each message."""

from datetime import UTC, datetime

from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel

from benchmarks.subjects.fixtures import database, document, run
from messaging.topics import Topic
from plaudit.config import Settings


class Review(BaseModel):
    """A submission."""

    id: str
    storeId: str  # noqa: N815
    userId: str  # noqa: N815
    userName: str  # noqa: N815
    EntityId: str
    EntityType: str
    EntityName: str
    title: str
    review: str
    rating: int


settings = Settings()
broker = KafkaBroker(settings.kafka_connection().bootstrap_servers, logger=None)
reviews = database()["reviews"]


@broker.subscriber(settings.topics.name(Topic.REVIEW_SUBMISSIONS), group_id="usual", auto_offset_reset="earliest")
async def store(review: Review) -> None:
    """Store one review."""
    await reviews.insert_one(document(vars(review), datetime.now(UTC)))


if __name__ == "__main__":
    run(FastStream(broker, logger=None).run())
