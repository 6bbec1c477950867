"""`plaudit scheduler`: the scheduler of reminders as a process."""

from __future__ import annotations

import asyncio
import os
import socket
from uuid import uuid4

import structlog

from plaudit.config import Settings
from plaudit.processes.connections import STOP_S, connected, run_unless_stopped, watch_stop_signals
from plaudit.processes.probes import Probes
from plaudit.processes.telemetry import serve_telemetry
from plaudit.processes.waiting import prepare_servers
from scheduler.clock import GRACE_S, ReminderClock
from scheduler.reminders import ReminderJob
from storage.leases import LeaseRepository
from storage.stores import StoreRepository

log = structlog.get_logger()


async def run_scheduler(settings: Settings) -> None:
    """Keep time until SIGTERM or SIGINT; then finish what is in hand, and let others take over."""
    stop = watch_stop_signals(at_most=STOP_S)
    with serve_telemetry(settings, "scheduler") as probes:
        await _keep_time(settings, stop, probes)
    log.info("scheduler stopped")


async def _keep_time(settings: Settings, stop: asyncio.Task[bool], probes: Probes) -> None:
    async with connected(settings) as (database, publisher):

        async def keep_time() -> None:
            await prepare_servers(settings, database)
            clock = ReminderClock(
                ReminderJob(database, publisher, settings.topics, sender=settings.smtp.sender),
                StoreRepository(database),
                LeaseRepository(database),
                holder=f"{socket.gethostname()}/{os.getpid()}/{uuid4().hex[:8]}",
                lease_s=settings.scheduler.lease,
            )
            probes.is_ready = True
            log.info("scheduler ready")
            await clock.keep()

        await run_unless_stopped(keep_time(), stop, again_s=GRACE_S + 1)
