"""Reviews as MongoDB documents: the names of their fields, and both ways between documents and the domain."""

from __future__ import annotations

from typing import Final

from domain.ratings import Entity
from domain.reviews import ModeratedReview, Review, ReviewStatus
from storage.database import Document
from storage.seen import seen_document, seen_from

LONG_TEXT_BYTES: Final = 2_048

_TEXT_LENGTH: Final = {"$strLenBytes": "$review"}
LISTED: Final[Document] = {
    **dict.fromkeys(("entityType", "entityId", "entityName", "storeId", "userId", "userName", "title"), 1),
    **dict.fromkeys(("ratingHundredths", "createdDate", "modifiedDate", "status", "nameWanted"), 1),
    **dict.fromkeys(("moderator", "moderationReason"), 1),
    "review": {"$cond": [{"$lte": [_TEXT_LENGTH, LONG_TEXT_BYTES]}, "$review", _TEXT_LENGTH]},
}
"""The projection of a review in a list. In the place of a long text stands its length in bytes."""

MODERATED: Final[Document] = {
    **dict.fromkeys(("entityType", "entityId", "storeId", "ratingHundredths", "status", "seen", "modifiedDate"), 1),
    **dict.fromkeys(("moderator", "moderationReason"), 1),
}
"""The projection of a review for moderation."""

_STATUSES: Final = {int(status): status for status in ReviewStatus}


def document_of(review: Review) -> Document:
    """A review as it is stored."""
    document: Document = {
        "_id": review.id,
        "entityType": review.entity.type,
        "entityId": review.entity.id,
        "entityName": review.entity_name,
        "storeId": review.store_id,
        "userId": review.user_id,
        "userName": review.user_name,
        "title": review.title,
        "review": review.text,
        "ratingHundredths": review.rating,
        "status": int(review.status),
        "createdDate": review.created,
        "modifiedDate": review.modified,
    }
    if review.name_wanted:
        document["nameWanted"] = True
    return document


def review_from(document: Document) -> Review:
    """The review in a document."""
    # By position, and without a call of the enumeration: a list has a thousand.
    return Review(
        document["_id"],
        Entity(document["entityType"], document["entityId"]),
        document["entityName"],
        document["storeId"],
        document["userId"],
        document["userName"],
        document["title"],
        document["review"],
        document["ratingHundredths"],
        document["createdDate"],
        document["modifiedDate"],
        _STATUSES[document["status"]],
        "nameWanted" in document,
        document.get("moderator"),
        document.get("moderationReason"),
    )


def moderated_fields(review: ModeratedReview) -> Document:
    """The fields that moderation changes, as they are after it."""
    return {
        "status": int(review.status or 0),
        "modifiedDate": review.modified,
        "moderator": review.moderator,
        "moderationReason": review.reason,
        "seen": seen_document(review.seen),
    }


def moderated_from(document: Document) -> ModeratedReview:
    """The part of a review that moderation reads; `document` has the fields of MODERATED."""
    return ModeratedReview(
        entity=Entity(document["entityType"], document["entityId"]),
        store_id=document["storeId"],
        rating=document["ratingHundredths"],
        status=ReviewStatus(document["status"]),
        seen=seen_from(document.get("seen")),
        modified=document["modifiedDate"],
        moderator=document.get("moderator"),
        reason=document.get("moderationReason"),
    )
