"""`plaudit dlq`: look at dead letters, publish them again, or discard them."""

from pathlib import Path
from typing import Annotated

import typer

from messaging.dead_letters_codes import DeadLetterCode
from messaging.dead_letters_replays import LetterPlace, LetterState, place_in
from plaudit.cli.command_line import AsJson, Moment, fail, run_tool
from plaudit.config import Settings
from plaudit.errors import UsageError
from plaudit.terminal import Terminal, errors

app = typer.Typer(help="Look at dead letters, publish them again, or discard them.", no_args_is_help=True)


def _parse_place(text: str) -> LetterPlace:
    try:
        return place_in(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Topics = Annotated[list[str] | None, typer.Option("--topic", help="Only of this topic; several times for several.")]
Codes = Annotated[
    list[DeadLetterCode] | None,
    typer.Option("--code", case_sensitive=False, metavar="CODE", help="Only with this error code; several times."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many.")]
Places = Annotated[
    list[LetterPlace] | None,
    typer.Argument(parser=_parse_place, metavar="[PLACE]...", help="These letters, like review-submissions/3/17."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


@app.command("list")
def list_letters(
    topic: Topics = None,
    code: Codes = None,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = 100,
    state: Annotated[
        list[LetterState] | None, typer.Option(help="Those in this state; several times. Open ones unless given.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those in any state.")] = False,
    as_json: AsJson = False,
) -> None:
    """List open dead letters, oldest first within each partition: topic, partition, offset, time, code, reason, key."""
    from plaudit.tools.dead_letters import Filter
    from plaudit.tools.dead_letters_list import list_dead_letters

    if everything and state:
        fail("--all lists letters in any state: leave out --state.", UsageError.exit_code)
    states = list(LetterState) if everything else state or [LetterState.OPEN]
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
    limit: Limit = None,
    partition: Annotated[int | None, typer.Option(min=0, help="With --offset: this letter alone.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="With --topic and --partition: this letter alone.")] = None,
    value: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Send this file's content in place of its value.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also those that were replayed before, or failed again since.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Publish dead letters to their topics again, each once, in order."""
    from plaudit.tools.dead_letters import Filter, named_letter
    from plaudit.tools.dead_letters_replay import Replay, replay_dead_letters

    mended = value.read_bytes() if value else None

    async def work(settings: Settings, out: Terminal) -> None:
        letter = named_letter(settings.topics, topic, partition, offset)
        topics, letters = None if letter else topic, [*(places or ()), *letter]
        wanted = Filter(topics=topics, codes=code, since=since, until=until, limit=limit, places=letters)
        await replay_dead_letters(settings, out, errors, Replay(wanted, mended=mended, again=again, dry_run=dry_run))

    run_tool(as_json, work)


@app.command()
def discard(
    reason: Annotated[str, typer.Option(help="Why; the audit log keeps it.")],
    places: Places = None,
    topic: Topics = None,
    code: Codes = None,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = None,
    everything: Annotated[bool, typer.Option("--all", help="All open letters.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Settle open dead letters without publishing them; lists, counts and replays then leave them out."""
    from plaudit.tools.dead_letters import Filter
    from plaudit.tools.dead_letters_replay import Discard, discard_dead_letters

    wanted = Filter(topics=topic, codes=code, since=since, until=until, limit=limit, places=places or ())
    order = Discard(wanted, reason, everything=everything, dry_run=dry_run)
    run_tool(as_json, discard_dead_letters, errors, order)
