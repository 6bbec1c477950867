"""Whole reviews, as the interface shows them and as records of the compacted topic `reviews`."""

import orjson
from typing_extensions import TypedDict

from domain.delivery import OutgoingMessage
from domain.ratings import Entity, hundredths, rating_number
from domain.reviews import Review, ReviewStatus
from domain.reviews_facts import Reply
from domain.timestamps import moment_in, timestamp
from messaging.envelope import OF_WORKERS
from messaging.schemas import ShownMoment, ShownRating


class ShownReply(TypedDict):
    """The store's reply to a review."""

    text: str
    author: str | None
    createdDate: ShownMoment
    modifiedDate: ShownMoment


class ShownImage(TypedDict):
    """An image of a review; a hidden one is only shown to moderators."""

    id: str
    hidden: bool


class ReviewFacts(TypedDict):
    """The fields of a review beyond the row of a list. `moderator`, `moderationReason` and `reasonCode` are those of
    its last moderation; `flags` has the ids of the moderation rules that held it back."""

    storeId: str | None
    userId: str | None
    modifiedDate: ShownMoment
    moderator: str | None
    moderationReason: str | None
    reasonCode: str | None
    verifiedPurchase: bool
    incentivized: bool
    source: str | None
    language: str | None
    reply: ShownReply | None
    helpful: int
    notHelpful: int
    reports: int
    flags: list[str]
    images: list[ShownImage]


class ReviewState(ReviewFacts):
    """The current state of a review. No value: it was deleted."""

    id: str
    entityType: str
    entityId: str
    entityName: str | None
    userName: str | None
    title: str | None
    review: str
    rating: ShownRating
    reviewStatus: str
    reviewStatusId: int
    createdDate: ShownMoment


def review_facts(review: Review) -> ReviewFacts:
    """The fields of a review beyond the row of a list."""
    return {
        "storeId": review.store_id,
        "userId": review.user_id,
        "modifiedDate": timestamp(review.modified),
        "moderator": review.moderator,
        "moderationReason": review.moderation_reason,
        "reasonCode": review.reason_code,
        "verifiedPurchase": review.facts.verified_purchase,
        "incentivized": review.facts.incentivized,
        "source": review.facts.source,
        "language": review.facts.language,
        "reply": review.reply and shown_reply(review.reply),
        "helpful": review.responses.helpful,
        "notHelpful": review.responses.not_helpful,
        "reports": review.responses.reports,
        "flags": list(review.flags),
        "images": [{"id": image.id, "hidden": image.is_hidden} for image in review.images if not image.is_pending],
    }


def shown_reply(reply: Reply) -> ShownReply:
    """A reply as it is shown."""
    return {
        "text": reply.text,
        "author": reply.author,
        "createdDate": timestamp(reply.created),
        "modifiedDate": timestamp(reply.modified),
    }


def review_state(review: Review) -> ReviewState:
    """The record's value for a review."""
    return {
        "id": review.id,
        "entityType": review.entity.type,
        "entityId": review.entity.id,
        "entityName": review.entity_name,
        "userName": review.user_name,
        "title": review.title,
        "review": review.text,
        "rating": rating_number(review.rating),
        "reviewStatus": review.status.label,
        "reviewStatusId": int(review.status),
        "createdDate": timestamp(review.created),
        **review_facts(review),
    }


def review_of_state(value: bytes) -> Review | None:
    """The review in the value of a record; None if it can't be read."""
    try:
        state: ReviewState = orjson.loads(value)
        return Review(
            id=state["id"],
            entity=Entity(state["entityType"], state["entityId"]),
            entity_name=state["entityName"],
            store_id=state["storeId"],
            user_id=state["userId"],
            user_name=state["userName"],
            title=state["title"],
            text=state["review"],
            rating=hundredths(state["rating"]),
            created=moment_in(state["createdDate"]),
            modified=moment_in(state["modifiedDate"]),
            status=ReviewStatus(state["reviewStatusId"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def state_record(topic: str, state: ReviewState) -> OutgoingMessage:
    """The record for a review."""
    return OF_WORKERS.wrap(topic, state["id"], "ReviewState", state)


def review_id_of(key: bytes | None) -> str | None:
    """The review id in a record's key; None for a key that we never write, so that we write no tombstone for it."""
    try:
        return key.decode() if key else None
    except UnicodeDecodeError:
        return None


def tombstone(topic: str, review_id: str) -> OutgoingMessage:
    """The tombstone of a review: a key without a value, which in time removes the earlier records."""
    return OF_WORKERS.wrap(topic, review_id, "ReviewGone", None)._replace(value=None)
