"""Events that Plaudit publishes."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NotRequired

from typing_extensions import TypedDict

from domain.ratings import ChangedTally, RatingMethod, TallyKey, histogram_by_stars, rating_number, rating_value
from domain.reminders import Reminder, ReviewableOrder
from domain.reviews import Review, ReviewStatus
from domain.reviews_edits import Edit, Edited, EditRight
from domain.stores import Refusal
from domain.timestamps import timestamp
from messaging.reviews_state import ShownReply
from messaging.statements import StatementOfReasons

_EVENTS: Final = {ReviewStatus.APPROVED: "ReviewApproved", ReviewStatus.REJECTED: "ReviewRejected"}


class ReviewSubmitted(TypedDict):
    """A review that has been stored; its status is New. `flags`: the ids of the moderation rules that hold it back or
    flag it."""

    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None
    rating: float
    flags: list[str]
    at: str


class ReviewEdited(TypedDict):
    """A review that its author or a moderator has changed: the names of the changed fields, and the status before and
    after. `editor` is the name of the moderator."""

    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None
    fields: list[str]
    editedBy: EditRight
    editor: str | None
    statusBefore: str
    statusAfter: str
    at: str


class ReviewModerated(TypedDict):
    """ReviewApproved, ReviewRejected, ReviewReset, ReviewDeleted; `status` is null once it is deleted. A rejection has
    the statement for its author, if there is one."""

    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None
    statusBefore: str | None
    status: str | None
    moderator: NotRequired[str | None]
    reason: NotRequired[str | None]
    reasonCode: NotRequired[str | None]
    statement: NotRequired[StatementOfReasons]
    at: str


class ReviewReplied(TypedDict):
    """The store's reply to a review as it now is; null: it was removed. `moderator` is who did it."""

    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None
    reply: ShownReply | None
    moderator: str | None
    at: str


class ReviewReported(TypedDict):
    """Somebody objects to a review; `reports` is the number of open reports now."""

    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None
    reportId: str
    reason: str
    reports: int
    at: str


class RatingChanged(TypedDict):
    """The rating of an object in a store, or without one, as it is from now on, by each method. `histogram` has the
    number of reviews by stars, `1` to `5`; null in a rating from before it was counted: `plaudit ratings rebuild`.
    Of several about one rating the one with the highest `revision` is the latest, in whatever order they come."""

    entityType: str
    entityId: str
    storeId: str | None
    reviewCount: int
    average: float
    wilson: float
    histogram: dict[str, int] | None
    revision: int


class SubmissionRefused(TypedDict):
    """A submission that the rules of its store don't allow, or whose id is another's."""

    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None
    code: str
    message: str


class ReminderRequested(TypedDict):
    """A customer is asked by mail for reviews of what was bought; `reminderId` is the id of the mail."""

    reminderId: str
    orderId: str
    customerId: str
    storeId: str | None
    productIds: list[str]
    at: str


def rating_changed(key: TallyKey, changed: ChangedTally) -> RatingChanged:
    """The event for a tally that has changed to this."""
    tally = changed.tally
    return {
        "entityType": key.entity.type,
        "entityId": key.entity.id,
        "storeId": key.store_id,
        "reviewCount": tally.count,
        "average": rating_value(tally, RatingMethod.AVERAGE),
        "wilson": rating_value(tally, RatingMethod.WILSON),
        "histogram": histogram_by_stars(tally),
        "revision": changed.revision,
    }


def moderation_event(status: ReviewStatus | None) -> str:
    """The event for a review that moderation gave this status, None where it deleted it."""
    return _EVENTS.get(status, "ReviewReset") if status is not None else "ReviewDeleted"


def review_submitted(review: Review) -> ReviewSubmitted:
    """The event for a review that has been stored."""
    return {
        "reviewId": review.id,
        "entityType": review.entity.type,
        "entityId": review.entity.id,
        "storeId": review.store_id,
        "rating": rating_number(review.rating),
        "flags": list(review.flags),
        "at": timestamp(review.modified),
    }


def review_approved(review_id: str, key: TallyKey, moderator: str, at: datetime) -> ReviewModerated:
    """The event for a review that a rule or a verdict has approved."""
    return {
        "reviewId": review_id,
        "entityType": key.entity.type,
        "entityId": key.entity.id,
        "storeId": key.store_id,
        "statusBefore": ReviewStatus.NEW.label,
        "status": ReviewStatus.APPROVED.label,
        "moderator": moderator,
        "reason": None,
        "at": timestamp(at),
    }


def review_edited(edit: Edit, key: TallyKey, edited: Edited) -> ReviewEdited:
    """The event for an edit of a review of this object and store."""
    right = edit.right or EditRight.AUTHOR
    return {
        "reviewId": edit.review_id,
        "entityType": key.entity.type,
        "entityId": key.entity.id,
        "storeId": key.store_id,
        "fields": list(edited.fields),
        "editedBy": right,
        "editor": edit.editor if right is EditRight.MODERATOR else None,
        "statusBefore": edited.before.label,
        "statusAfter": edited.after.label,
        "at": timestamp(edit.at),
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


def reminder_requested(reminder: Reminder, order: ReviewableOrder, at: datetime) -> ReminderRequested:
    """The event for a reminder that is due."""
    return {
        "reminderId": reminder.id,
        "orderId": order.id,
        "customerId": reminder.customer_id,
        "storeId": order.store_id,
        "productIds": [item.product_id for item in reminder.items],
        "at": timestamp(at),
    }
