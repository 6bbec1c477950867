"""The schedule of the job: runs it by the cron expression of the settings, in one scheduler at a time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from apscheduler.job import Job
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from domain.stores import ReminderSettings
from messaging.cron import InvalidCronError, cron_trigger, next_time
from messaging.kafka.connection import is_broker_away
from messaging.metrics import count_wait
from scheduler.reminders import ReminderJob
from storage.database import is_database_away
from storage.leases import Hold, LeaseRepository
from storage.stores import StoreRepository

log = structlog.get_logger()

LEASE: Final = "reminders"

_MAKE_UP: Final = timedelta(hours=1)
"""An unfinished run is repeated by the next active scheduler within this time: its hour was chosen on purpose."""

_AGAIN: Final = timedelta(seconds=30)
"""After a run that failed because MongoDB or Kafka was away."""

GRACE_S: Final = 7.0
"""At a stop, how long a batch in hand may take; a transaction that is cut off has no effect."""


class ReminderClock:
    """Runs the job whenever the cron expression says so, while this scheduler holds the lease.

    The lease is renewed and the settings are read ten times within its duration: a change of settings takes effect
    within a tenth of it. A standby takes over at most 1.1 times its duration after the active scheduler dies.
    """

    def __init__(
        self, job: ReminderJob, stores: StoreRepository, leases: LeaseRepository, *, holder: str, lease_s: float = 30.0
    ) -> None:
        self._job = job
        self._stores = stores
        self._leases = leases
        self._holder = holder
        self._lease_s = lease_s
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._planned: Job | None = None
        self._trigger: BaseTrigger | None = None
        self._cron = ""
        self._held_until = float("-inf")
        self._taken_over: Hold | None = None
        self._stopping = False
        self._working = asyncio.Lock()

    @property
    def next_run(self) -> datetime | None:
        """The next run of the job; None while this scheduler has none planned."""
        return self._planned.next_run_time if self._planned else None

    async def keep(self) -> None:
        """Run the job on schedule until cancelled; then finish the batch in hand and release the lease."""
        self._scheduler.start()
        try:
            while True:
                try:
                    await self._look()
                except Exception as error:
                    if not _is_unavailable(error):
                        raise
                    count_wait("scheduler", error)
                    log.warning("retrying: MongoDB or Kafka unavailable", error=repr(error)[:300])
                await asyncio.sleep(self._lease_s / 10)
        finally:
            await self._stop()

    async def _look(self) -> None:
        """Take or renew the lease, and follow the settings."""
        asked = asyncio.get_running_loop().time()
        hold = await self._leases.take(LEASE, self._holder, self._lease_s)
        if hold is None:
            self._plan_nothing("another scheduler works")
            return
        self._held_until = asked + self._lease_s
        if hold.is_new:
            self._taken_over = hold
            log.info("this scheduler is active", holder=self._holder)
        self._follow((await self._stores.general()).reminder)

    def _follow(self, settings: ReminderSettings) -> None:
        if not settings.enabled:
            self._taken_over = None
            self._plan_nothing("reminders are disabled")
            return
        if settings.cron != self._cron:
            self._cron = settings.cron
            try:
                self._trigger = cron_trigger(settings.cron)
            except InvalidCronError as error:
                # Only by a change in the database itself: messages with such an expression are refused.
                log.error("invalid cron expression; the previous one stays", cron=settings.cron, error=str(error))
            else:
                self._plan_nothing("another cron expression")
        if self._planned is None and self._trigger is not None:
            self._plan(self._trigger)

    def _plan(self, trigger: BaseTrigger) -> None:
        now = datetime.now(UTC)
        hold, self._taken_over = self._taken_over, None
        unfinished = next_time(trigger, max(hold.done, now - _MAKE_UP)) if hold else None
        is_overdue = unfinished is not None and unfinished <= now
        self._planned = self._scheduler.add_job(
            self._run,
            trigger,
            next_run_time=now if is_overdue else next_time(trigger, now),
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )
        log.info("next reminders", at=str(self.next_run), cron=self._cron)

    def _plan_nothing(self, reason: str) -> None:
        if self._planned is not None:
            self._planned.remove()
            self._planned = None
            log.info("no reminders planned", reason=reason)

    async def _run(self) -> None:
        async with self._working:
            now = datetime.now(UTC)
            try:
                report = await self._job.run(now, self._may_go_on)
                if self._may_go_on():
                    await self._leases.note_done(LEASE, now)
            except Exception as error:
                if not _is_unavailable(error):
                    log.exception("reminder run failed")
                    return
                count_wait("scheduler", error)
                log.warning("reminder run failed; it will be repeated", error=f"{type(error).__name__}: {error}"[:300])
                if self._planned is not None:
                    self._planned.modify(next_run_time=datetime.now(UTC) + _AGAIN)
                return
            log.info("reminders sent", sent=report.reminders, skipped=dict(report.skipped), seconds=_seconds_since(now))

    def _may_go_on(self) -> bool:
        return not self._stopping and asyncio.get_running_loop().time() < self._held_until

    async def _stop(self) -> None:
        self._stopping = True
        try:
            async with asyncio.timeout(GRACE_S), self._working:
                await self._leases.release(LEASE, self._holder)
        except Exception as error:
            log.warning("stopped without releasing the lease", error=f"{type(error).__name__}: {error}"[:300])
        self._scheduler.shutdown(wait=False)


def _is_unavailable(error: BaseException) -> bool:
    return is_database_away(error) or is_broker_away(error)


def _seconds_since(moment: datetime) -> float:
    return round((datetime.now(UTC) - moment).total_seconds(), 3)
