"""What has to be done when no record asks for it: overdue parked commands, what a dead process left behind, and ids
that need no remembering any more."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from consumers.inbox import is_world_away
from consumers.outbox import EventOutbox
from consumers.returns import ReturnConsumer
from consumers.routing import ModerationRouter
from messaging.metrics import count_wait
from storage.database import Database
from storage.reviews import ReviewRepository
from storage.transactions import abort_abandoned

log = structlog.get_logger()

PARKING_LIMIT: Final = timedelta(hours=1)
"""How long a command waits for the submission or the order it is about."""

OUTBOX_LIMIT: Final = timedelta(seconds=15)
"""Older than this, owed events belong to a worker that died: a living one publishes at once and waits for less."""

ABANDONED_AFTER: Final = timedelta(seconds=10)
"""How long a transaction may stand still; what it wrote is closed to others for as long."""

_PAUSE_S: Final = 5.0
_FORGET_EVERY: Final = timedelta(hours=1)


async def keep_house(
    database: Database,
    reviews: ReviewRepository,
    moderation: ModerationRouter,
    returns: ReturnConsumer,
    events: EventOutbox,
    *,
    remember: timedelta,
) -> None:
    """Run until cancelled. Several workers may: what one has done the other finds done, or does again, harmlessly.

    Ids of deleted reviews are remembered for longer than Kafka keeps the submissions, so that none comes back.
    """
    forgotten = datetime.min.replace(tzinfo=UTC)
    while True:
        try:
            now = datetime.now(UTC)
            if now - forgotten > _FORGET_EVERY:
                if count := await reviews.forget_gone(now - remember):
                    log.info("forgot ids of deleted and refused reviews", count=count)
                forgotten = now
            if reported := await moderation.report_overdue(now - PARKING_LIMIT):
                log.warning("moderation commands without a review", count=reported)
            if refused := await returns.report_overdue(now - PARKING_LIMIT):
                log.warning("returns without an order", count=refused)
            if settled := await events.settle_overdue(now - OUTBOX_LIMIT):
                log.info("published events of a worker that stopped", batches=settled)
            if aborted := await abort_abandoned(database, ABANDONED_AFTER):
                log.info("aborted transactions of a process that stopped", count=aborted)
        except Exception as error:
            if not is_world_away(error):
                raise
            count_wait("housekeeping", error)
            log.warning("waiting for the world", error=f"{type(error).__name__}: {error}"[:300])
        await asyncio.sleep(_PAUSE_S)
