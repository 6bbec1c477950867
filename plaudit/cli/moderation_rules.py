"""`plaudit rules`: moderation rules, tried before they are set."""

from pathlib import Path
from typing import Annotated

import typer

from plaudit.cli.command_line import AsJson, command_group, run_tool
from plaudit.cli.reviews import MappedColumns, ReviewFile, ReviewFileFormat
from plaudit.config import Settings
from plaudit.terminal import Terminal, errors
from plaudit.tools.file_format import FileFormat

app = command_group("Try out moderation rules.")


@app.command("try")
def try_rules(
    file: ReviewFile,
    store: Annotated[str | None, typer.Option(help="Use the rules of this store.")] = None,
    rules: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, readable=True, help="Use the rules in this file: a JSON array."),
    ] = None,
    format: ReviewFileFormat = None,
    map: MappedColumns = None,
    as_json: AsJson = False,
) -> None:
    """Show the effect of rules on the reviews in a CSV or JSON Lines file, read like that of `plaudit import`.

    Writes nothing. Exit code 1 if there were bad rows.
    """
    from plaudit.tools.imports.mapping import ColumnMapping
    from plaudit.tools.moderation_rules import RuleTrialOptions, run_trial

    async def work(settings: Settings, out: Terminal) -> int:
        mapping = ColumnMapping.of(map or (), store=store or "", entity_type="Product")
        order = RuleTrialOptions(file, format or FileFormat.of(file), mapping, store, rules)
        return await run_trial(settings, out, errors, order)

    if run_tool(as_json, work):
        raise typer.Exit(1)
