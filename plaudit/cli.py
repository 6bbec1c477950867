"""The command line. Exit codes: 0 done, 1 failed, 2 wrong usage."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn

import typer
import uvloop
from pydantic import ValidationError
from rich.console import Console

from plaudit.config import ConfigurationError, MissingAddressError, Settings
from plaudit.logs import configure_logs

app = typer.Typer(
    name="plaudit",
    help="Reviews, ratings and returns for commerce platforms.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ratings = typer.Typer(help="Check and repair ratings.", no_args_is_help=True)
app.add_typer(ratings, name="ratings")
reminders = typer.Typer(help="Look after review reminders.", no_args_is_help=True)
app.add_typer(reminders, name="reminders")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter("Use ISO 8601, like 2026-03-14T09:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Now = Annotated[
    datetime | None, typer.Option(parser=_moment, help="Another moment than now: ISO 8601, in UTC unless it says more.")
]

out = Console(soft_wrap=True, highlight=False)
errors = Console(stderr=True, soft_wrap=True, highlight=False)


def main() -> None:
    """Run the command that was asked for."""
    app()


@app.command()
def up() -> None:
    """Run everything; brings its own MongoDB and Kafka where no address is configured."""
    from plaudit.embedded import EmbeddedServerError  # here, so that other commands start faster
    from plaudit.up import StartError, run_up

    _run(lambda settings: run_up(settings, out.print), EmbeddedServerError, StartError)


@app.command()
def api() -> None:
    """Serve HTTP."""
    from plaudit.api_process import run_api

    _run(run_api)


@app.command()
def worker() -> None:
    """Consume from Kafka."""
    from plaudit.worker_process import run_worker

    _run(run_worker)


@app.command()
def scheduler() -> None:
    """Send review reminders by the cron expression of the settings."""
    from plaudit.scheduler_process import run_scheduler

    _run(run_scheduler)


@app.command()
def mailer() -> None:
    """Send the mails that others asked for, by SMTP."""
    from plaudit.mailer_process import run_mailer

    _run(run_mailer)


@app.command()
def init() -> None:
    """Create topics and indexes that are missing."""
    from plaudit.connections import run_init

    created = _run(run_init)
    out.print(f"Created {len(created)} topics: {', '.join(created)}" if created else "All topics were there.")
    out.print("All indexes are there.")


@app.command()
def demo() -> None:
    """Drive the specification's samples through a running service, and show each answer."""
    from plaudit.demo import DemoError, run_demo

    _run(lambda settings: run_demo(settings, out), DemoError)


@app.command()
def config() -> None:
    """Show the effective configuration, secrets hidden."""
    out.print_json(json.dumps(_settings().model_dump(mode="json")))


@ratings.command("verify")
def verify_ratings() -> None:
    """Compare every rating with a count of its reviews; exit code 1 if any differs."""
    from plaudit.ratings import verify

    differences = _run(lambda settings: verify(settings, out))
    if differences:
        raise typer.Exit(1)


@ratings.command("rebuild")
def rebuild_ratings(
    store: Annotated[str | None, typer.Option(help="Only the objects reviewed in this store.")] = None,
) -> None:
    """Have every rating counted anew by the workers."""
    from plaudit.ratings import rebuild

    _run(lambda settings: rebuild(settings, out, store))


@reminders.command("preview")
def preview_reminders(now: Now = None) -> None:
    """Show who would be reminded now, and why others would not; sends nothing."""
    from plaudit.reminders import show_preview

    _run(lambda settings: show_preview(settings, out, now))


@reminders.command("run")
def run_reminders(now: Now = None) -> None:
    """Send the reminders that are due now, without waiting for the scheduler."""
    from plaudit.reminders import run_once

    _run(lambda settings: run_once(settings, out, now))


def _run(work: Callable[[Settings], Coroutine[Any, Any, Any]], *failures: type[Exception]) -> Any:
    settings = _settings()
    configure_logs(settings.log)
    try:
        return uvloop.run(work(settings))
    except failures as error:
        _fail(str(error))
    except MissingAddressError as error:
        _fail(str(error))
    except ConfigurationError as error:
        _fail(f"The configuration is wrong. {error}", code=2)
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit(1)


def _settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        wrong = "; ".join(f"{_variable(detail['loc'])}: {detail['msg']}" for detail in error.errors())
        _fail(f"The configuration is wrong. {wrong}", code=2)


def _variable(location: tuple[int | str, ...]) -> str:
    return "PLAUDIT_" + "__".join(str(part).upper() for part in location)


def _fail(message: str, code: int = 1) -> NoReturn:
    errors.print(message, style="red", markup=False)
    sys.exit(code)
