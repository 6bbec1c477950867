"""`plaudit topics`: the topics in Kafka."""

from typing import Annotated

import typer

from plaudit.cli.command_line import AsJson, command_group, run_tool
from plaudit.terminal import errors

app = command_group("Add partitions to the topics.")


@app.command("grow")
def grow(
    partitions: Annotated[
        int,
        typer.Argument(
            min=1, max=1_000, help="The new number of partitions of each topic: a multiple of the current one."
        ),
    ],
    wait: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds to wait for producers: more than the longest `metadata.max.age.ms` of any of them."
        ),
    ] = 360,
    as_json: AsJson = False,
) -> None:
    """Add partitions while everything runs; records with the same key keep their order.

    New partitions are read once all earlier records are applied. If it is interrupted, the next run continues.
    """
    from plaudit.tools.topics import grow as work

    run_tool(as_json, work, errors, partitions, wait)
