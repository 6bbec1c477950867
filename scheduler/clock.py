"""The schedule of the job: runs it by the cron expression in the settings, in one scheduler at a time."""

import asyncio
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

import structlog

from domain.stores import ReminderSettings
from messaging.cron import InvalidCronError, check_cron, next_time
from messaging.metrics import note_wait
from messaging.server_errors import for_log
from scheduler.reminders import ReminderJob
from storage.leases import CLOCK_SKEW, REMINDERS, Hold, LeaseRepository
from storage.stores import StoreRepository
from storage.unit_of_work import is_unavailable

log = structlog.get_logger()

_MAKE_UP_WITHIN: Final = timedelta(hours=1)
"""Maximum age of an unfinished run that the next active scheduler makes up for: its hour was chosen on purpose."""

_REPEAT_DELAY: Final = timedelta(seconds=30)
"""Delay before repeating a run that failed while MongoDB or Kafka was unavailable, or that outlasted the lease."""

_STOP_GRACE_S: Final = 7.0
"""Seconds that a batch in progress may take at shutdown; a transaction that is cut off has no effect."""


class ReminderClock:
    """Runs the job by the cron expression while this scheduler holds the lease.

    It renews the lease and reads the settings ten times per lease duration, so a change of settings takes effect within
    a tenth of it. A standby takes over at most 1.1 lease durations after the active scheduler dies.
    """

    def __init__(
        self, job: ReminderJob, stores: StoreRepository, leases: LeaseRepository, *, holder: str, lease_s: float
    ) -> None:
        self._job = job
        self._stores = stores
        self._leases = leases
        self._holder = holder
        self._lease_s = lease_s
        self.next_run: datetime | None = None
        """Time of the next run; None while this scheduler has none planned."""
        self._running: asyncio.Task[None] | None = None
        self._checked_cron = ""
        """The cron expression of the settings when they were read last."""
        self._cron = ""
        """The last valid one, which is in force."""
        self._held_until = float("-inf")
        self._taken_over: Hold | None = None
        """The lease, from the moment it was taken over until a run is planned by it."""
        self._stopping = False

    async def keep(self) -> None:
        """Run the job on schedule until cancelled; then finish the batch in progress and release the lease."""
        try:
            while True:
                try:
                    await self._refresh()
                except Exception as error:
                    if not is_unavailable(error):
                        raise
                    note_wait("scheduler", error)
                await asyncio.sleep(self._start_if_due())
        finally:
            await self._stop()

    async def _refresh(self) -> None:
        """Acquire or renew the lease, and follow the settings."""
        asked_at = asyncio.get_running_loop().time()
        hold = await self._leases.take(REMINDERS, self._holder, self._lease_s)
        if hold is None:
            self._cancel_plan("another scheduler is active")
            return
        self._held_until = asked_at + self._lease_s
        if hold.is_new:
            self._taken_over = hold if self.next_run is None else None
            log.info("this scheduler is active", holder=self._holder)
        settings = (await self._stores.general()).reminder
        self._follow(settings)
        cron = self._cron if settings.enabled else None
        if cron != "" and (hold.since is None or hold.cron != cron):
            # Beside the lease, so that health checks see if the schedule is kept.
            await self._leases.note_schedule(REMINDERS, cron)

    def _follow(self, settings: ReminderSettings) -> None:
        if not settings.enabled:
            self._taken_over = None
            self._cancel_plan("reminders are disabled")
            return
        if settings.cron != self._checked_cron:
            self._checked_cron = settings.cron
            try:
                check_cron(settings.cron)
            except InvalidCronError as error:
                # Only a direct change of the database leads here: messages with such an expression are refused.
                log.error("invalid cron expression; keeping the previous one", cron=settings.cron, error=str(error))
            else:
                self._cron = settings.cron
                self._cancel_plan("cron expression changed")
        if self.next_run is None and self._cron:
            self._plan_next()

    def _plan_next(self) -> None:
        now = datetime.now(UTC)
        hold, self._taken_over = self._taken_over, None
        is_overdue = hold is not None and self._is_overdue(hold, now)
        self.next_run = now if is_overdue else next_time(self._cron, now)
        log.info("next reminders", at=str(self.next_run), cron=self._cron)

    def _is_overdue(self, hold: Hold, now: datetime) -> bool:
        """True if a run was missed since the schedule was noted, at most _MAKE_UP_WITHIN ago."""
        if hold.since is not None and hold.cron != self._cron:
            return False
        return next_time(self._cron, max(hold.done, hold.since or hold.done, now - _MAKE_UP_WITHIN)) <= now

    def _cancel_plan(self, reason: str) -> None:
        if self.next_run is not None:
            self.next_run = None
            log.info("no reminder run scheduled", reason=reason)

    def _start_if_due(self) -> float:
        """Start the due run, unless one is in progress; returns the seconds until the next check."""
        pause = self._lease_s / 10
        if self.next_run is None or (self._running is not None and not self._running.done()):
            return pause
        now = datetime.now(UTC)
        following = next_time(self._cron, now)
        if self.next_run <= now:
            self._running = asyncio.create_task(self._run(self.next_run))
            self.next_run = following
        # Planned by a clock that was ahead at that time.
        self.next_run = min(self.next_run, following)
        return min(pause, (self.next_run - now).total_seconds())

    async def _run(self, planned: datetime) -> None:
        began = monotonic()
        try:
            # By its own clock, a scheduler days ahead would send reminders days early. One that is slightly ahead does
            # the run of the planned time, or that would count as missed.
            now = await self._leases.now()
            if now < planned <= now + CLOCK_SKEW:
                now = planned
            report = await self._job.run(now, self._may_go_on)
            if not self._may_go_on():
                self._plan_repeat()
            elif not report.is_failure:
                await self._leases.note_done(REMINDERS, now)
        except Exception as error:
            if not is_unavailable(error):
                log.exception("reminder run failed")
                return
            note_wait("scheduler", error, consequence="reminder run failed; it will be retried")
            self._plan_repeat()
            return
        counts: dict[str, object] = {
            "sent": report.reminders,
            "skipped": dict(report.skipped),
            "failed": report.failed,
            "damaged": report.damaged,
            "is_cut": report.is_cut,
            "seconds": round(monotonic() - began, 3),
        }
        if report.is_failure:
            log.error("reminder run failed", **counts)
        else:
            log.info("reminders sent", **counts)

    def _plan_repeat(self) -> None:
        """Plan a repeat of an unfinished run, unless nothing is planned: then another scheduler has taken over."""
        if self.next_run is not None:
            self.next_run = datetime.now(UTC) + _REPEAT_DELAY

    def _may_go_on(self) -> bool:
        return not self._stopping and asyncio.get_running_loop().time() < self._held_until

    async def _stop(self) -> None:
        self._stopping = True
        try:
            async with asyncio.timeout(_STOP_GRACE_S):
                if self._running is not None:
                    await self._running
                await self._leases.release(REMINDERS, self._holder)
        except Exception as error:
            log.warning("stopped without releasing the lease", error=for_log(error))
