"""Feedback on reviews: replies of the store, votes of readers, and reports."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition
from domain.permissions import is_within
from domain.ratings import Entity
from domain.reviews import ModerationAction
from domain.reviews_facts import NO_RESPONSES, Reply, Responses


class FeedbackAction(StrEnum):
    """An action on what others say of a review."""

    REPLY = "reply"
    REMOVE_REPLY = "remove-reply"
    VOTE = "vote"
    REMOVE_VOTE = "remove-vote"
    REPORT = "report"


class ReportReason(StrEnum):
    """The reason for a report."""

    SPAM = "spam"
    OFFENSIVE = "offensive"
    PERSONAL_DATA = "personal-data"
    OFF_TOPIC = "off-topic"
    ILLEGAL = "illegal"
    OTHER = "other"


class FeedbackRefusal(StrEnum):
    """The reason for refusing feedback."""

    OTHER_STORE = "other-store"
    TEXT_CHANGED = "text-changed"


class VoteKey(NamedTuple):
    """A voter has one vote on a review."""

    review_id: str
    user_id: str


class Vote(NamedTuple):
    """The last vote of a voter on a review, and its record; `helpful` is None once it was withdrawn."""

    helpful: bool | None
    position: RecordPosition


class Settlement(NamedTuple):
    """The decision that settled a report."""

    action: ModerationAction
    moderator: str | None
    at: datetime


class Report(NamedTuple):
    """An objection to a review. Times are aware, in UTC. It is open until a decision about the review settles it."""

    id: str
    review_id: str
    reason: ReportReason
    explanation: str
    at: datetime
    name: str | None = None
    email: str | None = None
    user_id: str | None = None
    settled: Settlement | None = None


class Origin(NamedTuple):
    """The origin of feedback: its record in the topic of feedback, and what came with it.

    `mark` is that of its command by HTTP, `identity` that of its CloudEvent, `trace` the W3C context of its request.
    """

    position: RecordPosition
    mark: CommandMark | None = None
    identity: str | None = None
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Feedback on one review, with the reply, vote or report that it is: `helpful` is None where a vote is withdrawn.

    `user_id` is the voter, `moderator` who replies, `stores` are those that the sender is bound to, None for none in
    particular. `command_id` is set if the outcome may be asked for. `text_hash` names the text of the review that it is
    about, None for any.
    """

    review_id: str
    action: FeedbackAction
    origin: Origin
    at: datetime
    reply: Reply | None = None
    user_id: str = ""
    helpful: bool | None = None
    report: Report | None = None
    moderator: str | None = None
    command_id: str | None = None
    stores: Collection[str] | None = None
    text_hash: str | None = None

    @property
    def position(self) -> RecordPosition:
        """Its record."""
        return self.origin.position

    @property
    def vote_key(self) -> VoteKey | None:
        """The vote that it is about, if it is about one."""
        is_vote = self.action in (FeedbackAction.VOTE, FeedbackAction.REMOVE_VOTE)
        return VoteKey(self.review_id, self.user_id) if is_vote else None

    @property
    def answer_key(self) -> tuple[str, str] | None:
        """The key of its stored outcome, if it has one."""
        return (self.command_id, self.review_id) if self.command_id else None

    def may_touch(self, store_id: str | None) -> bool:
        """True if the sender may touch reviews of this store, or without one."""
        return is_within(self.stores, store_id)

    def refusal(self, review: "ReviewFeedback") -> FeedbackRefusal | None:
        """The reason for leaving a review as it is, None where there is none."""
        if not self.may_touch(review.store_id):
            return FeedbackRefusal.OTHER_STORE
        return FeedbackRefusal.TEXT_CHANGED if self.text_hash not in (None, review.text_hash) else None


@dataclass(frozen=True, slots=True)
class ReviewFeedback:
    """The part of a review that feedback reads and writes. `replied` is the last record about its reply, `text_hash`
    names its text where feedback asks for it."""

    entity: Entity
    store_id: str | None
    reply: Reply | None = None
    replied: RecordPosition | None = None
    responses: Responses = NO_RESPONSES
    text_hash: str | None = None


@dataclass(frozen=True, slots=True)
class KnownFeedback:
    """The state that feedback is decided by: reviews, votes, the ids of reports, and the keys of answered commands."""

    reviews: Mapping[str, ReviewFeedback] = field(default_factory=dict)
    votes: Mapping[VoteKey, Vote] = field(default_factory=dict)
    reports: Collection[str] = ()
    answered: Collection[tuple[str, str]] = ()


class FeedbackResult(NamedTuple):
    """The result of one command, and the review as it is after it."""

    outcome: Outcome
    reason: FeedbackRefusal | None = None
    review: ReviewFeedback | None = None


