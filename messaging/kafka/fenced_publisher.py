"""A publisher that fences off its predecessors."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from domain.delivery import OutgoingMessage
from messaging.kafka.connection import BrokerAwayError, KafkaConnection, rejection
from messaging.kafka.packing import BY_PLACE, send_batch
from messaging.kafka.publisher import close_producer, new_producer
from messaging.metrics import count_published

PUBLISH_S: Final = 10.0
"""Maximum seconds to publish one batch."""


class FencedPublisher:
    """Publishes batches as the only publisher of its name: from the moment that another one opens the name, Kafka
    accepts nothing from this one, not even messages in flight.

    Each batch is a Kafka transaction, because the broker fences by transactions. Brokers without idempotent producers
    (the fallback of `plaudit up`) don't fence. After a BrokerAwayError, open a new publisher.
    """

    def __init__(self, producer: AIOKafkaProducer, *, can_fence: bool) -> None:
        self._producer = producer
        self._can_fence = can_fence

    @classmethod
    @asynccontextmanager
    async def open(cls, connection: KafkaConnection, name: str) -> "AsyncIterator[FencedPublisher]":
        """A publisher that has fenced off all earlier ones of this name. Raises BrokerAwayError."""
        producer = new_producer(
            connection,
            PUBLISH_S,
            transactional_id=name if connection.idempotence else None,
            transaction_timeout_ms=int(2 * PUBLISH_S * 1000),
        )
        try:
            async with _publish_timeout():
                await producer.start()
            yield cls(producer, can_fence=connection.idempotence)
        finally:
            await close_producer(producer)

    async def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        """Publish messages, in order for each key; returns once Kafka has committed them. Raises BrokerAwayError."""
        if not messages:
            return
        async with _publish_timeout():
            # Not with aiokafka's transaction context, which waits after a failure for Kafka to abort the transaction.
            if self._can_fence:
                await self._producer.begin_transaction()
            await asyncio.gather(*await send_batch(self._producer, messages, BY_PLACE))
            if self._can_fence:
                await self._producer.commit_transaction()
        count_published(messages)

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        async with _publish_timeout():
            return [TopicPartition(topic, number) for number in sorted(await self._producer.partitions_for(topic))]


@asynccontextmanager
async def _publish_timeout() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(PUBLISH_S):
            yield
    except TimeoutError as error:
        raise BrokerAwayError("Kafka did not acknowledge in time") from error
    except KafkaError as error:
        raise rejection(error) from error
