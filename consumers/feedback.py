"""Consume feedback on reviews: replies, votes and reports."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from consumers.parking import Overdue, ReviewCommandConsumer
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.feedback import (
    AppliedFeedback,
    Feedback,
    FeedbackAction,
    KnownFeedback,
    ReviewFeedback,
    apply_feedback,
    with_own_reports,
)
from domain.places import entity_key
from domain.ratings import TallyKey
from messaging.decoding import Received
from messaging.events import review_replied, review_reported
from messaging.feedback import FeedbackCommand, feedback_in, feedback_value
from messaging.metrics import FEEDBACK
from messaging.topics import Topic
from storage.audit import AuditAction, AuditEntry
from storage.parking import ParkingRepository
from storage.privacy.erasures import Erasures
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class FeedbackConsumer(ReviewCommandConsumer[Feedback]):
    """Applies feedback to reviews of any status.

    Each vote, and each review for its reply, stores the position of its last record, which come in order per review;
    a report is recognised by its id. A batch is one transaction, whose cost grows with the number of commands. A large
    number of parked commands is split into several transactions, in order. Feedback on an unknown review is parked; on
    a deleted or refused review it is answered "not-found".
    """

    @property
    def parking(self) -> ParkingRepository[Feedback]:
        """The parking of feedback."""
        return self.services.parked_feedback

    async def __call__(self, batch: Sequence[Received[FeedbackCommand]]) -> None:
        """Apply a batch."""
        await self.apply([feedback_in(received) for received in batch])

    def overdue(self, command: Feedback) -> Overdue:
        """Feedback that is given up."""
        value, mark = feedback_value(command), command.origin.mark
        topic, id = Topic.REVIEW_FEEDBACK, command.review_id
        return Overdue(topic, command.position, id, value, command.command_id, mark)

    async def erased(self, commands: Sequence[Feedback]) -> Sequence[Feedback]:
        """Votes and reports of people who were erased since."""
        return await _erased(commands, self.services.erasures)

    async def apply_together(self, commands: Sequence[Feedback], parked: Sequence[Feedback]) -> set[str]:
        """Apply feedback in one transaction."""
        applied, taken = await self.services.transactions.run(partial(self._take, commands, parked))
        for command, result in zip(applied, taken.results, strict=True):
            FEEDBACK.labels(command.action.value, result.outcome.value if result else "repeated").inc()
        return set()

    async def _take(
        self, commands: Sequence[Feedback], released: Sequence[Feedback], work: UnitOfWork
    ) -> tuple[Sequence[Feedback], AppliedFeedback]:
        """Apply feedback in a transaction, and remove the `released` commands from the parking. Those that were given
        up or erased meanwhile aren't applied; returns the others, with the result."""
        stored, session = work.repositories, work.session
        commands = await stored.parked_feedback.take_among(commands, released, session)
        commands, known = await _load(commands, work)
        taken = apply_feedback(commands, known)
        await stored.feedback.save(taken.reviews, session)
        # A settled report, as imported, leaves its review as it is, as do the withdrawal of a vote that wasn't cast and
        # votes that balance each other.
        new = {each.review_id for each in taken.reports} | {key.review_id for key in taken.votes.keys() - known.votes}
        unchanged = {id for id in new if taken.reviews.get(id, known.reviews[id]) == known.reviews[id]}
        await stored.feedback.keep_from_deletion(unchanged, session)
        await stored.votes.save(taken.votes, known.votes.keys(), session)
        await stored.reports.add(taken.reports, session)
        await stored.reports.settle_as_imported(taken.settled, session)
        applied = list(_applied(commands, taken))
        work.emit(event for command, review in applied for event in self._events(command, review))
        work.audit(_audit_entry(command, review) for command, review in applied if _is_reply(command))
        for command, result in zip(commands, taken.results, strict=True):
            if result:
                reason = result.reason and result.reason.value
                mark = command.origin.mark
                work.answer(command.command_id, command.review_id, result.outcome, reason, mark=mark)
        return commands, taken

    def _events(self, command: Feedback, review: ReviewFeedback) -> Iterator[OutgoingMessage]:
        key, trace = entity_key(review.entity), command.origin.trace
        if _is_reply(command):
            yield self.services.event(key, "ReviewReplied", review_replied(command, review), cause=trace)
        if report := command.report:
            yield self.services.event(key, "ReviewReported", review_reported(command, report, review), cause=trace)


async def _load(commands: Sequence[Feedback], work: UnitOfWork) -> tuple[list[Feedback], KnownFeedback]:
    """The commands, whose reports have the ids under which they are stored, and the state that decides on them."""
    stored, session = work.repositories, work.session
    names_texts = any(command.text_hash for command in commands)
    reviews = await stored.feedback.load({c.review_id for c in commands}, session, with_texts=names_texts)
    # From here on the transaction sees no erasure any more, but conflicts with one of a vote that it writes.
    gone = await _erased(commands, stored.erasures)
    for each in gone:
        work.answer(each.command_id, each.review_id, Outcome.UNCHANGED, mark=each.origin.mark)
    commands = [each for each in commands if each not in gone] if gone else commands
    reports = [command.report for command in commands if command.report]
    owners = await stored.reports.owners({id for each in reports for id in (each.id, each.other_id)}, session)
    own = list(with_own_reports(commands, reviews, owners))
    votes = await stored.votes.load({command.vote_key for command in own if command.vote_key}, session)
    open_reports = await stored.reports.open_among({c.report.id for c in own if c.report and c.report.settled}, session)
    answered = await stored.outcomes.answers([c.answer_key for c in own if c.answer_key], session)
    return own, KnownFeedback(reviews, votes, owners, open_reports, answered)


async def _erased(commands: Sequence[Feedback], erasures: Erasures) -> Sequence[Feedback]:
    """The commands whose voters or reporters were erased since. An erasure leaves nothing of a vote, or of what is
    parked, that tells if another worker had it before, while this one was frozen, and outcomes are forgotten."""
    people = [each.report.user_id if each.report else each.user_id for each in commands]
    erased = await erasures.latest({person for person in people if person})
    return [
        each for each, person in zip(commands, people, strict=True) if person in erased and each.at <= erased[person]
    ]


def _is_reply(command: Feedback) -> bool:
    return command.action in (FeedbackAction.REPLY, FeedbackAction.REMOVE_REPLY)


def _applied(commands: Iterable[Feedback], taken: AppliedFeedback) -> Iterator[tuple[Feedback, ReviewFeedback]]:
    """Commands that have events, with the review after each: all that were applied, but settlements of reports."""
    for command, result in zip(commands, taken.results, strict=True):
        if result and result.outcome is Outcome.APPLIED and result.review and not result.is_settlement:
            yield command, result.review


def _audit_entry(command: Feedback, review: ReviewFeedback) -> AuditEntry:
    action = AuditAction(command.action.value)
    entry = AuditEntry(command.at, command.moderator, action, command_id=command.command_id)
    return entry.about(command.review_id, TallyKey(review.entity, review.store_id))
