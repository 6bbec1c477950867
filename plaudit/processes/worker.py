"""`plaudit worker`: the consumers as a process."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from time import monotonic

import structlog

from consumers.subscriptions import GRACE_S
from consumers.worker import RunningWorker, running_worker
from messaging.kafka.connection import is_broker_away
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.standstill import LOOK_EVERY_S, Standstill
from plaudit.config import Settings
from plaudit.entity_types.registered import registered_entity_types
from plaudit.processes.connections import STOP_S, connected, run_unless_stopped, watch_stop_signals
from plaudit.processes.memory import tune_memory
from plaudit.processes.probes import Probes
from plaudit.processes.telemetry import serve_telemetry
from plaudit.processes.waiting import prepare_servers
from storage.pymongo_internals import cancel_and_wait

log = structlog.get_logger()


async def run_worker(settings: Settings) -> None:
    """Consume until SIGTERM or SIGINT; then finish what is in hand."""
    entity_types = registered_entity_types(settings)
    stop = watch_stop_signals(at_most=STOP_S)
    async with connected(settings) as (database, publisher), AsyncExitStack() as stack:
        probes = stack.enter_context(serve_telemetry(settings, "worker"))

        async def start() -> RunningWorker:
            await prepare_servers(settings, database)
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
        running = await run_unless_stopped(start(), stop, again_s=GRACE_S + 1)
        if running is None:
            return
        looking = asyncio.create_task(_look_for_standstill(settings, running, probes))
        stack.push_async_callback(cancel_and_wait, looking)
        tune_memory()
        probes.is_ready = True
        log.info("worker ready")
        # Both go on for as long as the worker does.
        tasks = [running.housekeeping, looking]
        await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    log.info("worker stopped")


async def _look_for_standstill(settings: Settings, running: RunningWorker, probes: Probes) -> None:
    """Report partitions of this worker that make no progress to the probes, and new ones to the log."""
    lag, standstill = ConsumerLag(settings.kafka_connection(), settings.topics), Standstill()
    told = 0
    try:
        while True:
            try:
                standstill.observe(await lag.measure(), monotonic())
            except Exception as error:
                if not (isinstance(error, TimeoutError) or is_broker_away(error)):
                    # Measuring must not end the worker, which does its work without it.
                    log.exception("progress can't be measured")
                log.warning("progress can't be measured: Kafka unavailable", error=repr(error)[:300])
            probes.hindrances = standstill.describe(running.partitions())
            if len(probes.hindrances) > told:
                log.error("partitions make no progress", partitions=probes.hindrances)
            told = len(probes.hindrances)
            await asyncio.sleep(LOOK_EVERY_S)
    finally:
        await lag.stop()
