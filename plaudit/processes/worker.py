"""`plaudit worker`: the consumers as a process."""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Final

import structlog

from consumers.services import Services
from consumers.worker import RunningWorker, running_worker
from messaging.kafka.connection import is_broker_away
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.publisher import Publisher
from messaging.kafka.standstill import LOOK_EVERY_S, Standstill
from messaging.server_errors import for_log
from messaging.topics import CONSUMED, Topic
from plaudit.config import Settings
from plaudit.entity_types.registered import registered_entity_types
from plaudit.processes.connections import opened_images, run_process
from plaudit.processes.memory import YOUNG_OF_BATCHES, tune_memory
from plaudit.processes.probes import Probes
from plaudit.processes.waiting import make_keys, patiently
from storage.database import Database
from storage.pymongo_internals import cancel_and_wait

log = structlog.get_logger()


READ_BY_WORKERS: Final = frozenset(CONSUMED) - {Topic.MAIL_COMMANDS}
_PAUSE_S: Final = 0.5


async def run_worker(settings: Settings, only: Collection[Topic]) -> bool:
    """Consume until SIGTERM or SIGINT, then finish the work in progress. With `only`: only these topics, until all
    their records are applied; False if it was stopped before."""
    entity_types = registered_entity_types(settings)
    image_files = opened_images(settings)
    is_done = not only

    async def consume(database: Database, publisher: Publisher, probes: Probes) -> None:
        nonlocal is_done
        await make_keys(settings, database)
        token_keys, erasure_keys = settings.review_tokens.keys(), settings.privacy.keys()
        services = Services(database, publisher, settings.topics, image_files, entity_types, token_keys, erasure_keys)
        connection, remember = settings.kafka_connection(), timedelta(days=settings.remember_days)
        async with running_worker(services, connection, remember=remember, only=only or READ_BY_WORKERS) as running:
            tune_memory(YOUNG_OF_BATCHES)
            probes.is_ready = True
            log.info("worker ready")
            watching = asyncio.create_task(_watch_progress(settings, running, probes))
            reading = [asyncio.create_task(_wait_until_read(settings, only))] if only else []
            try:
                # All but `reading` last as long as the worker.
                lasting = [running.housekeeping, running.relay, watching, *reading]
                ended, _ = await asyncio.wait(lasting, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
                is_done = True
            finally:
                await cancel_and_wait(watching, *reading)

    await run_process(settings, "worker", consume)
    return is_done


async def _wait_until_read(settings: Settings, topics: Collection[Topic]) -> None:
    """Wait until all records of these topics are applied."""
    async with ConsumerLag(settings.kafka_connection(), settings.topics) as lag:
        await until_read(lag, topics)


async def until_read(lag: ConsumerLag, topics: Collection[Topic]) -> None:
    """Wait until all records of these topics, and those that they pass on to one another meanwhile, are applied."""
    # Each topic after those that pass records on to it; replays may go to any topic.
    unread = [topic for topic in (Topic.DEAD_LETTER_COMMANDS, *CONSUMED) if topic in topics]
    while unread:
        if await patiently("Kafka", partial(lag.is_read, unread[0])):
            del unread[0]
        else:
            await asyncio.sleep(_PAUSE_S)


async def _watch_progress(settings: Settings, running: RunningWorker, probes: Probes) -> None:
    """Report partitions of this worker without progress to the probes, and new ones to the log."""
    standstill, logged = Standstill(), 0
    async with ConsumerLag(settings.kafka_connection(), settings.topics) as lag:
        while True:
            try:
                standstill.observe(await lag.measure(), monotonic())
            except Exception as error:
                if not is_broker_away(error):
                    # A failed measurement must not end the worker, which works without it.
                    log.exception("progress can't be measured")
                else:
                    log.warning("progress can't be measured: Kafka unavailable", error=for_log(error))
            probes.failures = standstill.describe(running.partitions())
            if len(probes.failures) > logged:
                log.error("partitions make no progress", partitions=probes.failures)
            logged = len(probes.failures)
            await asyncio.sleep(LOOK_EVERY_S)
