"""`plaudit audit`: the log of who did what."""

from pathlib import Path
from typing import Annotated

import typer

from plaudit.cli.command_line import AsJson, Moment, command_group, run_tool
from plaudit.terminal import errors

app = command_group("Archive the audit log.")


@app.command()
def archive(
    file: Annotated[
        Path, typer.Argument(dir_okay=False, resolve_path=True, help="The file to create: gzipped JSON Lines.")
    ],
    before: Moment = None,
    lost: Annotated[
        bool,
        typer.Option(
            "--lost",
            help="If the file of an interrupted archive is lost: archive the entries that are still in the log.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move entries from before a moment into a file, by default those older than PLAUDIT_AUDIT__KEEP_DAYS.

    If it is interrupted, the next run finishes that archive first. Names of authors of edits stay out of the file.
    """
    from plaudit.tools.audit import archive

    run_tool(as_json, archive, errors, before, file, is_lost=lost)
