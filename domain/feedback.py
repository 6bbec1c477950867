"""Feedback on reviews: replies by the store, votes by readers, and reports."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition
from domain.feedback_reports import Report
from domain.permissions import is_within
from domain.ratings import Entity
from domain.reviews_facts import NO_RESPONSES, Reply, Responses
from domain.timestamps import from_milliseconds


class FeedbackAction(StrEnum):
    """An action on the reply, the votes or the reports of a review."""

    REPLY = "reply"
    REMOVE_REPLY = "remove-reply"
    VOTE = "vote"
    REMOVE_VOTE = "remove-vote"
    REPORT = "report"


class FeedbackRefusal(StrEnum):
    """The reason for refusing feedback."""

    OTHER_STORE = "other-store"
    TEXT_CHANGED = "text-changed"


class VoteKey(NamedTuple):
    """The key of a vote: each voter has one vote on a review."""

    review_id: str
    user_id: str


class Vote(NamedTuple):
    """A voter's last vote on a review, and its record; `helpful` is None after a withdrawal."""

    helpful: bool | None
    position: RecordPosition


class Origin(NamedTuple):
    """The origin of feedback."""

    position: RecordPosition
    """Its record in the topic of feedback."""
    mark: CommandMark | None = None
    """The mark of its HTTP command."""
    identity: str | None = None
    """The identity of its CloudEvent."""
    trace: str = ""
    """The W3C trace context of its request."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """A command on one review, with its reply, vote or report."""

    review_id: str
    action: FeedbackAction
    origin: Origin
    at: datetime
    reply: Reply | None = None
    user_id: str = ""
    """The voter."""
    helpful: bool | None = None
    """The vote; None withdraws it."""
    report: Report | None = None
    moderator: str | None = None
    """The author of the reply."""
    command_id: str | None = None
    """Set if the outcome can be queried."""
    stores: Collection[str] | None = None
    """The stores that the sender is bound to; None: no restriction."""
    text_hash: str | None = None
    """The hash of the review's text that it refers to; None: any text."""

    @property
    def position(self) -> RecordPosition:
        """Its record."""
        return self.origin.position

    @property
    def vote_key(self) -> VoteKey | None:
        """The key of the vote that it changes, if it changes one."""
        is_vote = self.action in (FeedbackAction.VOTE, FeedbackAction.REMOVE_VOTE)
        return VoteKey(self.review_id, self.user_id) if is_vote else None

    @property
    def answer_key(self) -> tuple[str, str] | None:
        """The key of its stored outcome, if it has one."""
        return (self.command_id, self.review_id) if self.command_id else None

    def may_touch(self, store_id: str | None) -> bool:
        """True if the sender may change reviews of this store (None: without a store)."""
        return is_within(self.stores, store_id)

    def refusal(self, review: "ReviewFeedback") -> FeedbackRefusal | None:
        """The reason for leaving a review as it is, or None."""
        if not self.may_touch(review.store_id):
            return FeedbackRefusal.OTHER_STORE
        return FeedbackRefusal.TEXT_CHANGED if self.text_hash not in (None, review.text_hash) else None


@dataclass(frozen=True, slots=True)
class ReviewFeedback:
    """The part of a review that feedback reads and writes."""

    entity: Entity
    store_id: str | None
    reply: Reply | None = None
    replied: RecordPosition | None = None
    """The last record about its reply."""
    responses: Responses = NO_RESPONSES
    text_hash: str | None = None
    """The hash of its text, set if some feedback names a text."""


@dataclass(frozen=True, slots=True)
class KnownFeedback:
    """The state that decides on feedback: reviews, votes, ids of reports, and keys of commands with an outcome."""

    reviews: Mapping[str, ReviewFeedback] = field(default_factory=dict)
    votes: Mapping[VoteKey, Vote] = field(default_factory=dict)
    reports: Collection[str] = ()
    open_reports: Collection[str] = ()
    """Ids of open reports among `reports`, as far as commands settle them."""
    answered: Collection[tuple[str, str]] = ()


class FeedbackResult(NamedTuple):
    """The result of one command, and the review after it."""

    outcome: Outcome
    reason: FeedbackRefusal | None = None
    review: ReviewFeedback | None = None
    is_settlement: bool = False
    """True if it settled a report that was known."""


@dataclass(frozen=True, slots=True)
class AppliedFeedback:
    """The result of a batch: the changes to be written, and one result for each command, None for a repeat."""

    reviews: Mapping[str, ReviewFeedback]
    votes: Mapping[VoteKey, Vote]
    reports: Sequence[Report]
    """New reports."""
    settled: Sequence[Report]
    """Stored reports that are settled now."""
    results: Sequence[FeedbackResult | None]


class _Step(NamedTuple):
    """One command: the review after it, its outcome (None for a repeat), and the vote or report to write."""

    review: ReviewFeedback
    outcome: Outcome | None
    vote: Vote | None = None
    report: Report | None = None
    is_settlement: bool = False


def visitor_id(store_id: str, browser: str) -> str:
    """The voter id of a browser in a store, by the browser's random id: `visitor:` and half of the SHA-256 of both.

    It identifies no customer, and the ids of a browser in two stores can't be linked.
    """
    digest = sha256(f"{store_id}\n{browser}".encode()).hexdigest()
    return f"visitor:{digest[: len(digest) // 2]}"


