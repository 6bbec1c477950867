"""The command line. Exit codes: 0 done, 1 failed, 2 wrong usage."""

import io
import logging
import sys
from typing import Annotated

import typer
import uvloop

from domain.quantities import quantity
from messaging.topics import Topic
from plaudit.cli import audit, dead_letters, keys, moderation_rules, privacy, reviews, topics
from plaudit.cli.command_line import (
    PROCESSES,
    AlwaysJson,
    AsJson,
    Now,
    PlainCommands,
    check_arguments,
    command_group,
    fail,
    fail_of_configuration,
    in_words,
    is_logged,
    open_closed_streams,
    out,
    print_unless_closed,
    read_settings,
    run,
    run_logged,
    run_tool,
    say,
    show_version,
)
from plaudit.config import ConfigurationError, LogSettings
from plaudit.effective_configuration import effective_configuration
from plaudit.processes.logs import configure_logs
from plaudit.terminal import discard_output, errors, output, print_json

app = typer.Typer(
    name="plaudit",
    cls=PlainCommands,
    help="Reviews, ratings and returns for commerce platforms.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ratings = command_group("Check and repair ratings.")
app.add_typer(ratings, name="ratings")
reminders = command_group("Preview and send review reminders.")
app.add_typer(reminders, name="reminders")
app.add_typer(audit.app, name="audit")
app.add_typer(dead_letters.app, name="dlq")
app.add_typer(keys.app, name="keys")
app.add_typer(privacy.app, name="privacy")
app.add_typer(reviews.app, name="reviews")
app.add_typer(moderation_rules.app, name="rules")
app.add_typer(topics.app, name="topics")
app.command("import")(reviews.import_reviews)
app.command("export")(reviews.export_reviews)


@app.callback()
def plaudit(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Reviews, ratings and returns for commerce platforms."""


def main() -> None:
    """Run the command line."""
    open_closed_streams()
    check_arguments(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # in any locale: reviews are in all languages, and JSON is UTF-8
    if is_logged():
        run_logged(app)
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:
        discard_output()
        if PROCESSES.intersection(sys.argv[1:2]):
            raise
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        fail(in_words(error))


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False) -> None:
    """Check configuration, servers, topics, indexes and backlogs, and say what to do; exit code 1 if any failed."""
    from plaudit.tools.doctor.examination import examine  # so that other commands start faster

    # The clients would log at length what a finding says in one line.
    configure_logs(LogSettings(level="error"))
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    with output(out, as_json=as_json) as console:
        is_well = uvloop.run(examine(console))
    if not is_well:
        raise typer.Exit(1)


@app.command()
def up() -> None:
    """Run everything, with an embedded MongoDB and Kafka where no address is configured."""
    from plaudit.processes.up import run_up

    run(lambda settings: run_up(settings, print_unless_closed))


@app.command()
def api() -> None:
    """Serve HTTP."""
    from plaudit.processes.api import run_api

    run(run_api)


@app.command()
def worker(
    only: Annotated[
        list[Topic] | None,
        typer.Option(
            show_choices=False, metavar="TOPIC", help="Consume only this topic, and exit at its end; can be repeated."
        ),
    ] = None,
) -> None:
    """Consume from Kafka."""
    from plaudit.processes.worker import READ_BY_WORKERS, run_worker

    wanted = set(only or ())
    if others := wanted - READ_BY_WORKERS:
        raise typer.BadParameter(f"Workers don't consume {' and '.join(sorted(others))}.", param_hint="--only")
    if Topic.MODERATION_COMMANDS in wanted and Topic.REVIEW_CHANGES not in wanted:
        text = "moderation-commands are applied through review-changes: add --only review-changes."
        raise typer.BadParameter(text, param_hint="--only")
    if not run(lambda settings: run_worker(settings, only or ())):
        fail("Stopped before the ends of these topics were reached. Run this again.")


@app.command()
def scheduler() -> None:
    """Send review reminders on the cron schedule in the settings."""
    from plaudit.processes.scheduler import run_scheduler

    run(run_scheduler)


@app.command()
def mailer() -> None:
    """Send the mails of mail commands by SMTP."""
    from plaudit.processes.mailer import run_mailer

    run(run_mailer)


@app.command()
def init(as_json: AsJson = False) -> None:
    """Create missing topics, indexes and keys, and shard the collections on a sharded cluster."""
    from plaudit.processes.connections import run_init

    created, sharded = run(run_init)
    if as_json:
        print_json(out, {"createdTopics": created, "shardedCollections": sharded})
        return
    say(f"Created {quantity(len(created), 'topic')}: {', '.join(created)}" if created else "All topics exist.")
    say("All indexes exist.")
    if sharded:
        say(f"Sharded collections: {', '.join(sharded)}")


@app.command()
def migrate(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the changes without making them.")] = False,
    compatible: Annotated[
        bool,
        typer.Option(
            "--compatible", help="Only steps that are compatible with running processes of the previous version."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Migrate the database to this version's schema and repair damaged documents, while the service runs.

    If it is interrupted, the next run continues where this one stopped.
    """
    from plaudit.tools.migrate import migrate as work

    run_tool(as_json, work, errors, dry_run=dry_run, compatible=compatible)


@app.command()
def demo(
    fill: Annotated[
        int | None, typer.Option(min=1, max=20_000, help="Fill the shop at /demo with this many reviews instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run samples of the main jobs against a running service, and show each answer."""
    if fill is not None:
        from plaudit.tools.demo_shop.fill import run_fill

        run_tool(as_json, run_fill, fill)
        return
    from plaudit.tools.demo import run_demo

    run_tool(as_json, run_demo)


@app.command()
def config(as_json: AlwaysJson = True) -> None:
    """Show the effective configuration, with the addresses of a running `plaudit up` and without secrets."""
    settings = read_settings()
    try:
        shown = effective_configuration(settings)
    except ConfigurationError as error:
        fail_of_configuration(str(error))
    print_json(out, shown)


@app.command()
def openapi(as_json: AlwaysJson = True) -> None:
    """Print the OpenAPI document of the service, for client generators; needs no server."""
    from plaudit.tools.openapi import service_document

    print_json(out, service_document())


@ratings.command("verify")
def verify_ratings(as_json: AsJson = False) -> None:
    """Compare every rating with a count of its reviews; exit code 1 if any differs."""
    from plaudit.tools.ratings import verify

    if run_tool(as_json, verify, errors):
        raise typer.Exit(1)


@ratings.command("rebuild")
def rebuild_ratings(
    store: Annotated[str | None, typer.Option(help="Only the objects reviewed in this store.")] = None,
    as_json: AsJson = False,
) -> None:
    """Have the workers recount every rating."""
    from plaudit.tools.ratings import rebuild

    run_tool(as_json, rebuild, errors, store)


@reminders.command("preview")
def preview_reminders(now: Now = None, as_json: AsJson = False) -> None:
    """Show who would be reminded now, and why others would not; send nothing."""
    from plaudit.tools.reminders import show_preview

    run_tool(as_json, show_preview, now)


@reminders.command("run")
def run_reminders(now: Now = None, as_json: AsJson = False) -> None:
    """Send the reminders that are due now, without waiting for the scheduler."""
    from plaudit.tools.reminders import run_once

    run_tool(as_json, run_once, errors, now)
