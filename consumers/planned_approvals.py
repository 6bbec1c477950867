"""Approve reviews that were held back only for their few stars, once their planned approval is due.

An applied objection (an author's edit, an objecting verdict, a moderator's decision) cancels the plan of its review. An
acknowledged objection may still be unread in Kafka. So `Objections` starts at a moment T, and goes through the steps
of _OBJECTIONS. Each step takes the end offsets of its topics once the step before is done, as that one passes records
on, and waits until these offsets are applied:
1. `dead-letter-commands`: replays return letters to the other topics;
2. `review-submissions`, `moderation-verdicts` and `moderation-commands`: the router forwards the last to step 3;
3. `review-changes`: decisions are applied.
After step 3 the reviews that were due at T are approved: everything acknowledged before T has taken effect.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from consumers.moderation_rules import approval_event
from consumers.ratings import change_ratings
from consumers.services import Services
from domain.planned_approvals import PlannedApproval, approve_planned
from messaging.kafka.lag import ConsumerLag, Ends
from messaging.topics import Topic
from storage.audit import AuditAction, AuditEntry
from storage.outbox import Outbox
from storage.shapes import StoredDocumentError, log_damage
from storage.unit_of_work import UnitOfWork

_APPROVED_AT_ONCE: Final = 200

_OBJECTIONS: Final = (
    frozenset({Topic.DEAD_LETTER_COMMANDS}),
    frozenset({Topic.REVIEW_SUBMISSIONS, Topic.MODERATION_VERDICTS, Topic.MODERATION_COMMANDS}),
    frozenset({Topic.REVIEW_CHANGES}),
)
"""The topics of objections, by step; a step applies its records, or passes them on to the next one."""


@dataclass(slots=True)
class Objections:
    """The moment T up to which all objections to approvals are applied."""

    lag: ConsumerLag
    outbox: Outbox
    _since: datetime | None = None
    _left: Sequence[frozenset[Topic]] = ()
    """The steps after the present one."""
    _ends: Ends = field(default_factory=dict)
    """The offsets that the present step waits for."""

    async def applied_up_to(self, now: datetime) -> datetime | None:
        """The moment T of the first call, once all steps are done; None before: call again. Raises BrokerAwayError and
        KafkaError."""
        if self._since is None:
            self._since, self._left, self._ends = now, _OBJECTIONS, {}
        while True:
            self._ends = await self.lag.unapplied(self._ends)
            if self._ends:
                return None
            if not self._left:
                moment, self._since = self._since, None
                return moment
            # A crashed worker may have applied records of the step before without passing them on.
            await self.outbox.settle_current()
            self._ends = await self.lag.ends(*self._left[0])
            self._left = self._left[1:]


async def approve_due(services: Services, now: datetime, objections: Objections) -> int:
    """Approve the reviews whose planned approval is due; returns their number.

    Effective once: plans, reviews, tallies, audit entries and events are written in one transaction.
    """
    if not await services.planned_approvals.due(now, 1):
        return 0
    applied = await objections.applied_up_to(now)
    approved, damaged, is_more = 0, set[str](), True
    # Skip damaged reviews, so that the others get their turn.
    while applied and is_more:
        due = await services.planned_approvals.due(applied, _APPROVED_AT_ONCE, except_reviews=damaged)
        known = len(damaged)
        count = await _approve_undamaged(services, due, now, damaged)
        is_more = len(due) == _APPROVED_AT_ONCE and (count > 0 or len(damaged) > known)
        approved += count
    return approved


async def _approve_undamaged(
    services: Services, due: Collection[PlannedApproval], now: datetime, damaged: set[str]
) -> int:
    """Approve these reviews, except damaged ones, which wait for their repair, and whose ids are added to `damaged`."""
    while due:
        try:
            return await services.transactions.run(partial(_approve, services, due, now))
        except StoredDocumentError as error:
            others = [each for each in due if each.review_id != error.id]
            if len(others) == len(due):
                raise
            log_damage("a planned approval failed", id=str(error.id), error=str(error))
            damaged.add(str(error.id))
            due = others
    return 0


async def _approve(services: Services, due: Collection[PlannedApproval], now: datetime, work: UnitOfWork) -> int:
    repositories = work.repositories
    planned = await repositories.planned_approvals.take(due, work.session)
    present = await repositories.reviews.moderated({each.review_id for each in planned}, work.session)
    approved = approve_planned(planned, present, now)
    await repositories.reviews.save_moderated(approved.reviews, work.session)
    for id, review in approved.reviews.items():
        work.emit([approval_event(services, id, review.key, review.moderator or "", now, "")])
    await change_ratings(services, work, approved.tallies, approved.reviews.values())
    work.audit(
        AuditEntry(now, review.moderator, AuditAction.APPROVE).about(id, review.key)
        for id, review in approved.reviews.items()
    )
    return len(approved.reviews)
