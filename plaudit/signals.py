"""What a process lets others see of it: its build, its metrics, its traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import structlog
from prometheus_client import start_http_server

from messaging.metrics import REGISTRY, name_build
from plaudit.config import ConfigurationError, MetricsSettings, Settings
from plaudit.traces import traced

log = structlog.get_logger()


@contextmanager
def signals(settings: Settings, process: str, *, has_http: bool = False) -> Iterator[None]:
    """Show the process until the block ends. One that serves HTTP anyway shows its metrics there.

    Raises ConfigurationError when the port for metrics is taken.
    """
    release = version("plaudit")
    name_build(release, process)
    with traced(settings.traces, process, release):
        if has_http:
            yield
        else:
            with _served(settings.metrics):
                yield


@contextmanager
def _served(settings: MetricsSettings) -> Iterator[None]:
    """Serve the metrics by a thread of their own, so that they answer also while the event loop is busy."""
    if settings.port == 0:
        yield
        return
    try:
        server, thread = start_http_server(settings.port, settings.host, REGISTRY)
    except OSError as error:
        raise ConfigurationError(f"PLAUDIT_METRICS__PORT {settings.port} can't be listened on: {error}.") from error
    log.info("serving metrics", host=settings.host, port=settings.port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
