"""The fields that a stored review must have."""

from datetime import datetime
from typing import Final

from pymongo import ASCENDING, DESCENDING

from domain.reviews import ReviewStatus
from domain.timestamps import EPOCH, from_milliseconds
from storage.database import Document
from storage.shapes import (
    DATE,
    STRING,
    TEXT_OR_NULL,
    WHOLE,
    RequiredField,
    Shape,
    default_field,
    irrecoverable_field,
    is_field_damaged,
)

BY_ENTITY: Final = [("entityType", ASCENDING), ("entityId", ASCENDING)]
NEWEST: Final = [("createdDate", DESCENDING), ("_id", DESCENDING)]
"""The order of lists by default."""

IS_REVIEW: Final[Document] = {"goneAt": None}
"""The filter that leaves out placeholders of refused and deleted reviews, for queries by id: a review without its date
still matches."""

APPROVED: Final[Document] = {**IS_REVIEW, "status": int(ReviewStatus.APPROVED)}
"""The filter for publicly visible reviews. A text that a shop's page fetches by itself needs it: the review may have
been edited since it was found."""


HAS_TEXT_ID: Final[Document] = {"$expr": {"$eq": [{"$type": "$_id"}, "string"]}}
"""The filter that leaves out reviews that somebody inserted with another id, for counts. It is an expression so that
MongoDB doesn't consider the index of ids for the query."""


def _created(document: Document) -> datetime:
    """The time of its submission: as an import noted it, or of the record that last wrote it; else its last change."""
    for value in (document.get("submittedAt"), _written(document), document.get("modifiedDate")):
        if isinstance(value, datetime):
            return value
    return EPOCH


def _written(document: Document) -> datetime | None:
    match document.get("writtenAt"):
        case [_, _, int(timestamp)] if timestamp > 0:
            return from_milliseconds(timestamp)
        case _:
            return None


def _modified(document: Document) -> datetime:
    created = document.get("createdDate")
    return created if isinstance(created, datetime) else _created(document)


REVIEW: Final = Shape(
    "reviews",
    {
        # A review that somebody copied may have another id: no command names it, and no topic can have it.
        "_id": irrecoverable_field(STRING, "?"),
        "entityType": irrecoverable_field(STRING, "?"),
        "entityId": irrecoverable_field(STRING, "?"),
        **dict.fromkeys(("entityName", "storeId", "userId", "userName", "title"), default_field(TEXT_OR_NULL)),
        "review": irrecoverable_field(STRING, ""),
        "ratingHundredths": irrecoverable_field(WHOLE, 0),
        "status": default_field(WHOLE, 0, [int(status) for status in ReviewStatus]),
        "createdDate": RequiredField(DATE, _created),
        "modifiedDate": RequiredField(DATE, _modified),
    },
    IS_REVIEW,
)

TALLIED: Final = frozenset(("entityType", "entityId", "storeId", "ratingHundredths", "status"))
"""The fields that ratings depend on."""


def is_uncertain(document: Document) -> bool:
    """True if a field of TALLIED is damaged: the document doesn't show what the review counts for."""
    return any(is_field_damaged(REVIEW, document, name) for name in TALLIED)
