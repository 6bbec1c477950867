"""`plaudit api`: the facade as a process."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Final

import uvicorn

from api.app import create_app
from api.services import Services
from plaudit.config import Settings
from plaudit.connections import connected
from plaudit.waiting import until_prepared

_GRACE_S: Final = 8


async def run_api(settings: Settings) -> None:
    """Serve HTTP until SIGTERM or SIGINT; then answer what is in hand."""
    async with connected(settings) as (database, publisher):
        services = Services.on(
            database,
            publisher,
            settings.topics,
            version=version("plaudit"),
            max_body_bytes=settings.http.max_body_bytes,
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
        try:
            await uvicorn.Server(config).serve()
        finally:
            preparing.cancel()
