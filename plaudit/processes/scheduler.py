"""`plaudit scheduler`: the scheduler of reminders as a process."""

import structlog

from messaging.kafka.publisher import Publisher
from plaudit.config import Settings
from plaudit.processes.connections import run_process
from plaudit.processes.probes import Probes
from scheduler.clock import ReminderClock
from scheduler.reminders import ReminderJob
from storage.database import Database
from storage.leases import LeaseRepository, new_holder
from storage.stores import StoreRepository

log = structlog.get_logger()


async def run_scheduler(settings: Settings) -> None:
    """Run the schedule until SIGTERM or SIGINT, then finish the batch in progress and release the lease.

    Raises ConfigurationError for an unusable sender: each mail would have it, and count towards the limits.
    """
    settings.smtp.checked_sender()
    if settings.smtp.needs_email:
        log.info("no PLAUDIT_SMTP__SENDER: no reminders for stores without `email` and for orders without a store")

    async def keep_time(database: Database, publisher: Publisher, probes: Probes) -> None:
        clock = ReminderClock(
            reminder_job(settings, database, publisher),
            StoreRepository(database),
            LeaseRepository(database),
            holder=new_holder(),
            lease_s=settings.scheduler.lease,
        )
        probes.is_ready = True
        log.info("scheduler ready")
        await clock.keep()

    await run_process(settings, "scheduler", keep_time)


def reminder_job(settings: Settings, database: Database, publisher: Publisher) -> ReminderJob:
    """The job that sends reminders, as configured. Raises ConfigurationError for an unusable sender."""
    return ReminderJob(
        database,
        publisher,
        settings.topics,
        sender=settings.smtp.checked_sender(),
        needs_email=settings.smtp.needs_email,
        token_keys=settings.review_tokens.keys(),
    )
