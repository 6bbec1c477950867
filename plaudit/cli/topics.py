"""`plaudit topics`: the topics in Kafka."""

from typing import Annotated

import typer

from plaudit.cli.command_line import AsJson, errors, run_tool

app = typer.Typer(help="Look after the topics.", no_args_is_help=True)


@app.callback()
def _topics() -> None:
    """Look after the topics."""


@app.command("grow")
def grow(
    partitions: Annotated[int, typer.Argument(min=1, max=1_000, help="Of each topic; a multiple of what it has.")],
    wait: Annotated[
        float,
        typer.Option(min=0, help="Seconds: more than the longest `metadata.max.age.ms` of all who publish."),
    ] = 360,
    as_json: AsJson = False,
) -> None:
    """Have more partitions while everything runs; what has one key keeps its order.

    What comes to new partitions is read once all that came before is applied. Cut short, the next run goes on.
    """
    from plaudit.tools.topics import grow as work

    run_tool(as_json, work, errors, partitions, wait)
