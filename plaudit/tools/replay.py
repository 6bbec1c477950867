"""`plaudit dlq replay`: dead letters become messages again, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiokafka.errors import MessageSizeTooLargeError
from rich.console import Console

from messaging.decoding import RawRecord
from messaging.kafka.publisher import Publisher
from messaging.replays import letter_id, replayed_message
from plaudit.cli.command_line import UsageError
from plaudit.config import Settings
from plaudit.processes.connections import connected
from plaudit.processes.waiting import prepare_servers
from plaudit.tools.dead_letters import Filter, dead_letters
from plaudit.tools.privacy import erasures_of
from storage.outbox import in_parts
from storage.replays import ReplayRepository


@dataclass(frozen=True, slots=True)
class Replay:
    """The options of a replay. `mended` replaces the value of the one letter that is named."""

    wanted: Filter
    mended: bytes | None = None
    again: bool = False
    dry_run: bool = False


_LEFT_OUT: Final = {
    "known": "were replayed before; --again replays them, too.",
    "erased": "are about people who were forgotten since; they stay where they are.",
    "empty": "have no value; --value sends one.",
    "too large": "are too large for their topic; --value sends a smaller one.",
}


async def replay_dead_letters(settings: Settings, out: Console, progress: Console, order: Replay) -> None:
    """Publish letters to their topics, and say how many.

    A letter is published, then remembered. Cut short between the two, the next replay publishes it again, and what
    identifies it is the same, so that it takes effect once. What becomes a dead letter during the replay is left
    for the next one. Raises UsageError or CommandError.
    """
    if order.mended is not None and not order.wanted.is_one:
        raise UsageError("--value mends one letter: name it by --topic, --partition and --offset.")
    counts: Counter[str] = Counter()
    async with connected(settings) as (database, publisher):
        if not order.dry_run:
            await prepare_servers(settings, database)
        replays, erasures = ReplayRepository(database), erasures_of(settings, database)
        with progress.status("Replaying dead letters") as status:
            async for letters in dead_letters(settings, order.wanted):
                for chunk in in_parts(letters):
                    kept = await erasures.spared(chunk)
                    counts["erased"] += len(chunk) - len(kept)
                    await _replay(kept, order, replays, publisher, counts)
                    status.update(f"Replaying dead letters: {counts['replayed']} published")
    what = "Would replay" if order.dry_run else "Replayed"
    out.print(f"{what} {counts['replayed']} dead letters.")
    for reason, text in _LEFT_OUT.items():
        if counts[reason]:
            out.print(f"{counts[reason]} {text}")


async def _replay(
    letters: Sequence[RawRecord], order: Replay, replays: ReplayRepository, publisher: Publisher, counts: Counter[str]
) -> None:
    earlier = await replays.counts([letter_id(letter) for letter in letters])
    chosen = [letter for letter in letters if order.again or letter_id(letter) not in earlier]
    counts["known"] += len(letters) - len(chosen)
    # A letter without a value, as of a record that was too large to keep, can never work as it is.
    full = [letter for letter in chosen if order.mended is not None or letter.value is not None]
    counts["empty"] += len(chosen) - len(full)
    if order.dry_run:
        counts["replayed"] += len(full)
        return
    messages = [replayed_message(r, value=order.mended, earlier=earlier.get(letter_id(r), 0)) for r in full]
    try:
        await publisher.publish(messages)
        published = full
    except MessageSizeTooLargeError:
        published = []
        for letter, message in zip(full, messages, strict=True):
            try:
                await publisher.publish([message])
                published.append(letter)
            except MessageSizeTooLargeError:
                counts["too large"] += 1
    await replays.remember([letter_id(letter) for letter in published], datetime.now(UTC))
    counts["replayed"] += len(published)
