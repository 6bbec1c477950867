"""`plaudit api`: the facade as a process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from importlib.metadata import version
from typing import Final

import uvicorn

from api.app import create_app
from api.services import Services
from messaging.lag import ConsumerLag
from plaudit.authentication import authenticator, check_authentication
from plaudit.config import Settings
from plaudit.connections import connected, stop_requested
from plaudit.entity_types import registered_entity_types
from plaudit.signals import signals
from plaudit.waiting import until_prepared

_GRACE_S: Final = 8


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn raises them again once it has stopped, and the process would end by them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def run_api(settings: Settings) -> None:
    """Serve HTTP until SIGTERM or SIGINT; then answer what is in hand."""
    check_authentication(settings)
    entity_types = registered_entity_types(settings)
    stop = stop_requested()
    async with connected(settings) as (database, publisher), AsyncExitStack() as stack:
        stack.enter_context(signals(settings, "api", has_http=True))
        lag = ConsumerLag(settings.kafka_connection(), settings.topics)
        stack.push_async_callback(lag.stop)
        services = Services.on(
            database,
            publisher,
            settings.topics,
            version=version("plaudit"),
            max_body_bytes=settings.http.max_body_bytes,
            entity_types=entity_types,
            lag=lag,
            authenticator=authenticator(settings, database),
        )
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
        server = _Server(config)
        stop.add_done_callback(lambda _: server.handle_exit(signal.SIGTERM, None))
        try:
            await server.serve()
        except SystemExit as failed:
            # uvicorn has a code of its own for a start that failed, a port that is taken among others: ours is 1.
            raise SystemExit(1) from failed
        finally:
            preparing.cancel()
            stop.cancel()
