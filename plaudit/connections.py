"""What every process needs: the servers, and the wish to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from messaging.lost_connections import know_lost_connections
from messaging.publisher import Publisher
from plaudit.config import Settings
from plaudit.waiting import until_prepared
from storage.database import Database, connect


@asynccontextmanager
async def connected(
    settings: Settings, *, query_timeout: float | None = None
) -> AsyncIterator[tuple[Database, Publisher]]:
    """The database and a publisher, closed at the end. Neither is contacted before its first use."""
    know_lost_connections()
    client, database = connect(
        settings.mongo_uri(), settings.mongo.database, timeout=settings.mongo.timeout, query_timeout=query_timeout
    )
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


def stop_requested() -> asyncio.Task[bool]:
    """A task that ends at SIGTERM or SIGINT."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    return asyncio.create_task(event.wait())
