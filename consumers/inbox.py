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
from messaging.dead_letters import bare_dead_letter, dead_letter_message
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import DeadLetter, InvalidMessageError, RawRecord, Received, decoded
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
"""Between attempts while MongoDB or Kafka is unavailable. The consumer stays in its group meanwhile."""

_TRIED: Final = stop_any(stop_after_attempt(5), stop_after_delay(30))
"""A batch of several records is halved then."""

T = TypeVar("T")
Handler = Callable[[Sequence[Received[T]]], Awaitable[Sequence[DeadLetter] | None]]


@dataclass(frozen=True, slots=True)
class Inbox(Generic[T]):
    """Delivers the records of a topic to a handler, so that in the end each has had its effect or is a dead letter.

    `handle` gets a batch of messages, 1 to `max_records`, and returns dead letters for those that it finds can never
    work. It must be idempotent: it gets messages again after a failure. `shares` consumers share the partitions in one
    worker: with two of them one decodes while MongoDB writes for the other. `listener` hears which partitions are
    assigned to us. `read` decodes a value, by default the topic's of READERS; it raises InvalidContentError or
    InvalidMessageError, and works beside the event loop where it is slow.

    While MongoDB or Kafka is unavailable a record is retried, for as long as it takes. A batch is halved, in order,
    once it has failed so a few times, or for long: what is too much for a server at once, for its cache or its time,
    isn't in parts. Any other exception is put down to a record: the batch is halved until the culprit stands alone,
    and that becomes a dead letter. One that fails for a document of ours (StoredDocumentError) says so: it is sent
    again once the document is mended. At a stop of the process nothing is put down to anybody, and a batch that isn't
    done is delivered again.
    """

    topic: Topic
    handle: Handler[T]
    publish: Publish
    max_records: int = 500
    shares: int = 1
    is_slow: bool = False
    listener: ConsumerRebalanceListener | None = None
    read: Callable[[bytes], T] | None = None

    async def deliver(self, records: Sequence[RawRecord]) -> None:
        """Deliver a batch; returns once its offsets may be committed."""
        try:
            with about_command(records):
                await self._retry(lambda: self._process(records), stop_never if len(records) == 1 else _TRIED)
        except Exception as error:
            if is_of_closed_client(error):
                # This process stops, and that is no record's fault: they are delivered again to another one.
                raise asyncio.CancelledError from error
            if len(records) > 1:
                if is_unavailable(error):
                    log.warning("going on in halves", topic=self.topic.value, records=len(records))
                middle = len(records) // 2
                await self.deliver(records[:middle])
                await self.deliver(records[middle:])
                return
            (record,) = records
            with about_command(records):
                log.exception("record failed", topic=record.topic, partition=record.partition, offset=record.offset)
                await self._set_aside([DeadLetter(record, _reason(error))])

    async def _process(self, records: Sequence[RawRecord]) -> None:
        read = self.read or READERS[self.topic]
        good, bad = await in_template_thread(decoded, records, read) if self.is_slow else decoded(records, read)
        refused = await self.handle(good) if good else None
        # At the end, so that a batch that is retried or halved doesn't repeat them.
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
            # The cause of the failure may be in the way of the dead letter, too: its position and the reason never are.
            log.exception("dead letter can't be kept whole", topic=letter.record.topic, offset=letter.record.offset)
            await self._retry(lambda: self.publish([bare_dead_letter(letter)]))

    async def _retry(self, attempt: Callable[[], Awaitable[None]], stop: StopBaseT = stop_never) -> None:
        await retry(self.topic.value, attempt, stop)


async def retry(where: str, attempt: Callable[[], Awaitable[None]], stop: StopBaseT = stop_never) -> None:
    """Repeat an attempt while MongoDB or Kafka is unavailable; raises its error where `stop` says so.

    Cancelled, as at a stop of the process, it ends at once. `where` is told by log and metrics.
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
