"""`plaudit dlq replay` and `discard`: publish dead letters again, each once, or settle them without publishing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from domain.commands import Outcome
from domain.delivery import in_parts
from domain.quantities import quantity
from messaging.dead_letters_replays import (
    LetterState,
    ReplayObstacle,
    first_letter_id,
    letter_id,
    replay_obstacle,
    replayed_message,
)
from messaging.decoding import refusal_of
from messaging.readers import READERS
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.errors import CommandError, UsageError
from plaudit.terminal import Terminal
from plaudit.tools.dead_letters import Filter, topics_of
from plaudit.tools.dead_letters_state import LetterWithState, letters_with_state
from plaudit.tools.servers import reached
from storage.audit import AuditAction, AuditEntry
from storage.database import Session
from storage.dead_letters_replays import UNMARKED
from storage.outbox import MOST_BYTES
from storage.repositories import Repositories
from storage.unit_of_work import Transactions, UnitOfWork

OPERATOR: Final = "plaudit dlq"

_LEFT_OUT: Final = {
    ReplayObstacle.REPLAYED: "already replayed. Use --again to replay such letters, too.",
    ReplayObstacle.DISCARDED: "already discarded. To replay such letters, name them and use --again.",
    ReplayObstacle.ERASED: "with data of people who have been erased since.",
    ReplayObstacle.EMPTY: "without a value. Use --value to send one.",
    ReplayObstacle.TOO_LARGE: "too large to be processed. Use --value to send a smaller value.",
}


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a replay. `mended` replaces the value of the single named letter."""

    wanted: Filter
    mended: bytes | None
    again: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class DiscardOptions:
    """The options of a discard. `everything` is required without a criterion, and refused beside one."""

    wanted: Filter
    reason: str
    everything: bool
    dry_run: bool


async def replay_dead_letters(settings: Settings, out: Terminal, progress: Terminal, options: ReplayOptions) -> None:
    """Publish letters to their topics again, and print their number.

    Letters are marked in the transaction that writes their messages to the outbox. If the run is cut short, a worker or
    the next replay publishes the messages of marked letters, and the replay then continues after them. Concurrent
    replays publish each letter once. A letter that failed again counts as the same letter: it is replayed if it is
    named, or with `again`. Letters that arrive during the replay are left to the next one.

    Raises UsageError or CommandError.
    """
    options.wanted.check()
    if options.mended is not None and len(set(options.wanted.places)) != 1:
        raise UsageError(
            "--value replaces the value of one letter: name it by its place, like review-submissions/3/17."
        )
    if options.mended is not None:
        _check_mended(options.mended, options.wanted.places[0].topic)
    replayed, left_out = 0, Counter[ReplayObstacle]()
    topics = topics_of(settings.topics, [place.topic for place in options.wanted.places] or options.wanted.topics)
    async with reached(settings, *topics) as (database, publisher):
        repositories = Repositories(database, erasure_keys=settings.privacy.keys())
        transactions = Transactions(database, repositories, publisher.publish)
        with progress.status("Replaying dead letters") as status:
            async for letters in letters_with_state(settings, database, options.wanted):
                for chunk in in_parts(letters, MOST_BYTES, lambda each: len(each.letter.value or b"")):
                    if options.dry_run:
                        done, hindered = await _choose(chunk, options, repositories)
                    else:
                        # To keep the order, first publish what an earlier replay has marked.
                        await transactions.outbox.settle_current()
                        done, hindered = await transactions.run(partial(_replay, chunk, options))
                    replayed += len(done)
                    left_out += hindered
                    status.update(f"Replaying dead letters: {replayed} published")
    counts = {reason.value: left_out[reason] for reason in _LEFT_OUT}
    out.set_result({"replayed": replayed, "dryRun": options.dry_run, "leftOut": counts})
    out.print(f"{'Would replay' if options.dry_run else 'Replayed'} {quantity(replayed, 'dead letter')}.")
    for reason, text in _LEFT_OUT.items():
        if left_out[reason]:
            out.print(f"Left out {quantity(left_out[reason], 'dead letter')} {text}")
    if options.wanted.names_letters and any(reason.outcome is Outcome.REFUSED for reason in +left_out):
        raise CommandError("Not all of the named letters were replayed.")


