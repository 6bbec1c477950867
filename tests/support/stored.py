"""A stored review, to be damaged."""

from datetime import UTC, datetime
from typing import Final

from storage.database import Document

WRITTEN: Final = datetime(2026, 1, 1, tzinfo=UTC)
REVIEW: Final[Document] = {
    "entityType": "Product",
    "entityId": "p",
    "entityName": None,
    "storeId": "north",
    "userId": None,
    "userName": None,
    "title": None,
    "review": "Good.",
    "ratingHundredths": 400,
    "status": 1,
    "createdDate": WRITTEN,
    "modifiedDate": WRITTEN,
}
"""All fields but the id."""
