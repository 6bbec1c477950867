"""The limit for moderation: a bare loop of `bulk_write` status updates, without ratings."""

import orjson
from pymongo import UpdateOne

from benchmarks.subjects.fixtures import FETCH, consumer, database, run
from messaging.topics import Topic


async def main() -> None:
    """Consume until killed."""
    reviews = database()["reviews"]
    async with consumer(Topic.MODERATION_COMMANDS, "bare") as source:
        while True:
            batches = await source.getmany(timeout_ms=1_000, max_records=FETCH)
            updates = [
                UpdateOne({"_id": id}, {"$set": {"status": 1}})
                for records in batches.values()
                for record in records
                for id in orjson.loads(record.value)["ids"]
            ]
            if updates:
                await reviews.bulk_write(updates, ordered=False)
                await source.commit()


if __name__ == "__main__":
    run(main())
