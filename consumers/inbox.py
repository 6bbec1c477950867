"""How every consumer treats failure: the world is waited for, a message that can never work is set aside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential_jitter

from consumers.telemetry import about_command
from domain.delivery import OutgoingMessage
from messaging.dead_letters import bare_dead_letter, dead_letter_message
from messaging.decoding import DeadLetter, InvalidMessageError, RawRecord, unreadable_error
from messaging.metrics import count_wait, topic_label
from storage.unit_of_work import is_unavailable

log = structlog.get_logger()

LONGEST_PAUSE_S: Final = 5.0
"""Between attempts while the world is away; far below Kafka's max.poll.interval, so that waits cost no rebalance."""

Process = Callable[[Sequence[RawRecord]], Awaitable[None]]
Publish = Callable[[Sequence[OutgoingMessage]], Awaitable[None]]


async def deliver(records: Sequence[RawRecord], process: Process, publish: Publish) -> None:
    """Process a batch so that in the end every record has had its effect or is a dead letter.

    Returns only then, so that the offsets may be committed. `process` must be idempotent: it sees records again
    after a failure. While MongoDB or Kafka is away it is repeated, for as long as it takes. Any other exception is
    put down to a record: the batch is halved, in order, until the culprit stands alone. What could not even be read
    doesn't reach `process`.
    """
    unreadable = [DeadLetter(record, error) for record in records if (error := unreadable_error(record))]
    if unreadable:
        for letter in unreadable:
            await _set_aside(letter, publish)
        records = [record for record in records if not unreadable_error(record)]
        if not records:
            return
    try:
        with about_command(records):
            await _patiently(records[0].topic, lambda: process(records))
    except Exception as error:
        if len(records) > 1:
            middle = len(records) // 2
            await deliver(records[:middle], process, publish)
            await deliver(records[middle:], process, publish)
            return
        (record,) = records
        with about_command(records):
            log.exception("record failed", topic=record.topic, partition=record.partition, offset=record.offset)
            letter = DeadLetter(record, InvalidMessageError("processing-failed", f"{type(error).__name__}: {error}"))
            await _set_aside(letter, publish)


async def _set_aside(letter: DeadLetter, publish: Publish) -> None:
    topic = letter.record.topic
    try:
        await _patiently(topic, lambda: publish([dead_letter_message(letter)]))
    except Exception:
        # What made the record fail may be in the way of its dead letter, too: its place and the reason never are.
        log.exception("record can't be kept in its dead letter", topic=topic, offset=letter.record.offset)
        await _patiently(topic, lambda: publish([bare_dead_letter(letter)]))


async def _patiently(topic: str, attempt: Callable[[], Awaitable[None]]) -> None:
    def report(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        count_wait(topic_label(topic), error)
        log.warning(
            "retrying: MongoDB or Kafka unavailable",
            attempt=state.attempt_number,
            error=f"{type(error).__name__}: {error}"[:300],
        )

    async for trial in AsyncRetrying(
        retry=retry_if_exception(is_unavailable),
        wait=wait_exponential_jitter(multiplier=0.1, max=LONGEST_PAUSE_S),
        before_sleep=report,
        reraise=True,
    ):
        with trial:
            await attempt()
