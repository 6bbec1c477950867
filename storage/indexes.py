"""All indexes, by collection."""

from __future__ import annotations

from typing import Final

from pymongo import IndexModel

from storage import (
    audit,
    claims,
    feedback_reports,
    feedback_votes,
    images,
    mails,
    moderation_rules,
    objects,
    orders,
    outbox,
    outcomes,
    parking,
    privacy_erasures,
    ratings,
    ratings_objects,
    replays,
    returns,
    review_tokens,
    reviews,
    sessions,
    templates,
    verdicts,
)
from storage.database import Database, create_indexes, drop_indexes

SUPERSEDED: Final = {returns.COLLECTION: returns.SUPERSEDED, orders.COLLECTION: orders.SUPERSEDED}
"""The names of indexes that earlier versions made, by collection."""


async def ensure_indexes(database: Database, *, remember_days: int) -> None:
    """Create what is missing, then drop what it takes the place of, so that there is never neither."""
    await create_indexes(database, all_indexes(remember_days))
    await drop_indexes(database, SUPERSEDED)


def all_indexes(remember_days: int) -> dict[str, list[IndexModel]]:
    """Every index that the service needs. What has been done is remembered for so many days: longer than Kafka keeps
    the records, so that none takes effect again."""
    return {
        reviews.COLLECTION: reviews.INDEXES,
        ratings.COLLECTION: [*ratings.INDEXES, *ratings_objects.INDEXES],
        parking.COLLECTION: parking.INDEXES,
        moderation_rules.TEXTS: moderation_rules.TEXT_INDEXES,
        moderation_rules.PUBLICATIONS: moderation_rules.PUBLICATION_INDEXES,
        outcomes.COLLECTION: outcomes.INDEXES,
        outbox.COLLECTION: outbox.INDEXES,
        orders.COLLECTION: orders.INDEXES,
        returns.COLLECTION: returns.indexes(remember_days),
        returns.PARKED: returns.PARKED_INDEXES,
        mails.COLLECTION: mails.indexes(remember_days),
        replays.COLLECTION: replays.indexes(remember_days),
        sessions.COLLECTION: sessions.INDEXES,
        templates.COLLECTION: templates.indexes(remember_days),
        verdicts.PARKED: verdicts.PARKED_INDEXES,
        audit.COLLECTION: audit.INDEXES,
        claims.COLLECTION: claims.INDEXES,
        feedback_reports.COLLECTION: feedback_reports.INDEXES,
        feedback_votes.COLLECTION: feedback_votes.indexes(remember_days),
        images.COLLECTION: images.INDEXES,
        objects.COLLECTION: objects.INDEXES,
        review_tokens.COLLECTION: review_tokens.INDEXES,
        privacy_erasures.ERASURES: privacy_erasures.INDEXES,
        privacy_erasures.LETTERS: privacy_erasures.letter_indexes(remember_days),
    }
