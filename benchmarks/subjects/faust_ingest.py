"""The usual agent of faust-streaming: a typed record and an insert for each message. It has its own environment."""

import asyncio
import tempfile
from datetime import UTC, datetime

import faust
import uvloop

from benchmarks.subjects.fixtures import database, document
from messaging.topics import Topic
from plaudit.config import Settings


class Review(faust.Record, serializer="json"):  # type: ignore[misc, call-arg]
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
app = faust.App(
    "stream",
    broker=f"kafka://{settings.kafka_connection().bootstrap_servers}",
    datadir=tempfile.gettempdir(),
    web_enabled=False,
    topic_disable_leader=True,
)
submissions = app.topic(settings.topics.name(Topic.REVIEW_SUBMISSIONS), value_type=Review)


@app.agent(submissions)  # type: ignore[untyped-decorator]
async def store(stream: faust.Stream[Review]) -> None:
    """Store the reviews, one after the other."""
    reviews = database()["reviews"]
    async for review in stream:
        await reviews.insert_one(document(vars(review), datetime.now(UTC)))


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    faust.Worker(app, loglevel="error", redirect_stdouts=False).execute_from_commandline()
