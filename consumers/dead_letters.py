"""Consume commands to replay dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from consumers.services import Services
from domain.commands import Outcome
from messaging.dead_letters_replays import (
    ReplayCommand,
    first_letter_id,
    letter_id,
    place_in,
    replayed_message,
)
from messaging.decoding import RawRecord, Received
from messaging.kafka.dead_letters import DeadLetterTopics
from storage.audit import AuditAction, AuditEntry
from storage.dead_letters_replays import obstacle_to_replay
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class ReplayConsumer:
    """Republishes dead letters to their original topics, each once.

    Delivered at least once, effective once: one transaction records the replay, its message in the outbox, the audit
    entry and the answer. A letter that was replayed before is answered "unchanged"; a letter about a person who was
    erased since is refused.
    """

    services: Services
    letters: DeadLetterTopics

    async def __call__(self, batch: Sequence[Received[ReplayCommand]]) -> None:
        """Replay a batch with one transaction per letter: letters are few, and may be large."""
        # To keep the order, first publish what an interrupted attempt has marked.
        await self.services.transactions.outbox.settle_current()
        async with self.letters.open() as opened:
            for received in batch:
                letter = await opened.at(place_in(received.message.place))
                await self.services.transactions.run(partial(_replay, received, letter))


async def _replay(received: Received[ReplayCommand], letter: RawRecord | None, work: UnitOfWork) -> None:
    command, stored = received.message, work.repositories
    answer = partial(work.answer, command.command_id, command.place, mark=received.mark)
    if await work.is_answered(command.command_id, command.place):
        return
    if letter is None:
        answer(Outcome.NOT_FOUND)
        return
    id = letter_id(letter)
    mended = None if command.value is None else command.value.encode(errors="surrogatepass")
    reason = await obstacle_to_replay(letter, mended, stored.replays, stored.erasures, work.session)
    if reason is not None:
        answer(reason.outcome, reason.value)
        return
    await stored.replays.remember({id: first_letter_id(letter)}, datetime.now(UTC), work.session)
    work.emit([replayed_message(letter, value=mended)])
    work.audit([_audit_entry(received)])
    answer(Outcome.APPLIED)


def _audit_entry(received: Received[ReplayCommand]) -> AuditEntry:
    command = received.message
    return AuditEntry(
        at=received.at,
        subject=command.moderator,
        action=AuditAction.REPLAY,
        command_id=command.command_id,
        letter=command.place,
        fields=() if command.value is None else ("value",),
    )