@dataclass(frozen=True, slots=True)
class TakenFeedback:
    """The result of a batch: what is to be written, and one result for each command, None for a repeat."""

    reviews: Mapping[str, ReviewFeedback]
    votes: Mapping[VoteKey, Vote]
    reports: Sequence[Report]
    results: Sequence[FeedbackResult | None]


class _Step(NamedTuple):
    """One command: the review after it, its outcome (None for a repeat), and the vote or report to write."""

    review: ReviewFeedback
    outcome: Outcome | None
    vote: Vote | None = None
    report: Report | None = None


def visitor_id(store_id: str, browser: str) -> str:
    """The voter that a browser is in a store, by the random id that it keeps: `visitor:` and half of its SHA-256.

    No customer is meant by it, and what a browser is in one store tells nothing of it in another.
    """
    digest = sha256(f"{store_id}\n{browser}".encode()).hexdigest()
    return f"visitor:{digest[: len(digest) // 2]}"


def take_feedback(commands: Iterable[Feedback], known: KnownFeedback) -> TakenFeedback:
    """Apply feedback in its order.

    A review that isn't known is gone. A record that was taken into account changes nothing, nor does an older one; a
    new record that repeats a command only moves the marks. A report is known by its id.
    """
    present, votes, repeats = dict(known.reviews), dict(known.votes), set(known.answered)
    reviews: dict[str, ReviewFeedback] = {}
    voted: dict[VoteKey, Vote] = {}
    reports: dict[str, Report] = {}
    results: list[FeedbackResult | None] = []
    for command in commands:
        review = present.get(command.review_id)
        if review is None:
            results.append(FeedbackResult(Outcome.NOT_FOUND))
            continue
        if refusal := command.refusal(review):
            results.append(FeedbackResult(Outcome.REFUSED, refusal))
            continue
        key, is_repeat = command.vote_key, command.answer_key in repeats
        if key:
            step = _voted(review, votes.get(key), command, is_repeat=is_repeat)
        elif command.report:
            is_known = command.report.id in known.reports or command.report.id in reports
            step = _reported(review, command.report, is_repeat=is_repeat or is_known)
        else:
            step = _replied(review, command, is_repeat=is_repeat)
        if command.answer_key:
            repeats.add(command.answer_key)
        if step.review != review:
            present[command.review_id] = reviews[command.review_id] = step.review
        if key and step.vote:
            votes[key] = voted[key] = step.vote
        if step.report:
            reports[step.report.id] = step.report
        results.append(None if step.outcome is None else FeedbackResult(step.outcome, None, step.review))
    return TakenFeedback(reviews, voted, list(reports.values()), results)


def counting(responses: Responses, before: bool | None, after: bool | None) -> Responses:
    """The responses once a vote has changed; None stands for no vote."""
    helpful = responses.helpful + (after is True) - (before is True)
    not_helpful = responses.not_helpful + (after is False) - (before is False)
    return responses._replace(helpful=max(0, helpful), not_helpful=max(0, not_helpful))


def _replied(review: ReviewFeedback, command: Feedback, *, is_repeat: bool) -> _Step:
    if review.replied and review.replied.covers(command.position):
        return _Step(review, None)
    seen = replace(review, replied=review.replied.after(command.position) if review.replied else command.position)
    if is_repeat:
        return _Step(seen, None)
    if _words(review.reply) == _words(command.reply) or _is_older(command, review.reply):
        return _Step(seen, Outcome.UNCHANGED)
    reply = command.reply
    if reply and review.reply:
        reply = reply._replace(created=review.reply.created)
    return _Step(replace(seen, reply=reply), Outcome.APPLIED)


def _is_older(command: Feedback, stored: Reply | None) -> bool:
    """True for a reply that is brought along from elsewhere, and older than the one that is here."""
    reply = command.reply
    return reply is not None and stored is not None and reply.modified < min(command.at, stored.modified)


def _words(reply: Reply | None) -> tuple[str, str | None] | None:
    return (reply.text, reply.author) if reply else None


def _voted(review: ReviewFeedback, stored: Vote | None, command: Feedback, *, is_repeat: bool) -> _Step:
    if stored and stored.position.covers(command.position):
        return _Step(review, None)
    before = stored.helpful if stored else None
    position = stored.position.after(command.position) if stored else command.position
    if is_repeat:
        return _Step(review, None, Vote(before, position) if stored else None)
    after = replace(review, responses=counting(review.responses, before, command.helpful))
    outcome = Outcome.UNCHANGED if before is command.helpful else Outcome.APPLIED
    return _Step(after, outcome, Vote(command.helpful, position))


def _reported(review: ReviewFeedback, report: Report, *, is_repeat: bool) -> _Step:
    if is_repeat:
        return _Step(review, None)
    responses = review.responses._replace(reports=review.responses.reports + (report.settled is None))
    return _Step(replace(review, responses=responses), Outcome.APPLIED, report=report)
