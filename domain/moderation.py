"""Moderation of reviews: commands, and their effect on reviews and ratings.

Types with an instance per command are named tuples: a frozen dataclass takes nine times as long to create.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition, Seen, in_turn
from domain.images import with_unseen_hidden
from domain.permissions import is_within
from domain.ratings import RatingTally, TallyKey, add_change
from domain.reviews import ModerationAction, ReviewStatus, counted, status_after
from domain.reviews_facts import ReasonCode
from domain.reviews_moderated import ModeratedReview, Restored, restore
from domain.timestamps import from_milliseconds


class ModerationRefusal(StrEnum):
    """The reason for refusing a moderation command."""

    STATUS_CHANGED = "status-changed"
    TEXT_CHANGED = "text-changed"
    OTHER_STORE = "other-store"


class Moderation(NamedTuple):
    """A moderation command for one review."""

    review_id: str
    action: ModerationAction
    position: RecordPosition
    """Its record in the topic of moderation commands, also after it has been passed on."""
    at: datetime
    moderator: str | None = None
    reason: str | None = None
    expected: ReviewStatus | None = None
    """The status in which the sender saw the review; None: any."""
    command_id: str | None = None
    """Set if the outcome can be queried."""
    mark: CommandMark | None = None
    """Set if the command came by HTTP."""
    stores: Collection[str] | None = None
    """The stores that the sender is bound to; None: no restriction."""
    trace: str = ""
    """The W3C trace context of its request; empty without one."""
    reason_code: ReasonCode | None = None
    """The reason of a rejection."""
    restored: Restored | None = None
    """The past that an import restores."""
    arrived: RecordPosition | None = None
    """The record by which the owner of the review's place received it; None elsewhere."""
    text_hash: str | None = None
    """The hash of the text that the sender saw; None: any."""

    @property
    def sent(self) -> datetime:
        """The time of the sender's decision, also after the command has been passed on."""
        return from_milliseconds(self.position.timestamp)

    def may_touch(self, store_id: str | None) -> bool:
        """True if the sender may change reviews of this store (None: without a store)."""
        return is_within(self.stores, store_id)

    @property
    def answer_key(self) -> tuple[str, str] | None:
        """The key of its stored outcome, if it has one."""
        return (self.command_id, self.review_id) if self.command_id else None


class ModerationResult(NamedTuple):
    """The result of one command. Statuses are None if there is no review, or the sender may not touch it."""

    outcome: Outcome
    reason: ModerationRefusal | None = None
    before: ReviewStatus | None = None
    after: ReviewStatus | None = None
    moderator: str | None = None
    """The moderator who set the status `after`."""


@dataclass(frozen=True, slots=True)
class Moderated:
    """The decision about a batch of moderation commands."""

    commands: Sequence[Moderation]
    results: Sequence[ModerationResult | None]
    """One result for each command, in order; None for a repeat."""
    before: Mapping[str, ModeratedReview]
    """The reviews that applied a command, as they were; also those whose marks alone moved."""
    reviews: Mapping[str, ModeratedReview]
    """The reviews of `before`, as they are afterwards."""
    tallies: Mapping[TallyKey, RatingTally]
    """The changes of ratings by reviews that changed their status, except for changes by nothing."""
    settled: Mapping[str, Moderation]
    """The reviews whose reports were settled, each by its command, which may have left the status as it was."""

    @property
    def outcomes(self) -> list[Outcome | None]:
        """The outcome of each command, in order, None for a repeat."""
        return [result.outcome if result else None for result in self.results]

    @property
    def decided(self) -> list[tuple[Moderation, ModerationResult]]:
        """The commands with their results, in order, without repeats."""
        return [(command, result) for command, result in zip(self.commands, self.results, strict=True) if result]

    @property
    def ended_plans(self) -> set[str]:
        """The reviews with a decision, whose planned approvals end: those whose approval may be planned."""
        # A command that leaves the status is a decision, too; a repeated import isn't.
        deciders = [
            command
            for command, result in self.decided
            if result.outcome is Outcome.APPLIED or (result.outcome is Outcome.UNCHANGED and not command.restored)
        ]
        return {each.review_id for each in deciders if self.before[each.review_id].may_be_planned}

    @property
    def kept_plans(self) -> dict[str, tuple[Seen, Seen]]:
        """The marks, before and afterwards, of the other reviews whose approval may be planned, by id."""
        ended = self.ended_plans
        kept = {id: review for id, review in self.before.items() if review.may_be_planned and id not in ended}
        return {id: (before.seen, self.reviews[id].seen) for id, before in kept.items()}

    def audited(self, unplanned: Collection[str]) -> list[Moderation]:
        """The commands to audit: those that changed a status, settled reports, or left a review New but ended its
        planned approval. `unplanned`: the reviews whose planned approvals have ended."""
        ended = {id for id in unplanned if self.before[id].status is ReviewStatus.NEW}
        return [
            command
            for command, result in self.decided
            if result.outcome is Outcome.APPLIED
            or self.settled.get(command.review_id) is command
            or (result.outcome is Outcome.UNCHANGED and command.review_id in ended)
        ]


def moderate(
    commands: Sequence[Moderation],
    reviews: Mapping[str, ModeratedReview],
    answered: Collection[tuple[str, str]] = (),
) -> Moderated:
    """Apply moderation commands in order.

    `reviews` holds the current states by id; a missing review is unknown or deleted. `answered` holds pairs of command
    id and review id that have an outcome. A record that the review has already applied changes nothing at all. A new
    record that repeats a command only moves the review's marks, and so does a command that expects another status or
    text: redelivered, it is not decided again.
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
    before = {id: reviews[id] for id in touched}
    changes = {key: change for key, change in tallies.items() if change != RatingTally()}
    return Moderated(commands, results, before, touched, changes, settled)


class Waiting(Protocol):
    """The place of a command that waits for its review."""

    @property
    def position(self) -> RecordPosition:
        """The position of the command."""

    @property
    def arrived(self) -> RecordPosition | None:
        """The position of the record that brought it to the owner of its review's place; None if none did."""


W = TypeVar("W", bound=Waiting)


def parked_in_turn(commands: Iterable[W]) -> list[W]:
    """Commands that came before their review, in the order in which they take effect: first those that the router
    parked, by their order in its topic; then those that the owner of the review's place received, by either way, in the
    order of arrival, also from partitions that had the place before the topic of changes grew."""
    waiting = list(commands)
    of_router = in_turn([each for each in waiting if each.arrived is None], lambda each: each.position)
    of_owner = [each for each in waiting if each.arrived is not None]
    return of_router + in_turn(of_owner, lambda each: each.arrived or each.position)


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
        after = restore(review, command.restored, command.at)
        if after is review:
            return review._replace(seen=seen)
        return after._replace(
            seen=seen, moderator=command.moderator, reason=command.reason, reason_code=command.reason_code
        )
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
    """The change of its rating's tally when a review changes its status; a third of the time of a difference."""
    is_taken_out = before.status is ReviewStatus.APPROVED
    return -counted(before.status, before.rating) if is_taken_out else counted(after.status, after.rating)


def _result(before: ModeratedReview, after: ModeratedReview, command: Moderation) -> ModerationResult:
    states = (before.status, after.status, after.moderator)
    if refusal := _refusal(before, command):
        return ModerationResult(Outcome.REFUSED, refusal, *states)
    return ModerationResult(Outcome.UNCHANGED if after.status is before.status else Outcome.APPLIED, None, *states)
