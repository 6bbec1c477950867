"""Logs: one line for each thing that happened, for people or as JSON."""

from __future__ import annotations

import logging
import sys

import structlog
from opentelemetry import trace

from plaudit.config import LogSettings


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
        final += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    handler = logging.StreamHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=final))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # Libraries speak only of trouble: the consumers' joining and leaving is in the broker's log, too.
    for name in ("aiokafka", "apscheduler", "pymongo", "uvicorn.access", "httpx"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # FastStream warns at every start that it leaves the creation of topics to us.
    logging.getLogger("faststream").setLevel(logging.ERROR)


def _add_trace_id(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
    return event
