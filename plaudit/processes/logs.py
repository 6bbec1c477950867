"""Logs: one line for each event, for people or as JSON."""

import logging
import sys
import threading
from types import TracebackType
from typing import Any, Final

import structlog
from opentelemetry import trace
from pydantic_settings import BaseSettings

from plaudit.config import LogSettings, Settings
from plaudit.credentials import without_credentials
from plaudit.terminal import Terminal, shown_lines

_REMEMBERED_LINES: Final = 1_000


class _UncheckedSettings(BaseSettings):
    """The log settings as written, valid or not."""

    model_config = Settings.model_config

    log: dict[str, Any] = {}


def is_json_wanted() -> bool:
    """True if the configured format is JSON, even where the rest of the configuration is wrong."""
    try:
        return _UncheckedSettings().log.get("format") == "json"
    except (ValueError, OSError):
        return False  # reported when the whole configuration is loaded


def configure_logs(settings: LogSettings) -> None:
    """Send our log and that of the libraries to standard error, in the configured format."""
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
        # Calls below the level cost nothing.
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    final: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if settings.format == "json":
        final += [structlog.processors.format_exc_info, _mask_credentials, structlog.processors.JSONRenderer()]
    else:
        # Tracebacks without local variables, which hold the texts of customers.
        plain = structlog.dev.plain_traceback
        terminal = Terminal(stderr=True)
        has_colours = sys.stderr.isatty() and not terminal.no_color and not terminal.is_dumb_terminal
        final += [
            structlog.processors.format_exc_info,
            _mask_credentials,
            _replace_control_characters,
            structlog.dev.ConsoleRenderer(colors=has_colours, exception_formatter=plain),
        ]
    handler = _Handler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=final))
    handler.addFilter(LeaderMoves())
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # FastStream installs handlers with its own format.
    for logger in list(root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
    logging.captureWarnings(True)
    if settings.format == "json":
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_thread
        sys.unraisablehook = _log_unraisable
    # Only warnings and errors of these libraries: the broker's log has the consumers' joining and leaving, too.
    for name in ("aiokafka", "pymongo", "uvicorn.access", "httpx"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # FastStream warns at every start that it leaves the creation of topics to us.
    logging.getLogger("faststream").setLevel(logging.ERROR)


class _Handler(logging.StreamHandler[Any]):
    """Writes to standard error; a record that can't be formatted is reported in a line of its own."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging wants
        """Report a record that couldn't be written, for example because its arguments don't fit its text."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError) or self.stream.closed:
            super().handleError(record)
            return
        text = f"a log record could not be formatted: {record.msg!r}"
        report = logging.LogRecord(record.name, logging.ERROR, record.pathname, record.lineno, text, None, None)
        self.stream.write(self.format(report) + self.terminator)
        self.flush()


def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if not isinstance(error, KeyboardInterrupt):
        logging.getLogger("plaudit").critical("stopped by an error", exc_info=(kind, error, traceback))


def _log_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and args.exc_type is not SystemExit:
        exc_info = (args.exc_type, args.exc_value, args.exc_traceback)
        logging.getLogger("plaudit").error("a thread was stopped by an error", exc_info=exc_info)


def _log_unraisable(args: "sys.UnraisableHookArgs") -> None:
    error = args.exc_value or args.exc_type()
    text = args.err_msg or "an exception that can't be raised"
    logging.getLogger("plaudit").error(text, exc_info=(args.exc_type, error, args.exc_traceback))


class Repeats(logging.Filter):
    """Drops repeated lines of aiokafka: it logs some a thousand times a second while Kafka is unavailable.

    A line passes again after `pause_s` seconds.
    """

    def __init__(self, pause_s: float = 10.0) -> None:
        super().__init__("aiokafka")
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


class LeaderMoves(logging.Filter):
    """Drops aiokafka's lines about partitions without a leader, as each new one is for a moment: it retries at once.

    If they continue for more than `patience_s` seconds, they pass.
    """

    def __init__(self, patience_s: float = 20.0) -> None:
        super().__init__("aiokafka")
        self._patience_s = patience_s
        self._first = self._latest = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record may pass; all others always may."""
        if not super().filter(record) or "NotLeaderForPartitionError" not in record.getMessage():
            return True
        if record.created - self._latest >= self._patience_s:
            self._first = record.created
        self._latest = record.created
        return record.created - self._first >= self._patience_s


def _add_trace_id(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
    return event


def _mask_credentials(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Mask the credentials in addresses: libraries log the address that they were given."""
    for name, value in event.items():
        if isinstance(value, str) and ("://" in value or "@" in value):
            event[name] = without_credentials(value)
    return event


def _replace_control_characters(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Replace what a terminal would obey; newlines stay, because tracebacks have several lines."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = shown_lines(value)
    return event
