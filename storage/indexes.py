"""All indexes, by collection."""

from __future__ import annotations

from storage import mails, orders, outbox, outcomes, parking, ratings, returns, reviews, templates
from storage.database import Database, create_indexes


async def ensure_indexes(database: Database, *, remember_days: int) -> None:
    """Create what is missing. Ids of deleted reviews are remembered for so many days: longer than Kafka keeps
    the submissions, so that none can bring a review back."""
    await create_indexes(
        database,
        {
            reviews.COLLECTION: reviews.indexes(remember_days),
            ratings.COLLECTION: ratings.INDEXES,
            parking.COLLECTION: parking.INDEXES,
            outcomes.COLLECTION: outcomes.INDEXES,
            outbox.COLLECTION: outbox.INDEXES,
            orders.COLLECTION: orders.INDEXES,
            returns.COLLECTION: returns.indexes(remember_days),
            returns.PARKED: returns.PARKED_INDEXES,
            mails.COLLECTION: mails.indexes(remember_days),
            templates.COLLECTION: templates.indexes(remember_days),
        },
    )
