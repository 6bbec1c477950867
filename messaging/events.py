"""Events that Plaudit publishes."""

from datetime import datetime
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from domain.feedback import Feedback, ReviewFeedback
from domain.feedback_reports import Report
from domain.moderation import Moderation, ModerationResult
from domain.ratings import ChangedTally, Entity, RatingMethod, TallyKey, histogram_by_stars, rating_number, rating_value
from domain.reminders import Reminder, ReviewableOrder
from domain.reviews import ModerationAction, Review, ReviewStatus
from domain.reviews_edits import Edit, Edited, EditRight
from domain.reviews_moderated import ModeratedReview
from domain.reviews_refusals import Refusal
from domain.timestamps import timestamp
from messaging.reviews_state import ShownReply, shown_reply
from messaging.schemas import ShownMoment

MODERATION_EVENTS: Final = {
    ReviewStatus.APPROVED: "ReviewApproved",
    ReviewStatus.REJECTED: "ReviewRejected",
    ReviewStatus.NEW: "ReviewReset",
    None: "ReviewDeleted",
}
"""The event for a review that got this status by moderation; None: it was deleted."""

_CONTEST: Final = "Write to the store, with the id of the review: a person will then review the decision."


class StatementOfReasons(TypedDict):
    """The statement of reasons for the author of a rejected review (Regulation (EU) 2022/2065, DSA, Article 17): the
    recipient, the reason, who decided (`moderator`, or `system` if nobody is named), and how to object."""

    userId: str
    reasonCode: str | None
    reason: str | None
    decidedBy: Literal["moderator", "system"]
    contest: str


class _ReviewFields(TypedDict):
    reviewId: str
    entityType: str
    entityId: str
    storeId: str | None


class ReviewSubmitted(_ReviewFields):
    """A review that has been stored, with the status New. `flags`: ids of the moderation rules that hold or flag it."""

    rating: float
    flags: list[str]
    at: ShownMoment


class ReviewEdited(_ReviewFields):
    """A review that its author or a moderator has edited: the names of the changed fields, and the status before and
    after. `editor` is the name of the moderator."""

    fields: list[str]
    editedBy: EditRight
    editor: str | None
    statusBefore: str
    statusAfter: str
    at: ShownMoment


class ReviewModerated(_ReviewFields):
    """A decision about a review; `status` is null after a deletion. A rejection has the statement for the review's
    author, if there is one."""

    statusBefore: str | None
    status: str | None
    moderator: str | None
    reason: str | None
    reasonCode: str | None
    statement: NotRequired[StatementOfReasons]
    at: ShownMoment


class ReviewReplied(_ReviewFields):
    """The store's current reply to a review; null if it was removed. `moderator` made the change."""

    reply: ShownReply | None
    moderator: str | None
    at: ShownMoment


class ReviewReported(_ReviewFields):
    """A person objects to a review; `reports` is its number of open reports."""

    reportId: str
    reason: str
    reports: int
    at: ShownMoment


class RatingChanged(TypedDict):
    """The new rating of an object in a store, or without one, by each method. `histogram` has the number of reviews by
    stars, `1` to `5`; null for a rating older than histograms: `plaudit ratings rebuild`. Of several events about one
    rating, that with the highest `revision` is the latest, in whatever order they arrive."""

    entityType: str
    entityId: str
    storeId: str | None
    reviewCount: int
    average: float
    wilson: float
    histogram: dict[str, int] | None
    revision: int


class SubmissionRefused(_ReviewFields):
    """A submission that its store's rules don't allow, whose id belongs to another review, or that omits its text or
    rating although no review has its id."""

    code: str
    message: str
    at: ShownMoment


class ReminderRequested(TypedDict):
    """A customer is asked by mail to review what they bought; `reminderId` is the id of the mail."""

    reminderId: str
    orderId: str
    customerId: str
    storeId: str | None
    productIds: list[str]
    at: ShownMoment


