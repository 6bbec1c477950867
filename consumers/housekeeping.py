"""Periodic tasks of a worker: overdue parked commands, planned approvals, leftovers of crashed processes, unused
images, expired ids, and names of rated objects."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol

import structlog

from consumers.images.sweeping import forget_images, sweep_images
from consumers.planned_approvals import Objections, approve_due
from consumers.ratings import name_rated_objects
from consumers.services import Services
from messaging.kafka.lag import ConsumerLag
from messaging.metrics import note_wait
from messaging.topics import Topic
from storage.database import Database, abort_abandoned
from storage.moments import server_time
from storage.parking_clock import ParkingClock
from storage.pymongo_internals import side_by_side
from storage.unit_of_work import is_unavailable

log = structlog.get_logger()

PARKING_LIMIT: Final = timedelta(hours=1)
"""Time for which a command stays parked. It is then given up once the awaited topic has been read up to the end of
that time."""

ABANDONED_AFTER: Final = timedelta(seconds=10)
"""Idle time after which a transaction is aborted: the documents that it wrote stay locked until it ends."""

AWAY_FOR: Final = timedelta(minutes=1)
"""A longer downtime of all workers doesn't count as parking time: the awaited records may still be unread in Kafka."""

_PAUSE_S: Final = 5.0
_FORGET_EVERY: Final = timedelta(hours=1)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_CLOCK_SKEW: Final = timedelta(minutes=1)
"""Time by which the clocks of senders may be ahead."""


class Parked(Protocol):
    """Commands that wait for a record of another topic."""

    async def are_overdue(self, before: datetime) -> bool:
        """True if any command was parked before that moment."""

    async def give_up_overdue(self, before: datetime) -> int:
        """Give up some commands parked before that moment. Returns the number given up."""


Task = Callable[[datetime], Awaitable[None]]
"""A housekeeping task, run with the time by MongoDB's clock."""


async def run_housekeeping(
    services: Services, lag: ConsumerLag, commands: Parked, returns: Parked, *, remember: timedelta
) -> None:
    """Run until cancelled, then stop `lag`. Several workers may run it: each task is idempotent, and a failing task
    doesn't keep the others from running. The two tasks that use the image store run concurrently with the rest, which
    doesn't wait for that store.

    `remember` has to exceed the retention of submissions in Kafka, so that no redelivery restores a deleted review.
    """
    database = services.database
    clock, objections = ParkingClock(database), Objections(lag, services.transactions.outbox)
    async with lag, lag.another() as images_lag:
        tasks = _Tasks(services, lag, images_lag, commands, returns, remember, clock, objections)
        # First those that other work waits for.
        awaited = (tasks.abort_abandoned, tasks.settle_outbox, tasks.approve_planned)
        await side_by_side(
            _run_in_loop(database, *awaited, tasks.give_up_parked, tasks.name_rated_objects),
            _run_in_loop(database, tasks.forget),
            _run_in_loop(database, tasks.sweep_images),
        )


async def _run_in_loop(database: Database, *tasks: Task) -> None:
    """Run tasks one after the other in an endless loop, with a pause of _PAUSE_S seconds.

    They use MongoDB's clock: by its own clock, a worker an hour ahead would give up everything that is parked.
    """
    while True:
        with _failure_logged("read_clock"):
            now = await server_time(database)
            for task in tasks:
                with _failure_logged(task.__name__):
                    await task(now)
        await asyncio.sleep(_PAUSE_S)


@contextmanager
def _failure_logged(task: str) -> Iterator[None]:
    """Log the failure of a task instead of raising it: an unreadable document, for example, waits for its repair."""
    try:
        yield
    except Exception as error:
        if is_unavailable(error):
            note_wait("housekeeping", error)
        else:
            log.exception("a housekeeping task failed", task=task)


@dataclass(slots=True)
class _Tasks:
    """The housekeeping tasks."""

    services: Services
    lag: ConsumerLag
    lag_of_images: ConsumerLag
    """For `sweep_images`, which runs concurrently with the others."""
    commands: Parked
    returns: Parked
    remember: timedelta
    clock: ParkingClock
    objections: Objections
    forgotten: datetime = _NEVER
    """Time of the last complete run of `forget`."""

    async def give_up_parked(self, now: datetime) -> None:
        """Record that a worker is running, then give up overdue parked commands. Nothing is given up until the downtime
        of all workers has been deducted from every parking time."""
        downtime, is_deducted = await self.clock.tick(AWAY_FOR)
        if downtime:
            log.info("parked commands wait longer: no worker was running", seconds=round(downtime.total_seconds()))
        if is_deducted:
            for task in (self.give_up_commands, self.give_up_returns):
                with _failure_logged(task.__name__):
                    await task(now)

    async def forget(self, now: datetime) -> None:
        """Delete expired ids of deleted and refused reviews, and expired images, once every _FORGET_EVERY."""
        if now - self.forgotten <= _FORGET_EVERY:
            return
        if count := await self.services.reviews.forget_gone(now - self.remember):
            log.info("forgot ids of deleted and refused reviews", count=count)
        if await forget_images(self.services, now, self.remember):
            self.forgotten = now

    async def sweep_images(self, now: datetime) -> None:
        """Remove unused images."""
        submissions_up_to = partial(read_up_to, self.lag_of_images, Topic.REVIEW_SUBMISSIONS, now)
        await sweep_images(self.services, now, submissions_up_to)

    async def name_rated_objects(self, _: datetime) -> None:
        """Give names to rated objects."""
        await name_rated_objects(self.services)

    async def give_up_commands(self, now: datetime) -> None:
        """Give up commands whose review never came."""
        if reported := await self._give_up(self.commands, Topic.REVIEW_SUBMISSIONS, now):
            log.warning("gave up commands whose review never arrived", count=reported)

    async def approve_planned(self, now: datetime) -> None:
        """Approve the reviews whose planned approval is due."""
        if approved := await approve_due(self.services, now, self.objections):
            log.info("approved reviews whose planned approval was due", count=approved)

    async def give_up_returns(self, now: datetime) -> None:
        """Give up returns whose order never came."""
        if refused := await self._give_up(self.returns, Topic.ORDER_EVENTS, now):
            log.warning("gave up returns whose order never arrived", count=refused)

    async def _give_up(self, parked: Parked, awaited: Topic, now: datetime) -> int:
        """Give up overdue commands, by the time up to which `awaited` has been read: the record that a command waits
        for may be in a backlog of hours, as after an import."""
        if not await parked.are_overdue(now - PARKING_LIMIT):
            return 0
        return await parked.give_up_overdue(await read_up_to(self.lag, awaited, now) - PARKING_LIMIT)

    async def settle_outbox(self, _: datetime) -> None:
        """Publish the outbox messages of crashed processes."""
        if settled := await self.services.transactions.outbox.settle_overdue():
            log.info("published the events of a stopped worker", batches=settled)

    async def abort_abandoned(self, _: datetime) -> None:
        """Abort transactions that no process continues."""
        if aborted := await abort_abandoned(self.services.database, ABANDONED_AFTER):
            log.info("aborted the transactions of a stopped process", count=aborted)


async def read_up_to(lag: ConsumerLag, topic: Topic, now: datetime) -> datetime:
    """The time up to which a topic has been read; 1970 if the next record of any partition is from the future."""
    unread = await lag.oldest_unread(topic, (now + _CLOCK_SKEW).timestamp())
    return now if unread is None else datetime.fromtimestamp(min(unread, now.timestamp()), UTC)
