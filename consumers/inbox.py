"""Deliver records to the handlers of consumers: decoding, dead letters, and retries."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog
from aiokafka import ConsumerRebalanceListener
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    stop_any,
    stop_never,
    wait_exponential_jitter,
)
from tenacity.stop import StopBaseT

from consumers.telemetry import about_command
from domain.delivery import in_parts
from messaging.dead_letters import bare_dead_letter, dead_letter_message
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import DeadLetter, InvalidMessageError, RawRecord, Received, decode_records
from messaging.metrics import note_wait
from messaging.readers import READERS
from messaging.templates.rendering import in_template_thread
from messaging.topics import Topic
from storage.outbox import Publish
from storage.pymongo_internals import is_of_closed_client
from storage.shapes import StoredDocumentError
from storage.unit_of_work import is_unavailable

log = structlog.get_logger()

LONGEST_PAUSE_S: Final = 5.0
"""Maximum seconds between attempts while a server is unavailable. The consumer stays in its group meanwhile."""

_HALVE_AFTER: Final = stop_any(stop_after_attempt(5), stop_after_delay(30))
"""After 5 failed attempts, or 30 seconds, a batch of several records is halved."""

_MOST_BYTES: Final = 1024 * 1024
"""Bytes of values that are decoded at a time, unless a single one is larger: a message can take a hundred times the
memory of its value."""

T = TypeVar("T")
Handler = Callable[[Sequence[Received[T]]], Awaitable[Sequence[DeadLetter] | None]]


@dataclass(frozen=True, slots=True)
class Inbox(Generic[T]):
    """Delivers the records of a topic to a handler until each has taken effect or become a dead letter.

    While MongoDB, Kafka or the image store is unavailable, a single record is retried indefinitely. A batch is halved,
    in order, after a few such attempts or some time (_HALVE_AFTER): a batch that exceeds a server's cache or time limit
    can succeed in parts. Any other exception is attributed to a record: the batch is halved until the failing record is
    alone, and that one becomes a dead letter. If one of our stored documents is the cause (StoredDocumentError), the
    dead letter says so; it can be replayed once the document is repaired. When the process stops, no record is blamed,
    and an unfinished batch is delivered again.
    """

    topic: Topic
    handle: Handler[T]
    """Gets 1 to `max_records` messages, and returns dead letters for those that can never work. Must be idempotent:
    after a failure it gets messages again."""
    publish: Publish
    max_records: int = 500
    shares: int = 1
    """Consumers of a worker that share the partitions, at most 10: one decodes while MongoDB writes for others."""
    is_slow: bool = False
    """True if reading a message is slow, and so has to run in a thread."""
    listener: ConsumerRebalanceListener | None = None
    """Notified of the partitions that are assigned to us or revoked."""

    async def deliver(self, records: Sequence[RawRecord]) -> None:
        """Deliver a batch, a large one in parts, in order; returns once its offsets may be committed."""
        for part in in_parts(records, _MOST_BYTES, lambda record: len(record.value or b"")):
            await self._deliver(part)

    async def _deliver(self, records: Sequence[RawRecord]) -> None:
        try:
            with about_command(records):
                await self._retry(lambda: self._process(records), stop_never if len(records) == 1 else _HALVE_AFTER)
        except Exception as error:
            if is_of_closed_client(error):
                # The process is stopping, which is no record's fault: another process gets them again.
                raise asyncio.CancelledError from error
            if len(records) > 1:
                if is_unavailable(error):
                    log.warning("splitting the batch in halves", topic=self.topic.value, records=len(records))
                middle = len(records) // 2
                await self._deliver(records[:middle])
                await self._deliver(records[middle:])
                return
            (record,) = records
            with about_command(records):
                log.exception("record failed", topic=record.topic, partition=record.partition, offset=record.offset)
                await self._set_aside([DeadLetter(record, _reason(error))])

    async def _process(self, records: Sequence[RawRecord]) -> None:
        read = READERS[self.topic]
        good, bad = (
            await in_template_thread(decode_records, records, read) if self.is_slow else decode_records(records, read)
        )
        refused = await self.handle(good) if good else None
        # Last, so that a retried or halved batch doesn't publish them twice.
        await self._set_aside([*bad, *(refused or ())])

    async def _set_aside(self, letters: Sequence[DeadLetter]) -> None:
        if not letters:
            return
        try:
            await self._retry(lambda: self.publish([dead_letter_message(letter) for letter in letters]))
        except Exception:
            if len(letters) > 1:
                for letter in letters:
                    await self._set_aside([letter])
                return
            (letter,) = letters
            # The record's content may have made the dead letter fail, too; its position and the reason never do.
            log.exception(
                "dead letter can't be published with the whole record",
                topic=letter.record.topic,
                offset=letter.record.offset,
            )
            await self._retry(lambda: self.publish([bare_dead_letter(letter)]))

    async def _retry(self, attempt: Callable[[], Awaitable[None]], stop: StopBaseT = stop_never) -> None:
        await retry(self.topic.value, attempt, stop)


async def retry(where: str, attempt: Callable[[], Awaitable[None]], stop: StopBaseT = stop_never) -> None:
    """Retry an attempt while MongoDB, Kafka or the image store is unavailable. Raises its error once `stop` applies,
    and any other error at once.

    Cancellation, as when the process stops, ends it at once. `where` names the place in logs and metrics.
    """

    def report(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        note_wait(where, error, attempt=state.attempt_number)

    async for trial in AsyncRetrying(
        retry=retry_if_exception(is_unavailable),
        stop=stop,
        wait=wait_exponential_jitter(multiplier=0.1, max=LONGEST_PAUSE_S),
        before_sleep=report,
        reraise=True,
    ):
        with trial:
            await attempt()


def _reason(error: Exception) -> InvalidMessageError:
    if isinstance(error, StoredDocumentError):
        return InvalidMessageError(DeadLetterCode.STORED_DOCUMENT, str(error))
    return InvalidMessageError(DeadLetterCode.PROCESSING_FAILED, f"{type(error).__name__}: {error}")
