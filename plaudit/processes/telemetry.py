"""What a process lets others see of it: its build, its health, its metrics, its traces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version

import structlog

from messaging.metrics import TASKS, name_build
from plaudit.config import ConfigurationError, MetricsSettings, Settings
from plaudit.processes.probes import Probes, answered
from plaudit.processes.traces import traced

log = structlog.get_logger()


@contextmanager
def signals(settings: Settings, process: str) -> Iterator[Probes]:
    """Show the process until the block ends; it says by the probes that it is ready.

    Raises ConfigurationError when the port for metrics is taken.
    """
    release = version("plaudit")
    name_build(release, process)
    loop = asyncio.get_running_loop()
    TASKS.set_function(lambda: len(asyncio.all_tasks(loop)))
    probes = Probes(loop)
    with traced(settings.traces, process, release), ExitStack() as stack:
        if settings.metrics.port:
            _answer(probes, settings.metrics, stack)
        yield probes


def _answer(probes: Probes, settings: MetricsSettings, stack: ExitStack) -> None:
    try:
        stack.enter_context(answered(probes, settings.host, settings.port))
    except OSError as error:
        raise ConfigurationError(f"PLAUDIT_METRICS__PORT {settings.port} can't be listened on: {error}.") from error
    log.info("serving metrics", host=settings.host, port=settings.port)
