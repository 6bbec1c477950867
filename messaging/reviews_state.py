"""Records of the compacted topic `reviews`: each review as it now is."""

from __future__ import annotations

from typing import Final

from typing_extensions import TypedDict

from domain.delivery import OutgoingMessage
from domain.ratings import rating_number
from domain.reviews import Review
from domain.timestamps import timestamp
from messaging.envelope import Envelope

_ENVELOPE: Final = Envelope("/plaudit/worker")


class ReviewState(TypedDict):
    """A review as it now is. No value: it was deleted."""

    id: str
    entityType: str
    entityId: str
    entityName: str | None
    storeId: str | None
    userId: str | None
    userName: str | None
    title: str | None
    review: str
    rating: int | float
    reviewStatus: str
    reviewStatusId: int
    createdDate: str
    modifiedDate: str
    moderator: str | None
    moderationReason: str | None


def review_state(review: Review, moderator: str | None, reason: str | None) -> ReviewState:
    """The value for a review, and who moderated it last."""
    return {
        "id": review.id,
        "entityType": review.entity.type,
        "entityId": review.entity.id,
        "entityName": review.entity_name,
        "storeId": review.store_id,
        "userId": review.user_id,
        "userName": review.user_name,
        "title": review.title,
        "review": review.text,
        "rating": rating_number(review.rating),
        "reviewStatus": review.status.label,
        "reviewStatusId": int(review.status),
        "createdDate": timestamp(review.created),
        "modifiedDate": timestamp(review.modified),
        "moderator": moderator,
        "moderationReason": reason,
    }


def state_record(topic: str, state: ReviewState) -> OutgoingMessage:
    """The record of a review."""
    return _ENVELOPE.wrap(topic, state["id"], "ReviewState", state)


def tombstone(topic: str, review_id: str) -> OutgoingMessage:
    """The record of a review that is gone: a key without a value, which removes those before it in time."""
    return _ENVELOPE.wrap(topic, review_id, "ReviewGone", None)._replace(value=None)
