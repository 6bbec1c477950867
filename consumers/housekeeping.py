"""Periodic work of a worker: overdue parked commands, remains of processes that died, unused images, expired ids, and
names of rated objects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from consumers.images_sweeping import forget_images, sweep_images
from consumers.parked import ParkedCommands
from consumers.publications import publish_due
from consumers.ratings_names import name_rated_objects
from consumers.returns import ReturnConsumer
from consumers.services import Services
from messaging.metrics import note_wait
from storage.abandoned_transactions import abort_abandoned
from storage.database import Database
from storage.parking_clock import ParkingClock
from storage.unit_of_work import is_unavailable

log = structlog.get_logger()

PARKING_LIMIT: Final = timedelta(hours=1)
"""A command waits so long for its submission or its order."""

ABANDONED_AFTER: Final = timedelta(seconds=10)
"""A transaction may stand still so long; the documents that it wrote are locked until it ends."""

AWAY_FOR: Final = timedelta(minutes=1)
"""If no worker was there for longer, that time doesn't count as parking: what is waited for may stand in Kafka."""

_PAUSE_S: Final = 5.0
_FORGET_EVERY: Final = timedelta(hours=1)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


async def keep_house(
    database: Database,
    services: Services,
    commands: ParkedCommands,
    returns: ReturnConsumer,
    *,
    remember: timedelta,
) -> None:
    """Run until cancelled. Several workers may: each task is idempotent.

    Ids of deleted reviews are remembered for longer than Kafka keeps the submissions, so that none comes back.
    """
    house = _House(database, services, commands, returns, remember, ParkingClock(database))
    while True:
        # Each by itself: nothing else waits for a store of images that is away.
        for work in (house.look_after_commands, house.look_after_images):
            try:
                await work(datetime.now(UTC))
            except Exception as error:
                if not is_unavailable(error):
                    raise
                note_wait("housekeeping", error)
        await asyncio.sleep(_PAUSE_S)


@dataclass(slots=True)
class _House:
    """What is looked after, and when it was last."""

    database: Database
    services: Services
    commands: ParkedCommands
    returns: ReturnConsumer
    remember: timedelta
    clock: ParkingClock
    ids_forgotten: datetime = _NEVER
    images_forgotten: datetime = _NEVER

    async def look_after_commands(self, now: datetime) -> None:
        """Give up and publish what is overdue, and forget what is over."""
        services = self.services
        if aborted := await abort_abandoned(self.database, ABANDONED_AFTER):
            log.info("aborted transactions of a process that stopped", count=aborted)
        if away := await self.clock.tick(AWAY_FOR):
            log.info("what is parked waits for longer: no worker was there", seconds=round(away.total_seconds()))
        if now - self.ids_forgotten > _FORGET_EVERY:
            if count := await services.reviews.forget_gone(now - self.remember):
                log.info("forgot ids of deleted and refused reviews", count=count)
            self.ids_forgotten = now
        await name_rated_objects(services)
        if reported := await self.commands.report_overdue(now - PARKING_LIMIT):
            log.warning("commands without a review", count=reported)
        if published := await publish_due(services, now):
            log.info("approvals of reviews whose time has come", count=published)
        if refused := await self.returns.report_overdue(now - PARKING_LIMIT):
            log.warning("returns without an order", count=refused)
        if settled := await services.transactions.outbox.settle_overdue():
            log.info("published events of a worker that stopped", batches=settled)

    async def look_after_images(self, now: datetime) -> None:
        """Let unused images go, with their files."""
        if now - self.images_forgotten > _FORGET_EVERY:
            await forget_images(self.services, now, self.remember)
            self.images_forgotten = now
        await sweep_images(self.services, now)
