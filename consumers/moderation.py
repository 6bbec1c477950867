"""Consume changes of reviews: apply moderation and update the ratings in one transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from consumers.ratings import Recounter, rating_events
from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.moderation import Moderated, ModeratedReview, Moderation, ModerationRefusal, ModerationResult, moderate
from domain.places import entity_key
from domain.ratings import RatingTally
from domain.reviews import ModerationAction, ReviewStatus
from messaging.decoding import Received
from messaging.events import moderation_event, review_moderated
from messaging.metrics import MODERATIONS
from messaging.moderation import ModerationOfReview, moderation_in
from messaging.reviews import ReviewChange
from storage.audit import AuditAction, AuditEntry
from storage.feedback_reports import MOST_AT_ONCE
from storage.outcomes import Answer
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class ReviewChangeConsumer:
    """Applies moderation to reviews, keeps the ratings of their objects in step, and logs who did what.

    Delivered at least once, in order per object, effective once: each review stores the positions of the records
    applied to it. Statuses, tallies, audit entries, answers and events of a batch are written in one transaction, so
    the list and the rating never disagree, and a consumer that was presumed dead can't undo its successor's work. The
    cost grows with the number of commands, not of reviews. Recounts go to `Recounter`.
    """

    services: Services
    recounter: Recounter

    async def __call__(self, batch: Sequence[Received[ReviewChange]]) -> None:
        """Apply a batch."""
        commands = [
            moderation_in(Received(received.record, received.message))
            for received in batch
            if isinstance(received.message, ModerationOfReview)
        ]
        if commands:
            await self._apply(commands)
        # A recount has the same result wherever it stands among the changes of an object.
        await self.recounter.recount(batch)

    async def _apply(self, commands: Sequence[Moderation]) -> None:
        services = self.services
        parked = await services.parked_moderation.about({command.review_id for command in commands})
        ordered = _after_parked(parked, commands)
        moderated, early = await services.transactions.run(partial(self._moderate, ordered, parked))
        for command, outcome in zip(ordered, moderated.outcomes, strict=True):
            if command.review_id not in early:
                MODERATIONS.labels(command.action.value, outcome.value if outcome else "repeated").inc()
        for id, decision in moderated.settled.items():
            if moderated.reported[id] > MOST_AT_ONCE and decision.action is not ModerationAction.DELETE:
                await self._settle(id, decision)
        await self._remove_feedback({c.review_id for c in ordered if c.action is ModerationAction.DELETE})
        if early:
            # Park first, then look up: the submission consumer stores first, then looks for parked commands, so one of
            # the two sees the other.
            await services.parked_moderation.park([c for c in ordered if c.review_id in early])
            arrived = await services.reviews.entities(early)
            if arrived:
                await self._apply([command for command in ordered if command.review_id in arrived])

    async def _settle(self, review_id: str, decision: Moderation) -> None:
        """Settle very many reports, in several transactions, by a decision that has taken effect. If interrupted, the
        others stay open, and the review stays among the reported ones."""
        now = datetime.now(UTC)

        async def settle_part(work: UnitOfWork) -> int:
            return await work.repositories.feedback.settle_some(review_id, decision, now, work.session)

        settled = MOST_AT_ONCE
        while settled == MOST_AT_ONCE:
            settled = await self.services.transactions.run(settle_part)

    async def _remove_feedback(self, ids: Collection[str]) -> None:
        """Remove votes on deleted reviews, and reports about them: at least once, as a redelivery repeats it."""
        if not ids:
            return
        gone = [id for id, entity in (await self.services.reviews.entities(ids)).items() if entity is None]
        await self.services.votes.remove_of(gone)
        await self.services.reports.remove_of(gone)

    async def _moderate(
        self, commands: Sequence[Moderation], parked: Sequence[Moderation], work: UnitOfWork
    ) -> tuple[Moderated, set[str]]:
        """Apply commands in a transaction. Also returns the ids of reviews that are neither stored yet nor deleted."""
        reviews, ratings, outcomes = work.repositories.reviews, work.repositories.ratings, work.repositories.outcomes
        ids = {command.review_id for command in commands}
        present = await reviews.moderated(ids, work.session)
        # Read outside of the transaction, whose snapshot lacks a review that arrives now: its commands are early, too.
        entities = await reviews.entities(ids - present.keys())
        early = {id for id in ids - present.keys() if id not in entities or entities[id] is not None}
        keys = [command.answer_key for command in commands if command.answer_key]
        moderated = moderate(commands, present, await outcomes.answers(keys, work.session))
        results = [(c, result) for c, result in zip(commands, moderated.results, strict=True) if result]
        applied = [(c, result) for c, result in results if result.outcome is Outcome.APPLIED]
        # A command that leaves the status is a decision, too; a repeated import isn't.
        kept = [(c, result) for c, result in results if result.outcome is Outcome.UNCHANGED and not c.restored]
        await reviews.save_moderated(moderated.reviews, work.session)
        few = {id: each for id, each in moderated.settled.items() if moderated.reported[id] <= MOST_AT_ONCE}
        await work.repositories.feedback.settle(few, work.session)
        planned = {id: (present[id].seen, r.seen) for id, r in moderated.reviews.items() if present[id].may_be_planned}
        decided = planned.keys() & {command.review_id for command, _ in (*applied, *kept)}
        former = await work.repositories.planned_approvals.plan(dict.fromkeys(decided), work.session)
        undecided = {id: moved for id, moved in planned.items() if id not in decided}
        await work.repositories.planned_approvals.keep(undecided, work.session)
        changes = {key: change for key, change in moderated.tallies.items() if change != RatingTally()}
        uncertain = {present[id].entity for id in moderated.reviews if present[id].is_uncertain}
        tallies = await ratings.add(changes, work.session, uncertain)
        # The names of their objects may come from the deleted reviews.
        deleted = {review.entity for review in moderated.reviews.values() if review.status is None}
        await work.repositories.rated_objects.forget_names(deleted, work.session)
        work.emit(self._event(command, moderated.reviews[command.review_id], result) for command, result in applied)
        work.emit(rating_events(self.services, tallies))
        # Include commands that left the status but settled reports or ended a planned approval.
        ended = {id for id in former if present[id].status is ReviewStatus.NEW}
        audited = [
            command
            for command, each in results
            if each.outcome is Outcome.APPLIED
            or moderated.settled.get(command.review_id) is command
            or (each.outcome is Outcome.UNCHANGED and command.review_id in ended)
        ]
        work.audit(_audit_entry(command, moderated.reviews[command.review_id]) for command in audited)
        for command, result in results:
            if command.command_id and command.review_id not in early:
                work.answers.append(_answer(command.command_id, command, result))
        await work.repositories.parked_moderation.release([c for c in parked if c.review_id not in early], work.session)
        return moderated, early

    def _event(self, command: Moderation, review: ModeratedReview, result: ModerationResult) -> OutgoingMessage:
        kind, event = moderation_event(result.after), review_moderated(command, review, result)
        return self.services.event(entity_key(review.entity), kind, event, cause=command.trace)


def _after_parked(parked: Sequence[Moderation], commands: Sequence[Moderation]) -> list[Moderation]:
    """The parked commands, then the new ones. A parked one takes effect at the time of the first new one about its
    review."""
    times = {command.review_id: command.at for command in reversed(commands)}
    known = {(command.position, command.review_id) for command in parked}
    fresh = [command for command in commands if (command.position, command.review_id) not in known]
    return [*(command._replace(at=times[command.review_id]) for command in parked), *fresh]


def _answer(command_id: str, command: Moderation, result: ModerationResult) -> Answer:
    reason = result.reason and result.reason.value
    answer = Answer(command_id, command.review_id, result.outcome, reason, command.mark)
    if result.reason is ModerationRefusal.STATUS_CHANGED and result.after is not None:
        return answer._replace(status=result.after.label, moderator=result.moderator)
    return answer


def _audit_entry(command: Moderation, review: ModeratedReview) -> AuditEntry:
    action, about = AuditAction(command.action.value), (command.review_id, *review.key)
    details = (command.reason, command.command_id)
    return AuditEntry(command.at, command.moderator, action, *about, *details, reason_code=command.reason_code)
