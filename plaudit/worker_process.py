"""`plaudit worker`: the consumers as a process."""

from __future__ import annotations

import asyncio

import structlog

from consumers.worker import running_worker
from plaudit.config import Settings
from plaudit.connections import connected, stop_requested
from plaudit.waiting import until_prepared

log = structlog.get_logger()


async def run_worker(settings: Settings) -> None:
    """Consume until SIGTERM or SIGINT; then finish what is in hand."""
    stop = stop_requested()
    async with connected(settings) as (database, publisher):
        preparing = asyncio.create_task(until_prepared(settings, database))
        await asyncio.wait([preparing, stop], return_when=asyncio.FIRST_COMPLETED)
        if not preparing.done():
            preparing.cancel()
            return
        preparing.result()
        async with running_worker(settings.kafka_connection(), settings.topics, database, publisher) as housekeeping:
            log.info("worker ready")
            await asyncio.wait([housekeeping, stop], return_when=asyncio.FIRST_COMPLETED)
            if housekeeping.done():
                housekeeping.result()
    log.info("worker stopped")
