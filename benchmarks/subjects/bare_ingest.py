"""A bare loop for ingest: fetch, parse, `insert_many` and commit, one after the other."""

from benchmarks.subjects.fixtures import FETCH, consumer, database, run, submission_document
from messaging.topics import Topic


async def main() -> None:
    """Consume until killed."""
    reviews = database()["reviews"]
    async with consumer(Topic.REVIEW_SUBMISSIONS, "bare") as source:
        while True:
            batches = await source.getmany(timeout_ms=1_000, max_records=FETCH)
            documents = [submission_document(r.value, r.timestamp) for records in batches.values() for r in records]
            if documents:
                await reviews.insert_many(documents, ordered=False)
                await source.commit()


if __name__ == "__main__":
    run(main())
