"""Runs commands, and turns their errors into messages and exit codes: 0 done, 1 failed, 2 wrong usage."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from importlib.metadata import version
from itertools import pairwise
from typing import Annotated, Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar, cast

import structlog
import typer
import uvloop
from pydantic import ValidationError
from typer.core import TyperGroup

from devservers.errors import EmbeddedServerError, WrongFolderError
from domain.timestamps import moment_in
from messaging.kafka.connection import UnusableConnectionError
from messaging.reading_errors import error_message
from plaudit.config import ConfigurationError, LogSettings, MissingAddressError, Settings
from plaudit.credentials import without_credentials
from plaudit.effective_configuration import UNREADABLE, loaded_settings, unknown_variables, wrong_settings
from plaudit.errors import NO_SPACE, CommandError, UsageError, short
from plaudit.processes.logs import configure_logs, is_json_wanted
from plaudit.terminal import Terminal, discard_output, errors, output, shown

log = structlog.get_logger()

PROCESSES: Final = frozenset({"api", "worker", "scheduler", "mailer", "init"})
"""Commands that are processes of the service: their output is its log."""

CANCEL_AGAIN_S: Final = 5.0
"""Seconds after which a cancelled command that still runs is cancelled again."""

_FILES_TO_WRITE: Final = ("-o", "--output", "--report")
"""Options that name a file to write."""

P = ParamSpec("P")
T = TypeVar("T")

out = Terminal()


class PlainCommands(TyperGroup):
    """Commands whose options are refused in our words. Typer reads them with Pydantic, and shows its messages."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            # The class of usage errors is private to Typer.
            if hasattr(error, "exit_code") and isinstance(error.__cause__, ValidationError):
                cast(Any, error).message = error_message(error.__cause__.errors()[0])
            raise


def command_group(help: str) -> typer.Typer:
    """A group of commands, like `plaudit keys`."""
    group = typer.Typer(help=help, no_args_is_help=True)
    # Without a callback, a group of one command would be that command.
    group.callback()(_no_options)
    return group


def _no_options() -> None:
    """A group has no options of its own."""


def show_version(is_wanted: bool) -> None:
    """Print the version of the installed package, and exit."""
    if is_wanted:
        out.print(f"plaudit {version('plaudit')}")
        raise typer.Exit


def run(work: Callable[[Settings], Coroutine[Any, Any, T]]) -> T:
    """Run a command; on an expected error, print it as one line and exit with its code."""
    settings = read_settings()
    configure_logs(settings.log)
    if not PROCESSES.isdisjoint(sys.argv[1:2]) and (unknown := unknown_variables(settings)):
        log.warning("unknown variables, which have no effect: `plaudit config` shows all settings", names=unknown)
    try:
        return uvloop.run(until_terminated(work(settings)))
    except CommandError as error:
        fail(str(error), error.exit_code)
    except (ConfigurationError, UnusableConnectionError, WrongFolderError) as error:
        fail_of_configuration(str(error))
    except (MissingAddressError, EmbeddedServerError) as error:
        fail(str(error))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(1)
    except Exception as error:
        # Imported here, so that other commands start faster.
        from aiokafka.errors import KafkaError
        from pymongo.errors import PyMongoError

        from messaging.topics import TopicNotMadeError
        from storage.database import is_refused
        from storage.indexes import IndexNotMadeError
        from storage.schema import SchemaRefusedError
        from storage.unit_of_work import is_unavailable

        if isinstance(error, IndexNotMadeError | TopicNotMadeError):
            fail(str(error))
        if isinstance(error, SchemaRefusedError):
            fail(str(error), code=2)
        if is_refused(error):
            fail(f"MongoDB denies access: {short(error)}. Check the user in PLAUDIT_MONGO__URI and its privileges.")
        if is_unavailable(error):
            fail(
                f"A server is unavailable: {short(error)}. `plaudit doctor` shows which one. Run this again once "
                "it is back."
            )
        # The log of a process needs the traceback; `main` reports errors of output and files.
        if sys.argv[1] in PROCESSES or not isinstance(error, KafkaError | PyMongoError):
            raise
        fail(str(error))