def rating_changed(key: TallyKey, changed: ChangedTally) -> RatingChanged:
    """The event for a changed tally."""
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


def review_submitted(review: Review) -> ReviewSubmitted:
    """The event for a stored review."""
    return {
        **_review_fields(review.id, review.entity, review.store_id),
        "rating": rating_number(review.rating),
        "flags": list(review.flags),
        "at": timestamp(review.modified),
    }


def review_approved(review_id: str, key: TallyKey, moderator: str, at: datetime) -> ReviewModerated:
    """The event for a review that a rule or a verdict approved."""
    return {
        "reviewId": review_id,
        "entityType": key.entity.type,
        "entityId": key.entity.id,
        "storeId": key.store_id,
        "statusBefore": ReviewStatus.NEW.label,
        "status": ReviewStatus.APPROVED.label,
        "moderator": moderator,
        "reason": None,
        "reasonCode": None,
        "at": timestamp(at),
    }


def review_moderated(command: Moderation, review: ModeratedReview, result: ModerationResult) -> ReviewModerated:
    """The event for a review that this command moderated."""
    event: ReviewModerated = {
        "reviewId": command.review_id,
        "entityType": review.entity.type,
        "entityId": review.entity.id,
        "storeId": review.store_id,
        "statusBefore": result.before.label if result.before is not None else None,
        "status": result.after.label if result.after is not None else None,
        "moderator": command.moderator,
        "reason": command.reason,
        "reasonCode": command.reason_code,
        "at": timestamp(command.at),
    }
    if statement := statement_of_reasons(command, review.user_id):
        event["statement"] = statement
    return event


def statement_of_reasons(command: Moderation, user_id: str | None) -> StatementOfReasons | None:
    """The statement for the author of a review that this command rejects; None otherwise, or if it is anonymous."""
    if command.action is not ModerationAction.REJECT or user_id is None:
        return None
    return {
        "userId": user_id,
        "reasonCode": command.reason_code,
        "reason": command.reason,
        "decidedBy": "moderator" if command.moderator else "system",
        "contest": _CONTEST,
    }


def review_replied(command: Feedback, review: ReviewFeedback) -> ReviewReplied:
    """The event for a review whose reply this command set or removed."""
    return {
        **_review_fields(command.review_id, review.entity, review.store_id),
        "reply": review.reply and shown_reply(review.reply),
        "moderator": command.moderator,
        "at": timestamp(command.at),
    }


def review_reported(command: Feedback, report: Report, review: ReviewFeedback) -> ReviewReported:
    """The event for a reported review."""
    return {
        **_review_fields(command.review_id, review.entity, review.store_id),
        "reportId": report.id,
        "reason": report.reason,
        "reports": review.responses.reports,
        "at": timestamp(command.at),
    }


def review_edited(edit: Edit, key: TallyKey, edited: Edited) -> ReviewEdited:
    """The event for an edit of a review of this object and store."""
    right = edit.right or EditRight.AUTHOR
    return {
        **_review_fields(edit.review_id, key.entity, key.store_id),
        "fields": list(edited.fields),
        "editedBy": right,
        "editor": edit.editor if right is EditRight.MODERATOR else None,
        "statusBefore": edited.before.label,
        "statusAfter": edited.after.label,
        "at": timestamp(edit.at),
    }


def submission_refused(review_id: str, key: TallyKey, reason: Refusal, at: datetime) -> SubmissionRefused:
    """The event for a refused submission. `at`: the time of its record."""
    return {
        **_review_fields(review_id, key.entity, key.store_id),
        "code": reason.value,
        "message": reason.message,
        "at": timestamp(at),
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


def _review_fields(review_id: str, entity: Entity, store_id: str | None) -> _ReviewFields:
    # Not for ReviewModerated: mypy assumes that unpacking could set its keys that aren't required.
    return {"reviewId": review_id, "entityType": entity.type, "entityId": entity.id, "storeId": store_id}
