"""The reminder clock without servers: an interrupted run is repeated, not left until the next scheduled time."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from pymongo.errors import AutoReconnect
from structlog.testing import capture_logs

import scheduler.clock
from domain.stores import GeneralSettings, ReminderSettings
from scheduler.clock import ReminderClock
from scheduler.reminders import RunReport
from storage.leases import Hold
from storage.pymongo_internals import cancel_and_wait
from tests.support.waiting import eventually

LEASE_S = 0.3


@dataclass
class Leases:
    """A lease without competitors, in a database that can be unavailable."""

    done: datetime
    is_away: bool = False
    is_new: bool = False
    cron: str | None = None
    since: datetime | None = None
    ahead: timedelta = timedelta()
    """The lead of this process's clock over that of the server."""

    async def now(self) -> datetime:
        return datetime.now(UTC) - self.ahead

    async def take(self, name: str, holder: str, seconds: float) -> Hold:
        if self.is_away:
            raise AutoReconnect("away")
        is_new, self.is_new = self.is_new, False
        return Hold(is_new, self.done, self.cron, self.since)

    async def note_schedule(self, name: str, cron: str | None) -> None:
        pass

    async def note_done(self, name: str, at: datetime) -> None:
        self.done = at

    async def release(self, name: str, holder: str) -> None:
        pass


@dataclass
class Stores:
    cron: str

    async def general(self) -> GeneralSettings:
        return GeneralSettings(reminder=ReminderSettings(enabled=True, cron=self.cron))


@dataclass
class Job:
    """A job that runs until `may_end` is set or it may not go on, and returns the given report."""

    report: RunReport = field(default_factory=RunReport)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    runs: int = 0
    cut_off: int = 0
    at: datetime | None = None

    async def run(self, now: datetime, may_go_on: Callable[[], bool]) -> RunReport:
        self.runs += 1
        self.at = now
        while not self.may_end.is_set() and may_go_on():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.may_end.wait(), LEASE_S / 30)
        self.cut_off += not may_go_on()
        return self.report


async def test_run_interrupted_by_an_outage_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler.clock, "_REPEAT_DELAY", timedelta(seconds=LEASE_S))
    begun = datetime.now(UTC)
    daily = begun - timedelta(minutes=30)
    leases, job = Leases(done=begun - timedelta(days=1)), Job()
    stores = Stores(f"{daily.minute} {daily.hour} * * *")
    clock = ReminderClock(cast(Any, job), cast(Any, stores), cast(Any, leases), holder="a", lease_s=LEASE_S)
    clock.next_run = begun
    clock._checked_cron = clock._cron = stores.cron
    keeping = asyncio.create_task(clock.keep())
    try:
        await eventually(lambda: job.runs)
        leases.is_away = True
        await eventually(lambda: job.cut_off)
        leases.is_away = False
        job.may_end.set()
        await eventually(lambda: leases.done >= begun)
        assert job.runs >= 2
    finally:
        await cancel_and_wait(keeping, again_s=LEASE_S)
    assert clock.next_run is not None
    assert clock.next_run.hour == daily.hour


@pytest.mark.parametrize(
    ("report", "is_done"),
    [
        (RunReport(), True),
        (RunReport(damaged=3), True),
        (RunReport(reminders=1, failed=3), True),
        (RunReport(failed=3), False),
        (RunReport(reminders=1, is_cut=True), False),
    ],
)
async def test_failed_run_is_not_done_and_is_logged(report: RunReport, is_done: bool) -> None:
    now = datetime.now(UTC)
    leases, job = Leases(done=now - timedelta(days=1)), Job(report)
    job.may_end.set()
    clock = ReminderClock(cast(Any, job), cast(Any, None), cast(Any, leases), holder="a", lease_s=LEASE_S)
    clock._held_until = asyncio.get_running_loop().time() + 60
    with capture_logs() as logs:
        await clock._run(now)
    assert (leases.done == job.at) is is_done
    expected = ("info", "reminders sent") if is_done else ("error", "reminder run failed")
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [expected]
    assert (logs[0]["failed"], logs[0]["damaged"], logs[0]["is_cut"]) == (report.failed, report.damaged, report.is_cut)


