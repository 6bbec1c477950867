"""The time of storing, kept only for reviews that waited in Kafka: others are nearly as old as their records."""

from datetime import UTC, datetime, timedelta
from typing import Final

from pymongo import DESCENDING, IndexModel

from storage.database import Document
from storage.reviews.search import SINCE_EVER

_FIELD: Final = "storedAt"
_LATE: Final = timedelta(seconds=1)
_LOOK_BACK: Final = 2 * _LATE
"""Longer than a review that isn't late takes from its record to the database, and than a transaction takes from the
time that it stamps its writes with to its commit."""

INDEX: Final = IndexModel([(_FIELD, DESCENDING)], name="stored_late", sparse=True)


def stored_fields(submitted: datetime) -> Document:
    """The fields of a review that is about to be stored; `submitted` is the time of its record."""
    now = datetime.now(UTC)
    return {_FIELD: now} if now - submitted > _LATE else {}


def shortly_before(moment: datetime) -> datetime:
    """The moment to search from, so that nothing is missed that became visible since `moment`."""
    return max(moment, SINCE_EVER + _LOOK_BACK) - _LOOK_BACK


def stored_since(moment: datetime) -> Document:
    """The condition for reviews that were stored at this moment or later, by the dates that they have."""
    return {"$or": [{name: {"$gte": moment}} for name in ("createdDate", "submittedAt", _FIELD)]}
