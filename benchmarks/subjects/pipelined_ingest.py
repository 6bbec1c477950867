"""The limit: the bare loop, but the next fetch and parse are under way while MongoDB writes."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from benchmarks.subjects.surroundings import FETCH, consumer, database, run, submitted
from messaging.topics import Topic


async def main() -> None:
    """Consume until killed."""
    reviews = database()["reviews"]
    async with consumer(Topic.REVIEW_SUBMISSIONS, "pipelined") as source:
        writing: asyncio.Task[None] | None = None
        while True:
            batches = await source.getmany(timeout_ms=1_000, max_records=FETCH)
            documents = [submitted(r.value, r.timestamp) for records in batches.values() for r in records]
            ends = {partition: records[-1].offset + 1 for partition, records in batches.items() if records}
            if writing:
                await writing
            writing = asyncio.create_task(_written(source, reviews, documents, ends)) if documents else None


async def _written(
    source: AIOKafkaConsumer, reviews: Any, documents: list[dict[str, Any]], ends: dict[TopicPartition, int]
) -> None:
    await reviews.insert_many(documents, ordered=False)
    await source.commit(ends)


if __name__ == "__main__":
    run(main())
