"""Consume changes of reviews: apply moderation and update the ratings in one transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from consumers.ratings import apply_recounts, change_ratings
from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.moderation import Moderated, Moderation, ModerationRefusal, ModerationResult, moderate
from domain.places import entity_key
from domain.reviews import ModerationAction, ReviewStatus
from domain.reviews_moderated import ModeratedReview
from messaging.decoding import Received
from messaging.events import MODERATION_EVENTS, review_moderated
from messaging.metrics import MODERATIONS
from messaging.moderation import ModerationOfReview, moderation_in
from messaging.reviews import ReviewChange
from storage.audit import AuditAction, AuditEntry
from storage.feedback.reports import MOST_AT_ONCE
from storage.outcomes import ItemOutcome
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class ReviewChangeConsumer:
    """Applies moderation to reviews, keeps the ratings of their objects in step, and logs who did what.

    Each review stores the positions of the records applied to it, which come in order per object. A batch is one
    transaction, so the list and the rating never disagree, and a consumer that was presumed dead can't undo its
    successor's work. The cost grows with the number of commands, not of reviews.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ReviewChange]]) -> None:
        """Apply a batch."""
        commands = [
            moderation_in(Received(record, message))
            for record, message in batch
            if isinstance(message, ModerationOfReview)
        ]
        if commands:
            await self._apply(commands)
        # A recount has the same result wherever it stands among the changes of an object.
        await apply_recounts(self.services, batch)

    async def _apply(self, commands: Sequence[Moderation]) -> None:
        parking = self.services.parked_moderation
        fresh = list(commands)
        # A parked command takes effect at the time of the first new one about its review.
        times = {command.review_id: command.at for command in reversed(commands)}
        early = set[str]()
        if await parking.are_any():
            early = times.keys() - (await self.services.reviews.entities(times.keys())).keys()
            async for parked in parking.about(times.keys() - early):
                come = [command for command in parked if command.review_id not in early]
                waited = [command._replace(at=times[command.review_id]) for command in come]
                early |= await self._apply_together(waited, waited)
                known = {(command.position, command.review_id) for command in parked}
                fresh = [command for command in fresh if (command.position, command.review_id) not in known]
        due = [command for command in fresh if command.review_id not in early]
        if due:
            early |= await self._apply_together(due, ())
        if early:
            # Parked before the look-up, as in `ReviewCommandConsumer.apply`.
            await parking.park([command for command in fresh if command.review_id in early])
            arrived = await self.services.reviews.entities(early)
            if arrived:
                await self._apply([command for command in commands if command.review_id in arrived])

    async def _apply_together(self, commands: Sequence[Moderation], parked: Sequence[Moderation]) -> set[str]:
        """Apply commands in one transaction. Returns the ids of reviews that are neither stored yet nor deleted."""
        moderated, early = await self.services.transactions.run(partial(self._moderate, commands, parked))
        for command, outcome in zip(moderated.commands, moderated.outcomes, strict=True):
            if command.review_id not in early:
                MODERATIONS.labels(command.action.value, outcome.value if outcome else "repeated").inc()
        for id, decision in moderated.settled.items():
            if moderated.before[id].reports > MOST_AT_ONCE and decision.action is not ModerationAction.DELETE:
                await self._settle(id, decision)
        # A command about a deleted review may be what is left of a batch whose worker died after a parked deletion.
        await self._remove_feedback(
            command.review_id
            for command, outcome in zip(moderated.commands, moderated.outcomes, strict=True)
            if command.action is ModerationAction.DELETE or outcome is Outcome.NOT_FOUND
        )
        return early

    async def _settle(self, review_id: str, decision: Moderation) -> None:
        """Settle very many reports, in several transactions, by a decision that has taken effect. If interrupted, the
        others stay open, and the review stays among the reported ones."""
        now = datetime.now(UTC)

        async def settle_part(work: UnitOfWork) -> int:
            return await work.repositories.feedback.settle_some(review_id, decision, now, work.session)

        settled = MOST_AT_ONCE
        while settled == MOST_AT_ONCE:
            settled = await self.services.transactions.run(settle_part)

    async def _remove_feedback(self, ids: Iterable[str]) -> None:
        """Remove votes on those reviews that are deleted, and reports about them: at least once, as a redelivery
        repeats it."""
        deleted = await self.services.reviews.deleted_among(set(ids))
        await self.services.votes.remove_of(deleted)
        await self.services.reports.remove_of(deleted)

    async def _moderate(
        self, commands: Sequence[Moderation], parked: Sequence[Moderation], work: UnitOfWork
    ) -> tuple[Moderated, set[str]]:
        """Apply commands in a transaction, and remove the `parked` ones among them, unless somebody has given them up.
        Also returns the ids of reviews that are neither stored yet nor deleted."""
        stored, session = work.repositories, work.session
        present, early = await _reviews_of(commands, work)
        released = [command for command in parked if command.review_id not in early]
        commands = await stored.parked_moderation.take_among(commands, released, session)
        answered = await stored.outcomes.answers([c.answer_key for c in commands if c.answer_key], session)
        moderated = moderate(commands, present, answered)
        before = moderated.before
        few = {id: each for id, each in moderated.settled.items() if before[id].reports <= MOST_AT_ONCE}
        unnamed = {after.entity for id, after in moderated.reviews.items() if _may_unname(before[id], after)}
        await stored.reviews.save_moderated(moderated.reviews, session)
        await stored.feedback.settle(few, session)
        unplanned = await stored.planned_approvals.plan(dict.fromkeys(moderated.ended_plans), session)
        await stored.planned_approvals.keep(moderated.kept_plans, session)
        applied = [(command, result) for command, result in moderated.decided if result.outcome is Outcome.APPLIED]
        work.emit(self._event(command, moderated.reviews[command.review_id], result) for command, result in applied)
        await change_ratings(self.services, work, moderated.tallies, before.values())
        await stored.rated_objects.forget_names(unnamed, session)
        work.audit(_audit_entry(each, moderated.reviews[each.review_id]) for each in moderated.audited(unplanned))
        for command, result in moderated.decided:
            if command.command_id and command.review_id not in early:
                work.answers.append(_answer(command.command_id, command, result))
        return moderated, early

    def _event(self, command: Moderation, review: ModeratedReview, result: ModerationResult) -> OutgoingMessage:
        kind, event = MODERATION_EVENTS[result.after], review_moderated(command, review, result)
        return self.services.event(entity_key(review.entity), kind, event, cause=command.trace)


