"""`plaudit worker`: the consumers as a process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import structlog

from consumers.subscriptions import GRACE_S
from consumers.worker import running_worker
from plaudit.config import Settings
from plaudit.connections import STOP_S, connected, stop_requested
from plaudit.entity_types import registered_entity_types
from plaudit.memory import settle
from plaudit.signals import signals
from plaudit.waiting import until_prepared
from storage.cancellation import ended

log = structlog.get_logger()


async def run_worker(settings: Settings) -> None:
    """Consume until SIGTERM or SIGINT; then finish what is in hand."""
    entity_types = registered_entity_types(settings)
    stop = stop_requested(at_most=STOP_S)
    async with connected(settings) as (database, publisher), AsyncExitStack() as stack:
        probes = stack.enter_context(signals(settings, "worker"))

        async def start() -> asyncio.Task[None]:
            await until_prepared(settings, database)
            worker = running_worker(
                settings.kafka_connection(),
                settings.topics,
                database,
                publisher,
                entity_types,
                remember=timedelta(days=settings.remember_days),
            )
            return await stack.enter_async_context(worker)

        # Servers that are away and rebalances can make a start long; a stop doesn't wait for it.
        starting = asyncio.create_task(start())
        await asyncio.wait([starting, stop], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            await ended(starting, again_s=GRACE_S + 1)
            return
        housekeeping = starting.result()
        settle()
        probes.is_ready = True
        log.info("worker ready")
        await asyncio.wait([housekeeping, stop], return_when=asyncio.FIRST_COMPLETED)
        if housekeeping.done():
            housekeeping.result()
    log.info("worker stopped")
