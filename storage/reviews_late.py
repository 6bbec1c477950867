"""The time of storing: of the reviews that waited in Kafka alone, for the others are nearly as old as their records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from pymongo import DESCENDING, IndexModel

from storage.database import Document
from storage.reviews_search import SINCE_EVER

_FIELD: Final = "storedAt"
_LATE: Final = timedelta(seconds=1)
_LOOK_BACK: Final = 2 * _LATE
"""Longer than any review that isn't late took from its record to the database."""

INDEX: Final = IndexModel([(_FIELD, DESCENDING)], name="stored_late", sparse=True)


def stored_fields(submitted: datetime) -> Document:
    """The fields of a review that is about to be stored, by the time of its record."""
    now = datetime.now(UTC)
    return {_FIELD: now} if now - submitted > _LATE else {}


def stored_since(moment: datetime) -> Document:
    """The condition for reviews that were stored at that moment or later, and for some of a little before."""
    since = {"$gte": max(moment, SINCE_EVER + _LOOK_BACK) - _LOOK_BACK}
    return {"$or": [{name: since} for name in ("createdDate", "submittedAt", _FIELD)]}
