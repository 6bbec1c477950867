"""The limit for ingest: the bare loop, but it fetches and parses the next batch while MongoDB writes."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from benchmarks.subjects.fixtures import FETCH, consumer, database, run, submission_document
from messaging.topics import Topic


async def main() -> None:
    """Consume until killed."""
    reviews = database()["reviews"]
    async with consumer(Topic.REVIEW_SUBMISSIONS, "pipelined") as source:
        writing: asyncio.Task[None] | None = None
        while True:
            batches = await source.getmany(timeout_ms=1_000, max_records=FETCH)
            documents = [submission_document(r.value, r.timestamp) for records in batches.values() for r in records]
            ends = {partition: records[-1].offset + 1 for partition, records in batches.items() if records}
            if writing:
                await writing
            writing = asyncio.create_task(_write(source, reviews, documents, ends)) if documents else None


async def _write(
    source: AIOKafkaConsumer, reviews: Any, documents: list[dict[str, Any]], ends: dict[TopicPartition, int]
) -> None:
    await reviews.insert_many(documents, ordered=False)
    await source.commit(ends)


if __name__ == "__main__":
    run(main())
