"""Sample reviews, approvals and feedback."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from domain.places import bucket_of, placed
from domain.ratings import Entity
from domain.reviews import ReviewStatus
from storage.reviews.queue import queue_fields

OBJECTS: Final = 10_000
_TEXT: Final = "Sharp pictures, and the battery lasts for days. I would buy it again at any time. " * 3
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


def review_id(number: int) -> str:
    """An id as chosen by an upstream system. The ids are not in ascending order, as most aren't."""
    return f"{number * 2_654_435_761 % 4_294_967_296:08x}-{number:08x}"


def placed_id(number: int, entity_id: str) -> str:
    """An id as the service gives it to a review of an object. These ids are not in ascending order either."""
    bucket = bucket_of(Entity("Product", entity_id))
    return placed(UUID(int=number * 2_654_435_761 % 4_294_967_296 << 96 | 2 << 62 | number), bucket)


def object_id(number: int, objects: int = OBJECTS) -> str:
    """The id of the object that a review is about."""
    return f"product-{number % objects}"


def submitted_review(number: int, objects: int = OBJECTS) -> dict[str, Any]:
    """A review in the specified format, about one of `objects` objects."""
    return {
        "id": review_id(number),
        "storeId": "open",
        "userId": f"user-{number % 50_000}",
        "userName": "Anna Berg",
        "EntityId": object_id(number, objects),
        "EntityType": "Product",
        "EntityName": "Camera",
        "title": "As good as they say",
        "review": _TEXT,
        "rating": 1 + number % 5,
    }


def submissions(count: int, objects: int = OBJECTS, *, first: int = 0) -> Iterator[tuple[str, bytes]]:
    """Submissions in the specified format, with their keys, spread over `objects` objects."""
    for number in range(first, first + count):
        yield f"Product:{object_id(number, objects)}", orjson.dumps(submitted_review(number, objects))


def approvals(
    first: int, count: int, objects: int = OBJECTS, entity_id: str | None = None
) -> Iterator[tuple[str, bytes]]:
    """Approvals as upstream systems publish them, one message each, for reviews of `objects` objects or of one."""
    for number in range(first, first + count):
        id = placed_id(number, entity_id or object_id(number, objects))
        yield id, orjson.dumps({"action": "approve", "ids": [id]})


def feedback(action: str, first: int, count: int, entity_id: str) -> Iterator[tuple[str, bytes]]:
    """One vote on, or one reply to, each of these reviews of an object."""
    fields: dict[str, Any] = {"userId": "reader", "helpful": True} if action == "vote" else {"text": _TEXT}
    for number in range(first, first + count):
        id = placed_id(number, entity_id)
        yield id, orjson.dumps({"action": action, "reviewId": id, **fields})


def stored_review(
    number: int, objects: int = OBJECTS, status: int = 0, store: str = "open", entity_id: str | None = None
) -> dict[str, Any]:
    """A review as stored, about one of `objects` objects or about `entity_id`."""
    at, entity_id = _START + timedelta(milliseconds=number), entity_id or object_id(number, objects)
    return {
        "_id": placed_id(number, entity_id),
        "entityType": "Product",
        "entityId": entity_id,
        "entityName": "Camera",
        "storeId": store,
        "userId": f"user-{number % 50_000}",
        "userName": "Anna Berg",
        "title": "As good as they say",
        "review": _TEXT,
        "ratingHundredths": 100 * (1 + number % 5),
        "status": status,
        **queue_fields(ReviewStatus(status)),
        "createdDate": at,
        "modifiedDate": at,
    }
