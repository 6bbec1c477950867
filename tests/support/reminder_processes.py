"""Reminder schedulers as processes that a test can kill, started fast by a fork server with all imports."""

import asyncio
import os
from dataclasses import replace
from datetime import datetime
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Event

from scheduler.clock import ReminderClock
from storage.leases import LeaseRepository
from storage.stores import StoreRepository

from .forks import FORKS
from .reminders import connected_job
from .service import Service


def start_run(service: Service, now: datetime) -> tuple[ForkServerProcess, Event]:
    """A process that runs the job once, and an event that is set when it starts."""
    is_ready = FORKS.Event()
    return _start(_run, service, now, is_ready), is_ready


def start_clock(service: Service, lease_s: float) -> ForkServerProcess:
    """A process that runs the job on schedule; its pid is the holder of the lease."""
    return _start(_run_clock, service, lease_s)


def _start(target: object, service: Service, *arguments: object) -> ForkServerProcess:
    process = FORKS.Process(target=target, args=(replace(service, processes={}), *arguments))  # type: ignore[arg-type]
    process.start()
    return process


def _run(service: Service, now: datetime, is_ready: Event) -> None:
    async def run() -> None:
        async with connected_job(service) as (database, job):
            await database.command("ping")
            is_ready.set()
            await job.run(now)

    asyncio.run(run())


def _run_clock(service: Service, lease_s: float) -> None:
    async def run_clock() -> None:
        async with connected_job(service) as (database, job):
            stores, leases = StoreRepository(database), LeaseRepository(database)
            await ReminderClock(job, stores, leases, holder=str(os.getpid()), lease_s=lease_s).keep()

    asyncio.run(run_clock())
