"""Consume verdicts of classifiers about the texts of reviews."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from consumers.moderation_rules import approval_event
from consumers.parking import Overdue, ReviewCommandConsumer
from consumers.ratings import change_ratings
from domain.commands import Outcome
from domain.delivery import in_turn
from domain.moderation_rules import RuleOutcome
from domain.reviews_moderated import ModeratedReview
from domain.verdicts import AppliedVerdicts, Verdict, apply_verdicts
from messaging.decoding import Received
from messaging.metrics import VERDICTS
from messaging.topics import Topic
from messaging.verdicts import ModerationVerdict, verdict_in, verdict_value
from storage.audit import AuditAction, AuditEntry
from storage.parking import ParkingRepository
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class VerdictConsumer(ReviewCommandConsumer[Verdict]):
    """Applies verdicts to reviews that still have the text: approves new ones to which nothing objects, or flags them.

    Each review stores the positions of the verdicts applied to it. A batch is one transaction. A verdict about an
    unknown review is parked until the review is stored.
    """

    @property
    def parking(self) -> ParkingRepository[Verdict]:
        """The parking of verdicts."""
        return self.services.parked_verdicts

    async def __call__(self, batch: Sequence[Received[ModerationVerdict]]) -> None:
        """Apply a batch."""
        await self.apply([verdict_in(received) for received in batch])

    def overdue(self, command: Verdict) -> Overdue:
        """A verdict that is given up."""
        return Overdue(Topic.MODERATION_VERDICTS, command.position, command.review_id, verdict_value(command))

    async def apply_together(self, commands: Sequence[Verdict], parked: Sequence[Verdict]) -> set[str]:
        """Apply verdicts in one transaction."""
        ordered = in_turn(commands, lambda verdict: verdict.position)
        applied, result = await self.services.transactions.run(partial(self._write, ordered, parked))
        for verdict, (outcome, _) in zip(applied, result.results, strict=True):
            VERDICTS.labels(verdict.outcome.value, outcome.value).inc()
        return set()

    async def _write(
        self, verdicts: Sequence[Verdict], released: Sequence[Verdict], work: UnitOfWork
    ) -> tuple[Sequence[Verdict], AppliedVerdicts]:
        """Apply verdicts in a transaction, and remove the `released` ones from the parking. Those that were given up
        meanwhile aren't applied; returns the others, with the result."""
        repositories = work.repositories
        verdicts = await repositories.parked_verdicts.take_among(verdicts, released, work.session)
        present = await repositories.reviews.moderated({verdict.review_id for verdict in verdicts}, work.session)
        result = apply_verdicts(verdicts, present)
        await repositories.reviews.save_moderated(result.reviews, work.session)
        effective = list(_effective(verdicts, result))
        for verdict, review, is_approved in effective:
            if is_approved:
                about = (verdict.review_id, review.key, verdict.subject, verdict.at, verdict.trace)
                work.emit([approval_event(self.services, *about)])
        await change_ratings(self.services, work, result.tallies, result.reviews.values())
        work.audit(
            _audit_entry(verdict, review)
            for verdict, review, is_approved in effective
            if is_approved or _is_objection(verdict)
        )
        # If a classifier objects, the review waits for a moderator, and its planned approval is cancelled.
        objected = [verdict.review_id for verdict, *_ in effective if _is_objection(verdict)]
        await repositories.planned_approvals.plan(dict.fromkeys(objected), work.session)
        return verdicts, result


def _is_objection(verdict: Verdict) -> bool:
    return verdict.outcome is not RuleOutcome.APPROVE


def _effective(verdicts: Iterable[Verdict], result: AppliedVerdicts) -> Iterator[tuple[Verdict, ModeratedReview, bool]]:
    for verdict, (outcome, is_approved) in zip(verdicts, result.results, strict=True):
        if outcome is Outcome.APPLIED:
            yield verdict, result.reviews[verdict.review_id], is_approved


def _audit_entry(verdict: Verdict, review: ModeratedReview) -> AuditEntry:
    labels = ", ".join(verdict.labels)
    score = "" if verdict.score is None else f" ({verdict.score:g})"
    reason = f"{labels}{score}".strip() or None
    entry = AuditEntry(verdict.at, verdict.subject, AuditAction(verdict.outcome.value), reason=reason)
    return entry.about(verdict.review_id, review.key)
