"""Logs: one line for each thing that happened, for people or as JSON."""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog
from opentelemetry import trace

from plaudit.cli.terminal import shown_lines
from plaudit.config import LogSettings

_REMEMBERED_LINES: Final = 1_000


def configure_logs(settings: LogSettings) -> None:
    """Send our own log and that of the libraries to standard error in the form that is configured."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_trace_id,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        # What is below the level costs nothing.
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    final: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if settings.format == "json":
        final += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # Tracebacks without local variables: they hold what customers wrote.
        plain = structlog.dev.plain_traceback
        final += [
            structlog.processors.format_exc_info,
            _neutralise,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain),
        ]
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=final))
    handler.addFilter(Repeats("aiokafka"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # Libraries speak only of trouble: the consumers' joining and leaving is in the broker's log, too.
    for name in ("aiokafka", "pymongo", "uvicorn.access", "httpx"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # FastStream warns at every start that it leaves the creation of topics to us.
    logging.getLogger("faststream").setLevel(logging.ERROR)


class Repeats(logging.Filter):
    """Holds back what a library has just said: aiokafka has some lines a thousand times a second while Kafka is away.

    A line passes again once `pause_s` seconds are over.
    """

    def __init__(self, library: str, pause_s: float = 10.0) -> None:
        super().__init__(library)
        self._pause_s = pause_s
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record may pass; those of other libraries always may."""
        if not super().filter(record):
            return True
        line = record.getMessage()
        last = self._passed.get(line)
        if last is not None and record.created - last < self._pause_s:
            return False
        if len(self._passed) >= _REMEMBERED_LINES:
            self._passed.clear()
        self._passed[line] = record.created
        return True


def _add_trace_id(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
    return event


def _neutralise(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape what a terminal would obey; lines stay lines, for tracebacks have several."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = shown_lines(value)
    return event