async def _reviews_of(commands: Iterable[Moderation], work: UnitOfWork) -> tuple[dict[str, ModeratedReview], set[str]]:
    """The stored reviews of commands, and the ids of those that are neither stored yet nor deleted."""
    ids = {command.review_id for command in commands}
    present = await work.repositories.reviews.moderated(ids, work.session)
    # Read outside of the transaction, whose snapshot lacks a review that arrives now: its commands are early, too.
    entities = await work.repositories.reviews.entities(ids - present.keys())
    return present, {id for id in ids - present.keys() if id not in entities or entities[id] is not None}


def _may_unname(before: ModeratedReview, after: ModeratedReview) -> bool:
    """True if the name of its object may come from this review, and no longer may."""
    is_unapproved = before.status is ReviewStatus.APPROVED and after.status is not ReviewStatus.APPROVED
    return after.status is None or is_unapproved


def _answer(command_id: str, command: Moderation, result: ModerationResult) -> ItemOutcome:
    reason = result.reason and result.reason.value
    answer = ItemOutcome(command_id, command.review_id, result.outcome, reason, command.mark)
    if result.reason is ModerationRefusal.STATUS_CHANGED and result.after is not None:
        return answer._replace(status=result.after.label, moderator=result.moderator)
    return answer


def _audit_entry(command: Moderation, review: ModeratedReview) -> AuditEntry:
    entry = AuditEntry(
        command.at,
        command.moderator,
        AuditAction(command.action.value),
        reason=command.reason,
        command_id=command.command_id,
        reason_code=command.reason_code,
    )
    return entry.about(command.review_id, review.key)
