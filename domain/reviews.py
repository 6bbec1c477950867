"""Reviews and their moderation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import NamedTuple

from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition, Seen, Written
from domain.ratings import Entity, Hundredths, RatingTally, TallyKey
from domain.reviews_facts import NO_FACTS, NO_RESPONSES, Facts, ReasonCode, Reply, Responses, ReviewImage
from domain.reviews_restored import Restored, restore


class ReviewStatus(IntEnum):
    """The moderation status of a review; the number is the `reviewStatusId` of the interface."""

    NEW = 0
    APPROVED = 1
    REJECTED = 2

    @cached_property
    def label(self) -> str:
        """The name of the interface: New, Approved, Rejected."""
        return self.name.capitalize()


def review_status(value: object) -> ReviewStatus | None:
    """The status that a name stands for, in any letter case, or a number; None for anything else."""
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


class ModerationRefusal(StrEnum):
    """The reason for refusing a moderation command."""

    STATUS_CHANGED = "status-changed"
    OTHER_STORE = "other-store"


class Content(NamedTuple):
    """The part of a review that an edit can change. In an edit None means left out: it stays."""

    review: str
    rating: Hundredths
    title: str | None = None
    user_name: str | None = None
    entity_name: str | None = None
    images: tuple[str, ...] | None = None


@dataclass(slots=True)
class Review:
    """A review as it is stored. Times are aware, in UTC.

    `submitted`: when it came, where that isn't when it was created: an import keeps the date that it was written.
    `name_wanted`: the name of the object is missing, and a resolver can fill it in. `moderator` and
    `moderation_reason` are those of the last moderation, `reason_code` that of a rejection. `flags` are the ids of the
    moderation rules that held it back or flagged it, and sources of verdicts. `is_held`: a rule wants a moderator to
    see it. `is_told`: its submission was told in the transaction that stored it. `written`: what it was written by.
    Those who only read a review load neither `written` nor `submitted`.
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
    moderator: str | None = None
    moderation_reason: str | None = None
    reason_code: ReasonCode | None = None
    facts: Facts = NO_FACTS
    reply: Reply | None = None
    responses: Responses = NO_RESPONSES
    flags: tuple[str, ...] = ()
    images: tuple[ReviewImage, ...] = ()
    is_held: bool = False
    is_told: bool = False
    written: Written | None = None
    submitted: datetime | None = None

    @property
    def identity(self) -> ReviewIdentity:
        """The part of it that stays as it is."""
        return ReviewIdentity(self.entity, self.store_id, self.user_id)

    @property
    def content(self) -> Content:
        """The part of it that an edit can change."""
        images = tuple(image.id for image in self.images)
        return Content(self.text, self.rating, self.title, self.user_name, self.entity_name, images)


class ReviewIdentity(NamedTuple):
    """The part of a review that stays as it is: its object, its store and its author. An id stands for one of them."""

    entity: Entity
    store_id: str | None
    user_id: str | None


def status_after(status: ReviewStatus, action: ModerationAction) -> ReviewStatus | None:
    """The status a review takes, None when it is gone; the same status means that the action changes nothing."""
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
    """The tally of one review in this status: itself if approved, else nothing."""
    return RatingTally.of([rating]) if status is ReviewStatus.APPROVED else RatingTally()


@dataclass(frozen=True, slots=True)
class Moderation:
    """A moderation command for one review.

    `source` is its record in the topic of moderation commands, wherever it has been passed on since. `reason_code` is
    that of a rejection. `expected` is the status in which its sender saw the review, None for any. `command_id` is set
    if its outcome may be asked for, `mark` if that came by HTTP. `stores` are those that its sender is bound to, None
    for none in particular. `trace` is the W3C context of its request, empty if it has none. `restored`: of an import.
    """

    review_id: str
    action: ModerationAction
    source: RecordPosition
    at: datetime
    moderator: str | None = None
    reason: str | None = None
    expected: ReviewStatus | None = None
    command_id: str | None = None
    mark: CommandMark | None = None
    stores: Collection[str] | None = None
    trace: str = ""
    reason_code: ReasonCode | None = None
    restored: Restored | None = None

    def may_touch(self, store_id: str | None) -> bool:
        """True if the sender may touch reviews of this store, or without one."""
        return self.stores is None or store_id in self.stores

    @property
    def answer_key(self) -> tuple[str, str] | None:
        """The key of its stored outcome, if it has one."""
        return (self.command_id, self.review_id) if self.command_id else None


