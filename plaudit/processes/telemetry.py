"""Telemetry of a process: build, health, metrics and traces."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version

import structlog

from messaging.metrics import TASKS, name_build
from plaudit.config import Settings
from plaudit.processes.listening import cannot_listen
from plaudit.processes.probes import Probes, serve_health
from plaudit.processes.traces import export_traces

log = structlog.get_logger()


@contextmanager
def serve_telemetry(settings: Settings, process: str) -> Iterator[Probes]:
    """Serve health and metrics, and export traces, until the block ends; the process sets the probes.

    Raises ConfigurationError if the file for traces can't be written, and what `cannot_listen` returns.
    """
    release = version("plaudit")
    name_build(release, process)
    loop = asyncio.get_running_loop()
    TASKS.set_function(lambda: len(asyncio.all_tasks(loop)))
    probes = Probes(loop)
    with export_traces(settings.traces, process, release), ExitStack() as stack:
        if port := settings.metrics.port:
            try:
                stack.enter_context(serve_health(probes, settings.metrics.host, port))
            except OSError as error:
                why = f"Can't listen on the port PLAUDIT_METRICS__PORT={port}: {error.strerror}."
                raise cannot_listen(why, error) from error
            log.info("serving metrics", host=settings.metrics.host, port=port)
        yield probes
