"""`plaudit import`, `plaudit export` and `plaudit reviews`."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from domain.reviews import ReviewStatus
from plaudit.cli.command_line import AsJson, command_group, fail, read_moment, read_name, run, run_tool
from plaudit.config import Settings
from plaudit.errors import UsageError
from plaudit.terminal import Terminal, errors, output
from plaudit.tools.file_format import FileFormat

ReviewFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
ReviewFileFormat = Annotated[FileFormat | None, typer.Option(case_sensitive=False, help="Default: by the file name.")]
MappedColumns = Annotated[
    list[str] | None, typer.Option(help="Map a column to a field: column=field; can be repeated.")
]


class StatusName(StrEnum):
    """Names of review statuses on the command line."""

    NEW = "New"
    APPROVED = "Approved"
    REJECTED = "Rejected"


app = command_group("Report on reviews; republish their topic or compare with it.")


@app.command("republish")
def republish_reviews(as_json: AsJson = False) -> None:
    """Publish all reviews to the topic `reviews` again, and remove from it those that are gone: after a restore."""
    from plaudit.tools.reviews import republish

    run_tool(as_json, republish, errors)


@app.command("compare")
def compare_reviews(
    at: Annotated[datetime, typer.Option(parser=read_moment, help="ISO 8601; in UTC unless it has an offset.")],
    as_json: AsJson = False,
) -> None:
    """List the reviews that differ from their state on the topic `reviews` at a moment: after a restore.

    The topic has the state of a review at moments of the last day, or since its last change. A review whose earlier
    state it no longer has can't be compared, and is listed as such. Exit code 1 if any differs or can't be compared.
    """
    from plaudit.tools.reviews import compare_reviews

    if run_tool(as_json, compare_reviews, errors, at):
        raise typer.Exit(1)


@app.command("report")
def report_reviews(
    store: Annotated[str | None, typer.Option(help="Only reviews of this store.")] = None,
    since: Annotated[
        datetime | None, typer.Option("--from", parser=read_moment, help="Submitted at or after this time.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--to", parser=read_moment, help="Submitted before this time.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
) -> None:
    """Count approved and rejected reviews by stars and reason, and show if low ratings are rejected more often."""
    from plaudit.tools.policy_report import ReportOptions, run_report

    if as_json and as_csv:
        fail("Choose one of --json and --csv.", UsageError.exit_code)
    if since and until and since >= until:
        fail("--from must be before --to.", UsageError.exit_code)
    run_tool(as_json, run_report, ReportOptions(store, since, until), as_csv=as_csv)


def import_reviews(
    file: ReviewFile,
    format: ReviewFileFormat = None,
    map: MappedColumns = None,
    store: Annotated[
        str | None, typer.Option(parser=read_name, metavar="TEXT", help="The store for rows without one.")
    ] = None,
    entity_type: Annotated[
        str | None, typer.Option(parser=read_name, metavar="TEXT", help="The object type for rows without one.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Report of bad rows. Default: FILE.bad-rows.jsonl.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check every row without publishing anything.")] = False,
    as_new: Annotated[
        bool, typer.Option("--as-new", help="Import the reviews of an export without their status, dates and feedback.")
    ] = False,
    no_images: Annotated[
        bool, typer.Option("--no-images", help="Leave out the images of an export, in the folder FILE.images.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Submit the reviews in a CSV or JSON Lines file; the next run continues an interrupted one.

    Reviews of `plaudit export` are restored with status, dates, replies, votes, reports and images.

    Exit code 1 if there were bad rows; they are reported with line and reason, and all others are published.
    """
    from plaudit.tools.imports.mapping import ColumnMapping
    from plaudit.tools.imports.options import ImportOptions
    from plaudit.tools.imports.reviews import run_import

    async def work(settings: Settings, out: Terminal) -> int:
        mapping = ColumnMapping.of(map or (), store=store, entity_type=entity_type)
        order = ImportOptions(file, format or FileFormat.of(file), mapping, report, dry_run, as_new, not no_images)
        return await run_import(settings, out, errors, order)

    if run_tool(as_json, work):
        raise typer.Exit(1)


def export_reviews(
    format: Annotated[
        FileFormat | None,
        typer.Option(case_sensitive=False, help="Default: by the file name of -o, else JSON Lines."),
    ] = None,
    store: Annotated[str | None, typer.Option(help="Only reviews of this store.")] = None,
    entity_type: Annotated[
        str | None, typer.Option(parser=read_name, metavar="TEXT", help="Only reviews of objects of this type.")
    ] = None,
    status: Annotated[
        list[StatusName] | None,
        typer.Option(case_sensitive=False, help="Only reviews in this status; can be repeated."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-o", "--output", dir_okay=False, help="Default: standard output."),
    ] = None,
    no_images: Annotated[
        bool, typer.Option("--no-images", help="Write no image files. JSON Lines have theirs in FILE.images.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary on standard error as JSON.")] = False,
) -> None:
    """Write all reviews, in the order of their ids, in a form that `plaudit import` reads.

    Exit code 1 if reviews are damaged, or if image files are missing from their store; everything else is written.
    """
    from plaudit.tools.export import ExportOptions, run_export
    from storage.reviews.search import ReviewSearch

    search = ReviewSearch(
        statuses=[ReviewStatus[each.name] for each in status] if status else None,
        entity_types=[entity_type] if entity_type else None,
        store_id=store,
    )
    file_format = format or (FileFormat.of(file) if file else FileFormat.JSONL)
    with_images = file is not None and file_format is FileFormat.JSONL and not no_images
    order = ExportOptions(search, file_format, file, with_images)
    with output(errors, as_json=as_json) as console:
        lost = run(lambda settings: run_export(settings, console, order))
    if lost:
        raise typer.Exit(1)
