"""Moderation of reviews: commands, and what they make of reviews and their ratings.

What there is one of for each command is a named tuple: a frozen dataclass takes nine times as long to make.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

from domain.commands import CommandMark, Outcome
from domain.delivery import NOTHING_SEEN, RecordPosition, Seen, in_turn
from domain.images import with_unseen_hidden
from domain.permissions import is_within
from domain.ratings import Entity, Hundredths, RatingTally, TallyKey, add_change
from domain.reviews import ModerationAction, ReviewStatus, counted, status_after
from domain.reviews_facts import ReasonCode, ReviewImage
from domain.reviews_restored import Restored, restore
from domain.timestamps import from_milliseconds


class ModerationRefusal(StrEnum):
    """The reason for refusing a moderation command."""

    STATUS_CHANGED = "status-changed"
    TEXT_CHANGED = "text-changed"
    OTHER_STORE = "other-store"


class Moderation(NamedTuple):
    """A moderation command for one review.

    `position` is its record in the topic of moderation commands, wherever it has been passed on since. `reason_code` is
    that of a rejection. `expected` is the status in which its sender saw the review, `text_hash` the name of the text
    that he saw, each None for any. `command_id` is set if its outcome may be asked for, `mark` if that came by HTTP.
    `stores` are those that its sender is bound to, None for none in particular. `trace` is the W3C context of its
    request, empty if it has none. `restored`: of an import. `arrived`: the record by which the owner of the review's
    place got it, None elsewhere.
    """

    review_id: str
    action: ModerationAction
    position: RecordPosition
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
    arrived: RecordPosition | None = None
    text_hash: str | None = None

    @property
    def sent(self) -> datetime:
        """The time at which its sender decided, wherever it has been passed on since."""
        return from_milliseconds(self.position.timestamp)

    def may_touch(self, store_id: str | None) -> bool:
        """True if the sender may touch reviews of this store, or without one."""
        return is_within(self.stores, store_id)

    @property
    def answer_key(self) -> tuple[str, str] | None:
        """The key of its stored outcome, if it has one."""
        return (self.command_id, self.review_id) if self.command_id else None


class ModeratedReview(NamedTuple):
    """The part of a review that moderation reads and writes. No status: it has been deleted.

    `reports`: the number of those that nobody has decided about. `was_coded`: a reason code is stored.
    `imported`: when an import brought it. `restored_at`: the last change in the past that an import has `restored`; it
    is `modified` until somebody changes the review here. `is_held`: a rule wants a moderator to see it.
    `is_uncertain`: something is missing that its rating goes by, so that the tally has to be counted. `seen` are the
    records of moderation that it has taken into account, `verdicts` those of classifiers.
    """

    entity: Entity
    store_id: str | None
    rating: Hundredths
    status: ReviewStatus | None
    seen: Seen = NOTHING_SEEN
    modified: datetime | None = None
    moderator: str | None = None
    reason: str | None = None
    reason_code: ReasonCode | None = None
    was_coded: bool = False
    reports: int = 0
    user_id: str | None = None
    created: datetime | None = None
    imported: datetime | None = None
    restored_at: datetime | None = None
    restored: Restored | None = None
    flags: tuple[str, ...] = ()
    is_held: bool = False
    images: tuple[ReviewImage, ...] = ()
    is_uncertain: bool = False
    text_hash: str = ""
    verdicts: Seen = NOTHING_SEEN

    @property
    def key(self) -> TallyKey:
        """The key of its rating."""
        return TallyKey(self.entity, self.store_id)

    @property
    def may_be_planned(self) -> bool:
        """True if its approval may be planned: rules that hold it back or flag it can say when it is approved."""
        return self.is_held or bool(self.flags)


class ModerationResult(NamedTuple):
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
    whose reports were decided about, each with the command that did, also one that left the status as it was;
    `reported` has the number of their reports.
    """

    reviews: Mapping[str, ModeratedReview]
    results: Sequence[ModerationResult | None]
    tallies: Mapping[TallyKey, RatingTally]
    settled: Mapping[str, Moderation] = field(default_factory=dict)
    reported: Mapping[str, int] = field(default_factory=dict)

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
    so does a command that expects another status or text: delivered again, it is not decided anew.
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
        elif review.seen.covers(command.position):
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
                add_change(tallies, review.key, _change_of_rating(review, after))
            present[command.review_id] = touched[command.review_id] = after
    return Moderated(touched, results, tallies, settled, {id: reviews[id].reports for id in settled})


def parked_in_turn(commands: Iterable[Moderation]) -> list[Moderation]:
    """Commands that came before their review, as they take effect: those that the router keeps as they stand in their
    topic, then those that the owner of its place got, by whatever way, as it got them, also from where its place was
    before the topic of changes grew."""
    kept, arrived = list[tuple[RecordPosition, Moderation]](), list[tuple[RecordPosition, Moderation]]()
    for command in commands:
        if command.arrived is None:
            kept.append((command.position, command))
        else:
            arrived.append((command.arrived, command))
    if any(place.partition < 0 for place, _ in arrived):
        # Workers of the version before note the offset alone, and no topic of changes grows beside them.
        arrived = [(place._replace(partition=-1), command) for place, command in arrived]
    return [command for each in (kept, arrived) for _, command in in_turn(each, itemgetter(0))]


def _refusal(review: ModeratedReview, command: Moderation) -> ModerationRefusal | None:
    """The reason for leaving a review as it is, since its sender has seen something else."""
    if command.expected not in (None, review.status):
        return ModerationRefusal.STATUS_CHANGED
    if command.text_hash not in (None, review.text_hash):
        return ModerationRefusal.TEXT_CHANGED
    return None


def _moderated(review: ModeratedReview, command: Moderation, *, is_repeat: bool) -> ModeratedReview:
    status = status_after(review.status, command.action) if review.status is not None else None
    seen = review.seen.after(command.position)
    if is_repeat or _refusal(review, command):
        return review._replace(seen=seen)
    if command.restored:
        return restore(review, command, command.restored, seen)
    if status is review.status:
        return review._replace(seen=seen, reports=0)
    return review._replace(
        status=status,
        seen=seen,
        modified=command.at,
        moderator=command.moderator,
        reason=command.reason,
        reason_code=command.reason_code,
        reports=0,
        images=with_unseen_hidden(review.images, command.sent) if status is ReviewStatus.APPROVED else review.images,
    )


def _change_of_rating(before: ModeratedReview, after: ModeratedReview) -> RatingTally:
    """The change of its rating by a review that goes from one status to another."""
    is_taken_out = before.status is ReviewStatus.APPROVED
    return -counted(before.status, before.rating) if is_taken_out else counted(after.status, after.rating)


def _result(before: ModeratedReview, after: ModeratedReview, command: Moderation) -> ModerationResult:
    states = (before.status, after.status, after.moderator)
    if refusal := _refusal(before, command):
        return ModerationResult(Outcome.REFUSED, refusal, *states)
    return ModerationResult(Outcome.UNCHANGED if after.status is before.status else Outcome.APPLIED, None, *states)
