"""Events: what others may follow."""

from __future__ import annotations

from typing import Final, NotRequired

from typing_extensions import TypedDict

from domain.ratings import RatingMethod, RatingTally, TallyKey, rating_value
from domain.reviews import ModerationAction
from domain.stores import Refusal

EVENT_OF_ACTION: Final = {
    ModerationAction.APPROVE: "ReviewApproved",
    ModerationAction.REJECT: "ReviewRejected",
    ModerationAction.RESET: "ReviewReset",
    ModerationAction.DELETE: "ReviewDeleted",
}


class ReviewModerated(TypedDict):
    """ReviewApproved, ReviewRejected, ReviewReset, ReviewDeleted."""

    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None
    moderator: NotRequired[str | None]
    reason: NotRequired[str | None]
    at: str


class RatingChanged(TypedDict):
    """The rating of an object in a store, or without one, as it is from now on, by each method."""

    entityType: str
    entityId: str
    storeId: str | None
    reviewCount: int
    average: float
    wilson: float


class SubmissionRefused(TypedDict):
    """A submission that the rules of its store don't allow."""

    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None
    code: str
    message: str


def rating_changed(key: TallyKey, tally: RatingTally) -> RatingChanged:
    """The event for a tally that has changed to this."""
    return {
        "entityType": key.entity.type,
        "entityId": key.entity.id,
        "storeId": key.store_id,
        "reviewCount": tally.count,
        "average": rating_value(tally, RatingMethod.AVERAGE),
        "wilson": rating_value(tally, RatingMethod.WILSON),
    }


def submission_refused(review_id: str, key: TallyKey, reason: Refusal) -> SubmissionRefused:
    """The event for a refused submission."""
    return {
        "reviewId": review_id,
        "entityType": key.entity.type,
        "entityId": key.entity.id,
        "storeId": key.store_id,
        "code": reason.value,
        "message": reason.message,
    }
