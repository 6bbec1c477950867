"""The processes of the service, put together from their parts: `api`, `worker`, `init`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import uvicorn
from api.app import create_app
from api.services import Services

from consumers.worker import running_worker
from messaging.envelope import Envelope
from messaging.publisher import Publisher
from plaudit.config import Settings
from plaudit.waiting import until_prepared
from storage.database import Database, connect

log = structlog.get_logger()

_GRACE_S = 8


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[tuple[Database, Publisher]]:
    """The database and a publisher, closed at the end. Neither is contacted before its first use."""
    client, database = connect(settings.mongo_uri(), settings.mongo.database, timeout=settings.mongo.timeout)
    publisher = Publisher(settings.kafka_connection())
    try:
        yield database, publisher
    finally:
        await publisher.stop()
        await client.close()


async def run_init(settings: Settings) -> list[str]:
    """Create topics and indexes, and name the topics that were missing."""
    async with connected(settings) as (database, _):
        return await until_prepared(settings, database)


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


async def run_api(settings: Settings) -> None:
    """Serve HTTP until SIGTERM or SIGINT; then answer what is in hand."""
    async with connected(settings) as (database, publisher):
        services = Services.over(database, publisher, settings.topics, Envelope("/plaudit/api"))
        config = uvicorn.Config(
            create_app(services),
            host=settings.http.host,
            port=settings.http.port,
            loop="none",
            http="httptools",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        # Topics must exist before the first message; the facade answers 503 until Kafka is there.
        preparing = asyncio.create_task(until_prepared(settings, database))
        try:
            await uvicorn.Server(config).serve()
        finally:
            preparing.cancel()


def stop_requested() -> asyncio.Task[bool]:
    """A task that ends at SIGTERM or SIGINT."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    return asyncio.create_task(event.wait())
