"""`plaudit dlq list` and `summary`: dead letters one by one, or counted."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from domain.quantities import quantity
from domain.timestamps import timestamp
from messaging.dead_letters_replays import LetterState, header, moment_of, optional_text_of
from plaudit.config import Settings
from plaudit.terminal import Terminal, shown
from plaudit.tools.dead_letters import Filter, shown_text
from plaudit.tools.dead_letters_state import LetterWithState, letters_with_state
from plaudit.tools.servers import reached


async def list_dead_letters(settings: Settings, out: Terminal, wanted: Filter, states: list[LetterState]) -> None:
    """Print one line for each letter in one of these states."""
    rows: list[dict[str, Any]] = []
    async with reached(settings) as (database, _):
        async for letters in letters_with_state(settings, database, wanted, states):
            rows += [_row(each) for each in letters]
            for each in letters:
                out.print(_line(each))
    out.set_result(rows)
    if not rows:
        out.print("No dead letters.")
    elif len(rows) == wanted.limit:
        out.print(f"These are the first {len(rows)}; use --limit to show more.")


@dataclass(slots=True)
class _Group:
    """Counts of the letters of a topic with one code."""

    states: Counter[LetterState] = field(default_factory=Counter)
    failed_again: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None

    def add(self, each: LetterWithState) -> None:
        self.states[each.state] += 1
        if each.state is not LetterState.OPEN:
            return
        self.failed_again += each.failed_again
        at = moment_of(each.letter.timestamp)
        self.oldest = min(at, self.oldest or at)
        self.newest = max(at, self.newest or at)


async def summarize_dead_letters(settings: Settings, out: Terminal, wanted: Filter) -> None:
    """Print the number of letters by topic and code: open ones with their age, replayed and discarded ones."""
    groups: dict[tuple[str, str], _Group] = {}
    async with reached(settings) as (database, _):
        async for letters in letters_with_state(settings, database, wanted):
            for each in letters:
                kind = each.place.topic.value, header(each.letter, "x-error-code")
                groups.setdefault(kind, _Group()).add(each)
    total: Counter[LetterState] = sum((group.states for group in groups.values()), Counter())
    counts = {state.value: total[state] for state in LetterState}
    out.set_result({**counts, "groups": [_group_row(*kind, group) for kind, group in groups.items()]})
    for (topic, code), group in groups.items():
        out.print("  ".join([topic, shown(code) or "-", *_description(group)]))
    out.print(_state_counts(total) if groups else "No dead letters.")


def _description(group: _Group) -> list[str]:
    parts = [_state_counts(group.states)]
    if group.failed_again:
        parts.append(f"{group.failed_again} failed again")
    if group.oldest and group.newest:
        parts.append(f"open from {timestamp(group.oldest)} to {timestamp(group.newest)}")
    return parts


def _state_counts(states: Counter[LetterState]) -> str:
    return ", ".join(f"{states[state]} {state}" for state in LetterState)


def _group_row(topic: str, code: str, group: _Group) -> dict[str, Any]:
    return {
        "topic": topic,
        "code": code,
        **{state.value: group.states[state] for state in LetterState},
        "failedAgain": group.failed_again,
        "oldestOpen": group.oldest and timestamp(group.oldest),
        "newestOpen": group.newest and timestamp(group.newest),
    }


def _row(each: LetterWithState) -> dict[str, Any]:
    letter = each.letter
    return {
        "place": str(each.place),
        "topic": each.place.topic.value,
        "partition": letter.partition,
        "offset": letter.offset,
        "at": timestamp(moment_of(letter.timestamp)),
        "state": each.state.value,
        "replayed": each.times,
        "failedAgain": each.failed_again,
        "code": header(letter, "x-error-code"),
        "reason": header(letter, "x-error-message"),
        "key": optional_text_of(letter.key),
    }


def _line(each: LetterWithState) -> str:
    letter = each.letter
    fields = [
        letter.topic,
        f"{letter.partition}",
        f"{letter.offset}",
        timestamp(moment_of(letter.timestamp)),
        shown(header(letter, "x-error-code")) or "-",
        shown(header(letter, "x-error-message")) or "-",
        shown_text(letter.key),
    ]
    if each.failed_again:
        fields.append(f"failed again, replayed {quantity(each.times, 'time')}")
    elif each.state is not LetterState.OPEN:
        fields.append(each.state.value)
    return "  ".join(fields)