@dataclass(frozen=True, slots=True)
class ModeratedReview:
    """The part of a review that moderation reads and writes. No status: it has been deleted.

    `reports`: the number of those that nobody has decided about. `was_coded`: a reason code is stored.
    `imported`: when an import brought it, until its past is `restored`.
    """

    entity: Entity
    store_id: str | None
    rating: Hundredths
    status: ReviewStatus | None
    seen: Seen = field(default_factory=Seen)
    modified: datetime | None = None
    moderator: str | None = None
    reason: str | None = None
    reason_code: ReasonCode | None = None
    was_coded: bool = False
    reports: int = 0
    user_id: str | None = None
    imported: datetime | None = None
    restored: Restored | None = None


@dataclass(frozen=True, slots=True)
class ModerationResult:
    """The result of one command. `before`, `after`: the status of the review, None where there is none or it isn't the
    sender's business; `moderator`: who set it."""

    outcome: Outcome
    reason: ModerationRefusal | None = None
    before: ReviewStatus | None = None
    after: ReviewStatus | None = None
    moderator: str | None = None


@dataclass(frozen=True, slots=True)
class Moderated:
    """The result of a batch of moderation commands.

    `reviews` holds every review that took a command into account, as it is afterwards, also one whose status
    stayed: its marks moved. `results` has one entry for each command, in order, None for a repeat.
    `tallies` holds what the rating of each changed review changes by, which may be nothing. `settled` has the reviews
    whose reports were decided about, each with the command that did, also one that left the status as it was.
    """

    reviews: Mapping[str, ModeratedReview]
    results: Sequence[ModerationResult | None]
    tallies: Mapping[TallyKey, RatingTally]
    settled: Mapping[str, Moderation] = field(default_factory=dict)

    @property
    def outcomes(self) -> list[Outcome | None]:
        """The outcome of each command, in order, None for a repeat."""
        return [result.outcome if result else None for result in self.results]


def moderate(
    commands: Iterable[Moderation],
    reviews: Mapping[str, ModeratedReview],
    answered: Collection[tuple[str, str]] = (),
) -> Moderated:
    """Apply moderation commands in their order.

    `reviews` are the present states by id; a review that isn't among them is unknown or gone.
    A record that the review has already taken into account changes nothing at all. A new record that repeats a
    command (`answered` holds the command ids and review ids that have an outcome) only moves the review's marks, and
    so does a command that expects another status: delivered again, it is not decided anew.
    """
    present = dict(reviews)
    repeats = set(answered)
    touched: dict[str, ModeratedReview] = {}
    results: list[ModerationResult | None] = []
    settled: dict[str, Moderation] = {}
    tallies: dict[TallyKey, RatingTally] = {}
    for command in commands:
        review = present.get(command.review_id)
        if review is None:
            results.append(ModerationResult(Outcome.NOT_FOUND))
        elif review.seen.covers(command.source):
            results.append(None)
        elif review.status is None:
            results.append(ModerationResult(Outcome.NOT_FOUND))
        elif not command.may_touch(review.store_id):
            results.append(ModerationResult(Outcome.REFUSED, ModerationRefusal.OTHER_STORE))
        else:
            after = _moderated(review, command, is_repeat=command.answer_key in repeats)
            results.append(None if command.answer_key in repeats else _result(review, after, command))
            if command.answer_key:
                repeats.add(command.answer_key)
            if after.reports < review.reports:
                settled[command.review_id] = command
            if after.status is not review.status:
                before, now = (counted(r.status, r.rating) for r in (review, after))
                key = TallyKey(review.entity, review.store_id)
                tallies[key] = tallies.get(key, RatingTally()) + now - before
            present[command.review_id] = touched[command.review_id] = after
    return Moderated(touched, results, tallies, settled)


def _is_expected(review: ModeratedReview, command: Moderation) -> bool:
    return command.expected is None or command.expected is review.status


def _moderated(review: ModeratedReview, command: Moderation, *, is_repeat: bool) -> ModeratedReview:
    status = status_after(review.status, command.action) if review.status is not None else None
    seen = review.seen.after(command.source)
    if is_repeat or not _is_expected(review, command):
        return replace(review, seen=seen)
    if command.restored:
        return restore(review, command, command.restored, seen)
    if status is review.status:
        return replace(review, seen=seen, reports=0)
    return replace(
        review,
        status=status,
        seen=seen,
        modified=command.at,
        moderator=command.moderator,
        reason=command.reason,
        reason_code=command.reason_code,
        reports=0,
    )


def _result(before: ModeratedReview, after: ModeratedReview, command: Moderation) -> ModerationResult:
    states = (before.status, after.status, after.moderator)
    if not _is_expected(before, command):
        return ModerationResult(Outcome.REFUSED, ModerationRefusal.STATUS_CHANGED, *states)
    return ModerationResult(Outcome.UNCHANGED if after.status is before.status else Outcome.APPLIED, None, *states)
