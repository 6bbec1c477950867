"""The publisher of all messages to Kafka."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from domain.delivery import OutgoingMessage
from messaging.kafka.aiokafka_internals import close_without_flush
from messaging.kafka.connection import BrokerAwayError, KafkaConnection, is_too_large, rejection
from messaging.kafka.packing import Partitioning, send_batch
from messaging.kafka.partition_counts import PartitionCounts, never_grew
from messaging.metrics import count_published
from messaging.topics import MAX_DEAD_LETTER_BYTES, Topic
from messaging.tracing import trace_publication

_STOP_GRACE_S: Final = 1.0


class Publisher:
    """Publishes messages, and returns once the broker has acknowledged all of them (acks=all).

    Raises BrokerAwayError if not all were acknowledged within `timeout` seconds. Some may have been accepted all the
    same, so callers repeat the whole publication, and receivers ignore repeats. A message that is too large for its
    topic raises aiokafka's own error. Messages with one key keep their order, within a call and between consecutive
    calls. `partition_counts` knows how many partitions keys are distributed among; callers that need the order of
    changes of reviews ask it first. `is_by_place` is asked once those are loaded: see `by_place`.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        timeout: float = 10.0,
        partition_counts: PartitionCounts | None = None,
        is_by_place: Callable[[], bool] = lambda: True,
    ) -> None:
        self._is_by_place = is_by_place
        self.partition_counts: Final = partition_counts or PartitionCounts(never_grew, Topic.REVIEW_CHANGES)
        self._connection = connection
        self._timeout: Final = timeout
        self._producer: AIOKafkaProducer | None = None
        self._start_task: asyncio.Task[AIOKafkaProducer] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def by_place(self) -> bool:
        """True if the schema of the database has places: ids of reviews contain the place of their object, and messages
        about an object go there."""
        return self._is_by_place()

    async def stop(self) -> None:
        """Disconnect. Unacknowledged messages are given up, so nothing may be in progress."""
        if self._start_task is not None:
            self._start_task.cancel()
            await asyncio.wait([self._start_task])
        producer, self._producer = self._producer, None
        await self.partition_counts.stop()
        if producer is not None:
            await close_producer(producer)

    async def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        """Publish all messages."""
        if not messages:
            return
        with trace_publication(messages) as traced:
            await self._publish(traced)
        count_published(messages)

    async def _publish(self, messages: Sequence[OutgoingMessage]) -> None:
        producer = None
        counts = await self.partition_counts.counts({message.topic for message in messages})
        partitioning = Partitioning(self.by_place, counts)
        try:
            async with asyncio.timeout(self._timeout):
                producer = await self._running_producer()
                await asyncio.gather(*await send_batch(producer, messages, partitioning))
        except TimeoutError as error:
            absent = set[str]()
            if producer is not None:
                absent = {message.topic for message in messages} - producer.client.cluster.topics()
                self._discard(producer)
            why = f", and has no topic {', '.join(sorted(absent))}" if absent else ""
            raise BrokerAwayError(f"Kafka did not acknowledge in time{why}") from error
        except KafkaError as error:
            if is_too_large(error):
                raise  # retrying doesn't help
            if producer is not None:
                self._discard(producer)
            raise rejection(error) from error

    async def missing(self, topics: Collection[str]) -> list[str]:
        """The topics among these that the cluster doesn't have, or doesn't let us see. Raises BrokerAwayError."""
        try:
            async with asyncio.timeout(self._timeout):
                producer = await self._running_producer()
                for topic in topics:
                    producer.client.add_topic(topic)
                if not await producer.client.force_metadata_update():
                    raise BrokerAwayError("Kafka does not answer")
                there = producer.client.cluster.topics()
                return [topic for topic in topics if topic not in there]
        except (TimeoutError, KafkaError) as error:
            raise BrokerAwayError(f"Kafka does not answer: {error!r}") from error

    async def _running_producer(self) -> AIOKafkaProducer:
        """The producer, started once for all callers. The start has its own timeout: under that of its first caller,
        who may have waited for another one before, it would never complete under load."""
        if self._producer is not None:
            return self._producer
        if self._start_task is None or self._start_task.done():
            self._start_task = asyncio.create_task(self._start())
            self._start_task.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._start_task)

    async def _start(self) -> AIOKafkaProducer:
        producer = new_producer(self._connection, self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                await producer.start()
        except BaseException as error:
            self._discard(producer)
            if isinstance(error, KafkaError | TimeoutError):
                raise BrokerAwayError(f"Kafka can't be reached: {error!r}") from error
            raise
        self._producer = producer
        return producer

    def _discard(self, producer: AIOKafkaProducer) -> None:
        """Drop a failed producer: some of its errors are permanent, and a new one starts clean."""
        if self._producer is producer:
            self._producer = None
        closing = asyncio.create_task(close_without_flush(producer))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def new_producer(connection: KafkaConnection, timeout: float, **options: Any) -> AIOKafkaProducer:
    """A producer with this timeout in seconds, not yet started: all replicas in sync acknowledge its messages."""
    return AIOKafkaProducer(
        **connection.client_options(),
        acks="all",
        enable_idempotence=connection.idempotence,
        max_request_size=MAX_DEAD_LETTER_BYTES,
        max_batch_size=256 * 1024,
        request_timeout_ms=int(timeout * 1000),
        **options,
    )


async def close_producer(producer: AIOKafkaProducer) -> None:
    """Disconnect, within a second. Unacknowledged messages are given up."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_GRACE_S):
            await close_without_flush(producer)


def _retrieve_error(task: asyncio.Task[AIOKafkaProducer]) -> None:
    """Retrieve the error of a failed start: all of its callers may be gone."""
    if not task.cancelled():
        task.exception()