def run_tool(
    as_json: bool,
    tool: Callable[Concatenate[Settings, Terminal, P], Coroutine[Any, Any, T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run a tool with these arguments; with `as_json` print its result as one JSON document instead of lines."""
    with output(out, as_json=as_json) as console:
        return run(lambda settings: tool(settings, console, *args, **kwargs))


async def until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. SIGTERM, SIGHUP and Ctrl-C cancel it, again and again while it still runs; a second Ctrl-C
    ends it at once, even during a blocking read. Processes of the service install their own handlers."""
    loop, task, is_interrupted = asyncio.get_running_loop(), asyncio.current_task(), False

    def cancel() -> None:
        if task is not None:
            task.cancel()
            # PyMongo may swallow a cancellation: see `storage.pymongo_internals`.
            loop.call_later(CANCEL_AGAIN_S, cancel)

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            raise KeyboardInterrupt
        is_interrupted = True
        loop.call_soon_threadsafe(cancel)

    loop.add_signal_handler(signal.SIGTERM, cancel)
    # The terminal was closed. Under nohup the signal is ignored.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, cancel)
    # A handler of the loop can't run while the loop is blocked. Background jobs of a shell ignore Ctrl-C, and go on.
    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    try:
        return await work
    finally:
        signal.signal(signal.SIGINT, previous)


def read_settings() -> Settings:
    """The configuration; on an error, print it as one line and exit with code 2."""
    try:
        return loaded_settings()
    except UNREADABLE as error:
        fail_of_configuration(wrong_settings(error))


def open_closed_streams() -> None:
    """Open /dev/null for standard input, output and error where they are closed, so that commands run without them.
    Otherwise a socket could get one of these descriptors, and libuv aborts the process when it is closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free descriptor
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115 - stays open
            setattr(sys, name, stream)


def check_arguments(arguments: Sequence[str]) -> None:
    """Exit with code 2 if an argument isn't UTF-8, unless it names a file: neither server could take it."""
    for before, argument in pairwise(["", *arguments]):
        # Python decodes each byte that isn't UTF-8 to a lone surrogate.
        if any("\ud800" <= each <= "\udfff" for each in argument) and not _is_file(argument, before):
            fail(f"The argument {shown(argument)} is not UTF-8.", UsageError.exit_code)


def _is_file(argument: str, before: str) -> bool:
    """True if an argument, behind another one, names a file that exists, or one to write."""
    _, _, value = argument.partition("=")
    is_written = before in _FILES_TO_WRITE or argument.startswith(_FILES_TO_WRITE)
    return is_written or os.path.lexists(argument) or os.path.lexists(value)


def in_words(error: OSError) -> str:
    """The reason for the error, after the name of its file if there is one; and what to do if the disk is full."""
    reason = f"{error.strerror or error}."
    if error.errno in NO_SPACE:
        reason += " Free space there or choose another place, then run this again."
        return f"{error.filename or 'The output'} can't be written: {reason}"
    return reason if error.filename is None else f"{error.filename}: {reason}"


def fail(message: str, code: int = 1) -> NoReturn:
    """Exit with a message, without the credentials in its addresses; it is logged if `is_logged`, else printed."""
    if is_logged():
        log.error(without_credentials(message))
    else:
        errors.print(without_credentials(message), style="red")
    sys.exit(code)


def fail_of_configuration(message: str) -> NoReturn:
    """Exit with code 2 and a message about the configuration."""
    fail(f"Invalid configuration. {message}", code=UsageError.exit_code)


def say(message: str) -> None:
    """Print a message; in a process of the service whose log is JSON, log it."""
    if is_logged():
        log.info(message)
    else:
        out.print(message)


def print_unless_closed(line: str) -> None:
    """Print a line of a service that goes on if nobody reads its output any more, or if that fills a disk."""
    try:
        out.print(line)
    except (OSError, SystemExit):  # Rich exits if the reader of a pipe has gone
        discard_output()


def is_logged() -> bool:
    """True in a process of the service whose log is JSON: it must write nothing else."""
    return not PROCESSES.isdisjoint(sys.argv[1:2]) and is_json_wanted()


def run_logged(command: typer.Typer) -> NoReturn:
    """Run a process of the service, and log any error that ends it."""
    configure_logs(LogSettings(format="json"))
    try:
        code = command(standalone_mode=False)
    except Exception as error:
        # Usage errors have an exit code; their class is private to Typer.
        if isinstance(code := getattr(error, "exit_code", None), int):
            fail(str(error), code)
        log.critical("stopped by an error", exc_info=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def read_moment(text: str) -> datetime:
    """Parse the moment of an option. Raises BadParameter."""
    try:
        return moment_in(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter("Use ISO 8601, like 2026-03-14T09:00:00Z") from None


def read_name(text: str) -> str:
    """Check the name of an option. An empty one, as of an unset variable of a script, must not mean all. Raises
    BadParameter."""
    if not text.strip():
        raise typer.BadParameter("Must not be empty: leave the option out, or name one.")
    return text


Moment = Annotated[datetime | None, typer.Option(parser=read_moment, help="ISO 8601; in UTC unless it has an offset.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AlwaysJson = Annotated[bool, typer.Option("--json", help="Accepted, but without effect: the output is always JSON.")]
Now = Annotated[
    datetime | None,
    typer.Option(parser=read_moment, help="Use this time instead of now: ISO 8601; in UTC unless it has an offset."),
]
