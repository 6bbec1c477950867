"""`plaudit dlq`: look at dead letters, publish them again, or discard them."""

from pathlib import Path
from typing import Annotated

import typer

from messaging.dead_letters_codes import DeadLetterCode
from messaging.dead_letters_replays import LetterPlace, LetterState, place_in
from plaudit.cli.command_line import AsJson, Moment, command_group, run_tool
from plaudit.terminal import errors

app = command_group("List, replay or discard dead letters.")


def _parse_place(text: str) -> LetterPlace:
    try:
        return place_in(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only letters of this topic; can be repeated.")]
Codes = Annotated[
    list[DeadLetterCode] | None,
    typer.Option(
        "--code", case_sensitive=False, metavar="CODE", help="Only letters with this error code; can be repeated."
    ),
]
Places = Annotated[
    list[LetterPlace] | None,
    typer.Argument(
        parser=_parse_place,
        metavar="[PLACE]...",
        help="Letters by topic/partition/offset, like review-submissions/3/17.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, without doing it.")]


@app.command("list")
def list_letters(
    topic: Topics = None,
    code: Codes = None,
    since: Moment = None,
    until: Moment = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of letters.")] = 100,
    everything: Annotated[bool, typer.Option("--all", help="Letters in every state.")] = False,
    as_json: AsJson = False,
) -> None:
    """List open dead letters, oldest first within each partition: topic, partition, offset, time, code, reason, key."""
    from plaudit.tools.dead_letters import Filter
    from plaudit.tools.dead_letters_list import list_dead_letters

    states = list(LetterState) if everything else [LetterState.OPEN]
    wanted = Filter(topics=topic, codes=code, since=since, until=until, limit=limit)
    run_tool(as_json, list_dead_letters, wanted, states)


@app.command()
def summary(
    topic: Topics = None, code: Codes = None, since: Moment = None, until: Moment = None, as_json: AsJson = False
) -> None:
    """Count dead letters by topic and code: open ones with their age, replayed and discarded ones."""
    from plaudit.tools.dead_letters import Filter
    from plaudit.tools.dead_letters_list import summarize_dead_letters

    wanted = Filter(topics=topic, codes=code, since=since, until=until)
    run_tool(as_json, summarize_dead_letters, wanted)


@app.command()
def show(
    topic: Annotated[str, typer.Argument(help="The topic, with or without its prefix and `.dlq`.")],
    partition: Annotated[int, typer.Argument(min=0)],
    offset: Annotated[int, typer.Argument(min=0)],
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with its headers and its value."""
    from plaudit.tools.dead_letters import show_dead_letter

    run_tool(as_json, show_dead_letter, topic, partition, offset)


@app.command()
def replay(
    places: Places = None,
    topic: Topics = None,
    code: Codes = None,
    since: Moment = None,
    until: Moment = None,
    value: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Publish the content of this file instead of the letter's value."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Include letters that were replayed before, or have failed again since.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Publish dead letters to their topics again, each once, in order."""
    from plaudit.tools.dead_letters import Filter
    from plaudit.tools.dead_letters_replay import ReplayOptions, replay_dead_letters

    mended = value.read_bytes() if value else None
    wanted = Filter(topics=topic, codes=code, since=since, until=until, places=places or ())
    options = ReplayOptions(wanted, mended=mended, again=again, dry_run=dry_run)
    run_tool(as_json, replay_dead_letters, errors, options)


@app.command()
def discard(
    reason: Annotated[str, typer.Option(help="The reason, for the audit log.")],
    places: Places = None,
    topic: Topics = None,
    code: Codes = None,
    since: Moment = None,
    until: Moment = None,
    everything: Annotated[bool, typer.Option("--all", help="Discard all open letters.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Settle open dead letters without publishing them; lists, counts and replays then leave them out."""
    from plaudit.tools.dead_letters import Filter
    from plaudit.tools.dead_letters_replay import DiscardOptions, discard_dead_letters

    wanted = Filter(topics=topic, codes=code, since=since, until=until, places=places or ())
    options = DiscardOptions(wanted, reason, everything=everything, dry_run=dry_run)
    run_tool(as_json, discard_dead_letters, errors, options)