def with_own_reports(
    commands: Iterable[Feedback], reviews: Collection[str], owners: Mapping[str, str]
) -> Iterator[Feedback]:
    """Feedback whose reports have the ids under which they are stored: `id`, or `other_id` if a report about another
    review has that. `reviews`: the ids of those that exist. `owners`: the reviews of stored reports by the id of the
    report, with all ids of these."""
    taken = dict(owners)
    for command in commands:
        report = command.report
        if report and report.review_id in reviews:
            if report.other_id in taken or taken.get(report.id, report.review_id) != report.review_id:
                report = report._replace(id=report.other_id)
                command = replace(command, report=report)
            taken[report.id] = report.review_id
        yield command


def apply_feedback(commands: Iterable[Feedback], known: KnownFeedback) -> AppliedFeedback:
    """Apply feedback in order.

    A review that isn't in `known` has been deleted. A record that was applied changes nothing, nor does an older one;
    a new record that repeats a command only moves the marks. A repeated report is recognised by its id: it changes
    nothing, but a settled one, as imported, settles an open one. Under another command it has an outcome of its own.
    """
    present, votes, repeats = dict(known.reviews), dict(known.votes), set(known.answered)
    reviews: dict[str, ReviewFeedback] = {}
    voted: dict[VoteKey, Vote] = {}
    reports: dict[str, Report] = {}
    settled: dict[str, Report] = {}
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
            step = _apply_vote(review, votes.get(key), command, is_repeat=is_repeat)
        elif command.report:
            id = command.report.id
            earlier = settled.get(id) or reports.get(id)
            is_known = earlier is not None or id in known.reports
            is_open = earlier.settled is None if earlier else id in known.open_reports
            step = _apply_report(review, command.report, is_repeat=is_repeat, is_known=is_known, is_open=is_open)
        else:
            step = _apply_reply(review, command, is_repeat=is_repeat)
        if command.answer_key:
            repeats.add(command.answer_key)
        if step.review != review:
            present[command.review_id] = reviews[command.review_id] = step.review
        if key and step.vote:
            votes[key] = voted[key] = step.vote
        if step.report:
            (settled if step.report.id in known.reports else reports)[step.report.id] = step.report
        result = FeedbackResult(step.outcome, None, step.review, step.is_settlement) if step.outcome else None
        results.append(result)
    return AppliedFeedback(reviews, voted, list(reports.values()), list(settled.values()), results)


def responses_after_vote(responses: Responses, before: bool | None, after: bool | None) -> Responses:
    """The responses after a vote changed; None stands for no vote."""
    helpful = responses.helpful + (after is True) - (before is True)
    not_helpful = responses.not_helpful + (after is False) - (before is False)
    return responses._replace(helpful=max(0, helpful), not_helpful=max(0, not_helpful))


def _apply_reply(review: ReviewFeedback, command: Feedback, *, is_repeat: bool) -> _Step:
    if review.replied and review.replied.covers(command.position):
        return _Step(review, None)
    seen = replace(review, replied=review.replied.after(command.position) if review.replied else command.position)
    if is_repeat:
        return _Step(seen, None)
    if _is_older(command, review):
        # Without a reply the mark dates its removal, after which an import may still bring a newer one.
        return _Step(seen if review.reply else review, Outcome.UNCHANGED)
    reply = command.reply
    is_imported = reply is not None and (reply.created, reply.modified) != (command.at, command.at)
    if reply == review.reply or (not is_imported and _text_and_author(reply) == _text_and_author(review.reply)):
        return _Step(seen, Outcome.UNCHANGED)
    if reply and review.reply and not is_imported:
        reply = reply._replace(created=review.reply.created)
    return _Step(replace(seen, reply=reply), Outcome.APPLIED)


def _is_older(command: Feedback, review: ReviewFeedback) -> bool:
    """True for an imported reply that is older than the stored one, or than its removal."""
    reply, changed = command.reply, review.replied and from_milliseconds(review.replied.timestamp)
    if review.reply:
        changed = review.reply.modified
    return reply is not None and changed is not None and reply.modified < min(command.at, changed)


def _text_and_author(reply: Reply | None) -> tuple[str, str | None] | None:
    return (reply.text, reply.author) if reply else None


def _apply_vote(review: ReviewFeedback, stored: Vote | None, command: Feedback, *, is_repeat: bool) -> _Step:
    if stored and stored.position.covers(command.position):
        return _Step(review, None)
    before = stored.helpful if stored else None
    position = stored.position.after(command.position) if stored else command.position
    if is_repeat:
        return _Step(review, None, Vote(before, position) if stored else None)
    after = replace(review, responses=responses_after_vote(review.responses, before, command.helpful))
    outcome = Outcome.UNCHANGED if before is command.helpful else Outcome.APPLIED
    return _Step(after, outcome, Vote(command.helpful, position))


def _apply_report(review: ReviewFeedback, report: Report, *, is_repeat: bool, is_known: bool, is_open: bool) -> _Step:
    """`is_open`: it is known, and open."""
    is_settlement = is_open and report.settled is not None
    if is_repeat or (is_known and not is_settlement):
        return _Step(review, None if is_repeat else Outcome.UNCHANGED)
    count = max(0, review.responses.reports + (report.settled is None) - is_settlement)
    after = replace(review, responses=review.responses._replace(reports=count))
    return _Step(after, Outcome.APPLIED, report=report, is_settlement=is_settlement)
