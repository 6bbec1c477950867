"""`plaudit dlq`: look at dead letters, and publish them again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plaudit.cli.command_line import Moment, errors, out, run

app = typer.Typer(help="Look at dead letters, and publish them again.", no_args_is_help=True)

Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only of this topic; several times for several.")]
Codes = Annotated[list[str] | None, typer.Option("--code", help="Only with this error code; several times.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many.")]


@app.command("list")
def list_letters(topic: Topics = None, code: Codes = None, since: Moment = None, limit: Limit = 100) -> None:
    """List dead letters, oldest first within each partition: topic, partition, offset, time, code, reason, key."""
    from plaudit.tools.dead_letters import Filter, list_dead_letters

    run(lambda settings: list_dead_letters(settings, out, Filter(topic or (), code or (), since, limit)))


@app.command()
def show(
    topic: Annotated[str, typer.Argument(help="The topic, with or without its prefix and `.dlq`.")],
    partition: Annotated[int, typer.Argument(min=0)],
    offset: Annotated[int, typer.Argument(min=0)],
) -> None:
    """Show one dead letter with its headers and its value."""
    from plaudit.tools.dead_letters import show_dead_letter

    run(lambda settings: show_dead_letter(settings, out, topic, partition, offset))


@app.command()
def replay(
    topic: Topics = None,
    code: Codes = None,
    since: Moment = None,
    limit: Limit = None,
    partition: Annotated[int | None, typer.Option(min=0, help="With --offset: this letter alone.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="With --topic and --partition: this letter alone.")] = None,
    value: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Send this file's content in place of its value.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also those that were replayed before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
) -> None:
    """Publish dead letters to their topic again, in order, each once."""
    from plaudit.tools.dead_letters import Filter
    from plaudit.tools.replay import Replay, replay_dead_letters

    wanted = Filter(topic or (), code or (), since, limit, partition, offset)
    mended = value.read_bytes() if value else None
    order = Replay(wanted, mended=mended, again=again, dry_run=dry_run)
    run(lambda settings: replay_dead_letters(settings, out, errors, order))