def _check_mended(mended: bytes, topic: Topic) -> None:
    """Raises CommandError: the consumer of the topic would make the value a dead letter again."""
    if refusal := refusal_of(mended, READERS[topic]):
        raise CommandError(
            f"The consumer of {topic} would reject this value ({refusal.code}): {refusal}. Nothing was replayed."
        )


async def _replay(
    letters: Sequence[LetterWithState], options: ReplayOptions, work: UnitOfWork
) -> tuple[list[LetterWithState], Counter[ReplayObstacle]]:
    chosen, left_out = await _choose(letters, options, work.repositories, work.session)
    now, stored = datetime.now(UTC), work.repositories
    ids = [letter_id(each.letter) for each in chosen]
    earlier = await stored.replays.marks(ids, work.session)
    await stored.replays.remember({letter_id(e.letter): first_letter_id(e.letter) for e in chosen}, now, work.session)
    work.emit(
        replayed_message(each.letter, value=options.mended, earlier=earlier.get(id, UNMARKED).times)
        for id, each in zip(ids, chosen, strict=True)
    )
    fields = () if options.mended is None else ("value",)
    work.audit([_audit_entry(each, AuditAction.REPLAY, now, fields=fields) for each in chosen])
    return chosen, left_out


async def _choose(
    letters: Sequence[LetterWithState],
    options: ReplayOptions,
    stored: Repositories,
    session: Session | None = None,
) -> tuple[list[LetterWithState], Counter[ReplayObstacle]]:
    """The letters to replay, and the counted reasons against the others."""
    marks = await stored.replays.marks([letter_id(e.letter) for e in letters], session)
    replayable = {letter_id(letter) for letter in await stored.erasures.replayable([each.letter for each in letters])}
    chosen: list[LetterWithState] = []
    left_out = Counter[ReplayObstacle]()
    is_named = options.wanted.names_letters
    for each in letters:
        if each.came_back:
            continue  # The letter that replaces it is counted.
        id = letter_id(each.letter)
        state = marks.get(id, UNMARKED).state
        if each.failed_again and state is LetterState.OPEN and not is_named:
            state = LetterState.REPLAYED
        again = options.again and (is_named or state is not LetterState.DISCARDED)
        reason = replay_obstacle(each.letter, options.mended, state=state, is_replayable=id in replayable, again=again)
        if reason is None:
            chosen.append(each)
        else:
            left_out[reason] += 1
    return chosen, left_out


async def discard_dead_letters(settings: Settings, out: Terminal, progress: Terminal, options: DiscardOptions) -> None:
    """Settle open letters without publishing them, with a reason in the audit log, and print their number.

    Kafka keeps them until the retention of their topics expires. Raises UsageError or CommandError.
    """
    options.wanted.check()
    if options.wanted.is_everything and not options.everything:
        raise UsageError("Name letters by their places or by a filter, or use --all to discard all open letters.")
    if options.everything and not options.wanted.is_everything:
        raise UsageError("--all discards all open letters: omit it if you name places or a filter.")
    if not options.reason.strip():
        raise UsageError("--reason must not be empty.")
    count = 0
    async with reached(settings) as (database, publisher):
        transactions = Transactions(database, Repositories(database), publisher.publish)
        with progress.status("Discarding dead letters") as status:
            async for letters in letters_with_state(settings, database, options.wanted, [LetterState.OPEN]):
                if not options.dry_run:
                    await transactions.run(partial(_discard, letters, options.reason))
                count += len(letters)
                status.update(f"Discarding dead letters: {count}")
    out.set_result({"discarded": count, "dryRun": options.dry_run})
    out.print(f"{'Would discard' if options.dry_run else 'Discarded'} {quantity(count, 'dead letter')}.")


async def _discard(letters: Sequence[LetterWithState], reason: str, work: UnitOfWork) -> None:
    replays, now = work.repositories.replays, datetime.now(UTC)
    ids = {letter_id(each.letter): each for each in letters}
    settled = await replays.marks(ids.keys(), work.session)
    await replays.discard([id for id in ids if id not in settled], now, work.session)
    work.audit(
        _audit_entry(each, AuditAction.DISCARD, now, reason=reason) for id, each in ids.items() if id not in settled
    )


def _audit_entry(
    each: LetterWithState, action: AuditAction, at: datetime, *, reason: str | None = None, fields: tuple[str, ...] = ()
) -> AuditEntry:
    return AuditEntry(at=at, subject=OPERATOR, action=action, reason=reason, fields=fields, letter=str(each.place))
