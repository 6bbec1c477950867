"""Reviews and their moderation status."""

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from domain.delivery import NEVER_WRITTEN, Written
from domain.ratings import Entity, Hundredths, RatingTally, TallyKey
from domain.reviews_facts import (
    NO_FACTS,
    NO_RESPONSES,
    REJECTED_BEFORE,
    Facts,
    ReasonCode,
    Reply,
    Responses,
    ReviewImage,
)


class ReviewStatus(IntEnum):
    """The moderation status of a review; the number is the `reviewStatusId` of the interface."""

    NEW = 0
    APPROVED = 1
    REJECTED = 2

    @cached_property
    def label(self) -> str:
        """The name in the interface, such as New."""
        return self.name.capitalize()


def review_status(value: object) -> ReviewStatus | None:
    """The status with this name, in any letter case, or this number; None for anything else."""
    if isinstance(value, str):
        word = value.strip().lower()
        return next((status for status in ReviewStatus if word in (status.label.lower(), str(status.value))), None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return next((status for status in ReviewStatus if status.value == value), None)


class ModerationAction(StrEnum):
    """An action of a moderator on a review."""

    APPROVE = "approve"
    REJECT = "reject"
    RESET = "reset"
    DELETE = "delete"
    RESTORE = "restore"


class Content(NamedTuple):
    """The part of a review that an edit can change. In an edit, None leaves a field unchanged."""

    text: str | None
    rating: Hundredths | None
    title: str | None = None
    user_name: str | None = None
    entity_name: str | None = None
    images: tuple[str, ...] | None = None


CONTENT_FIELDS: Final = ("review", "rating", "title", "userName", "entityName", "images")
"""The names of the fields of Content in the interface, in order."""


@dataclass(slots=True)
class Review:
    """A review as it is stored. Times are aware, in UTC.

    `moderator` and `moderation_reason` are those of the last moderation, `reason_code` that of a rejection. Reads for
    display don't load `written`.
    """

    id: str
    entity: Entity
    entity_name: str | None
    store_id: str | None
    user_id: str | None
    user_name: str | None
    title: str | None
    text: str
    rating: Hundredths
    created: datetime
    modified: datetime
    status: ReviewStatus = ReviewStatus.NEW
    name_wanted: bool = False
    """True if the object's name is missing, and a resolver can supply it."""
    moderator: str | None = None
    moderation_reason: str | None = None
    reason_code: ReasonCode | None = None
    facts: Facts = NO_FACTS
    reply: Reply | None = None
    responses: Responses = NO_RESPONSES
    flags: tuple[str, ...] = ()
    """Ids of the moderation rules that held or flagged it, and sources of verdicts."""
    images: tuple[ReviewImage, ...] = ()
    is_held: bool = False
    """True if a rule requires a moderator to see it."""
    is_announced: bool = False
    """True if the transaction that stored it also emitted its event `ReviewSubmitted`."""
    written: Written = NEVER_WRITTEN
    """The last record and the messages that wrote it."""
    submitted: datetime | None = None
    """Time of arrival if it differs from `created`: an import keeps the date on which the review was written."""
    is_uncertain: bool = False
    """True if data is missing that its rating depends on, so that the tally has to be counted."""

    @property
    def identity(self) -> "ReviewIdentity":
        """The part of the review that never changes."""
        return ReviewIdentity(self.entity, self.store_id, self.user_id)

    @property
    def content(self) -> Content:
        """The part of the review that an edit can change."""
        images = tuple(image.id for image in self.images)
        return Content(self.text, self.rating, self.title, self.user_name, self.entity_name, images)

    @property
    def may_be_planned(self) -> bool:
        """True if its approval may be planned: a rule that holds or flags it can set a time for that."""
        return self.is_held or bool(self.flags)

    @property
    def was_rejected(self) -> bool:
        """True if a moderator has rejected it, and has not approved it since."""
        is_edited_since = self.status is ReviewStatus.NEW and REJECTED_BEFORE in self.flags
        return self.status is ReviewStatus.REJECTED or is_edited_since


class ReviewIdentity(NamedTuple):
    """The part of a review that never changes: object, store and author. A review id stands for one identity."""

    entity: Entity
    store_id: str | None
    user_id: str | None

    @property
    def key(self) -> TallyKey:
        """The key of its rating."""
        return TallyKey(self.entity, self.store_id)


def status_after(status: ReviewStatus, action: ModerationAction) -> ReviewStatus | None:
    """The status after an action, None if the review is deleted; the same status means that nothing changes."""
    match action:
        case ModerationAction.APPROVE:
            return ReviewStatus.APPROVED
        case ModerationAction.REJECT:
            return ReviewStatus.REJECTED
        case ModerationAction.RESET:
            return ReviewStatus.NEW
        case ModerationAction.RESTORE:
            return status
        case ModerationAction.DELETE:
            return None


def counted(status: ReviewStatus | None, rating: Hundredths) -> RatingTally:
    """The tally of one review in this status: its rating if approved, else nothing."""
    return RatingTally.of([rating]) if status is ReviewStatus.APPROVED else RatingTally()