async def test_run_uses_the_clock_of_the_server() -> None:
    """By a clock that is ahead, it would send reminders early, for good, and seem to have run in the future."""
    leases, job = Leases(done=datetime(2026, 1, 1, tzinfo=UTC), ahead=timedelta(days=10)), Job()
    job.may_end.set()
    clock = ReminderClock(cast(Any, job), cast(Any, None), cast(Any, leases), holder="a", lease_s=LEASE_S)
    clock._held_until = asyncio.get_running_loop().time() + 60
    await clock._run(datetime.now(UTC))
    assert leases.done == job.at
    assert leases.done < datetime.now(UTC) - timedelta(days=9)


async def test_slightly_early_run_counts_as_that_of_its_time() -> None:
    planned = datetime.now(UTC)
    leases, job = Leases(done=planned - timedelta(days=1), ahead=timedelta(seconds=2)), Job()
    job.may_end.set()
    clock = ReminderClock(cast(Any, job), cast(Any, None), cast(Any, leases), holder="a", lease_s=LEASE_S)
    clock._held_until = asyncio.get_running_loop().time() + 60
    await clock._run(planned)
    assert leases.done == job.at == planned


async def test_plan_of_a_clock_that_was_ahead_is_corrected() -> None:
    leases, job = Leases(done=datetime.now(UTC)), Job()
    clock = ReminderClock(cast(Any, job), cast(Any, None), cast(Any, leases), holder="a", lease_s=LEASE_S)
    clock._cron = "*/15 * * * *"
    clock.next_run = datetime.now(UTC) + timedelta(days=1)
    clock._start_if_due()
    assert clock.next_run <= datetime.now(UTC) + timedelta(minutes=15)
    assert job.runs == 0


def a_time(minutes_ago: float) -> str:
    """The cron expression of the time of day that was this many minutes ago."""
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return f"{at.minute} {at.hour} * * *"


@pytest.mark.parametrize(
    ("since", "noted", "runs"), [(30, None, 1), (None, None, 1), (5, None, 0), (30, "0 0 1 1 *", 0), (30, "", 0)]
)
async def test_missed_run_is_made_up_for_if_it_was_scheduled(since: int | None, noted: str | None, runs: int) -> None:
    now, cron = datetime.now(UTC), a_time(minutes_ago=10)
    leases = Leases(done=now - timedelta(days=1), is_new=True)
    if since is not None:
        leases.cron, leases.since = (cron if noted is None else noted or None), now - timedelta(minutes=since)
    job = Job()
    job.may_end.set()
    clock = ReminderClock(cast(Any, job), cast(Any, Stores(cron)), cast(Any, leases), holder="a", lease_s=LEASE_S)
    keeping = asyncio.create_task(clock.keep())
    await eventually(lambda: clock.next_run)
    await cancel_and_wait(keeping, again_s=LEASE_S)
    assert job.runs == runs


async def test_lease_lost_for_a_while_makes_up_for_nothing_later() -> None:
    leases, stores, job = Leases(done=datetime.now(UTC) - timedelta(days=1)), Stores(a_time(minutes_ago=-600)), Job()
    job.may_end.set()
    clock = ReminderClock(cast(Any, job), cast(Any, stores), cast(Any, leases), holder="a", lease_s=LEASE_S)
    keeping = asyncio.create_task(clock.keep())
    planned = await eventually(lambda: clock.next_run)
    leases.is_new = True
    await eventually(lambda: not leases.is_new)
    stores.cron = a_time(minutes_ago=7)
    await eventually(lambda: clock.next_run != planned)
    await cancel_and_wait(keeping, again_s=LEASE_S)
    assert job.runs == 0
