"""`plaudit privacy`: export and erasure of personal data."""

from pathlib import Path
from typing import Annotated

import typer

from plaudit.cli.command_line import AlwaysJson, AsJson, command_group, run, run_tool
from plaudit.terminal import errors, shown

app = command_group("Export or erase the data of a person.")


def _parse_id(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("Give the id of a person: an empty id would match records of other people.")
    return text


Customer = Annotated[
    str,
    typer.Option(
        "--customer",
        parser=_parse_id,
        metavar="TEXT",
        help="The person's id (`userId`, `customerId`), or their mail address in reports and guest orders.",
    ),
]


@app.command("export")
def export_person(
    customer: Customer,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", dir_okay=False, help="Default: standard output."),
    ] = None,
    as_json: AlwaysJson = True,
) -> None:
    """Write all data about a person as JSON."""
    from plaudit.tools.privacy import export_person

    run(lambda settings: export_person(settings, errors, customer, output))


@app.command("erase")
def erase_person(
    customer: Customer,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    wait: Annotated[
        float,
        typer.Option(min=1, help="Seconds to wait for workers to process pending messages and to delete the reviews."),
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Erase all data of a person for good. Ratings follow; a record of the erasure stays, without the id.

    Erase the person from upstream systems first: data that they send later is accepted as before.
    """
    from plaudit.tools.privacy_erasure import erase_person

    if not yes:
        typer.confirm(f"Permanently erase all data of {shown(customer)}?", abort=True, err=True)
    run_tool(as_json, erase_person, errors, customer, wait)
