"""Which consumer reads which topic, and how FastStream drives them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from faststream import AckPolicy
from faststream.kafka import KafkaBroker
from faststream.kafka.message import KafkaAckableMessage
from faststream.kafka.subscriber.usecase import BatchSubscriber
from faststream.security import BaseSecurity, SASLOAuthBearer, SASLPlaintext, SASLScram256, SASLScram512

from consumers.faststream_internals import build_consumers_by
from consumers.inbox import Process, Publish, deliver
from consumers.telemetry import observed
from messaging.decoding import RawRecord
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.patient_consumer import PatientConsumer
from messaging.kafka.record_batches import read_within_bounds
from messaging.topics import Topic, TopicNames

_LOOK_MS: Final = 1_000
"""How long a consumer waits for records at a time; it is told of each that comes."""

_FETCH_MS: Final = 250
"""How long a broker holds a fetch of partitions without news. One whose records are in hand isn't among them, and waits
for its end before it is asked for again: by default up to half a second."""

_METADATA_MS: Final = 5_000
"""How long a consumer may go on asking a broker that leads a partition no more; by itself it does so for 5 minutes."""

GRACE_S: Final = 6.0
"""At a stop, how long a batch in hand may take; what is not done by then is delivered again."""

_SASL: Final = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer, its topic, the most records it takes at once, and how many share its partitions in one worker.

    With two of them one decodes while MongoDB writes for the other.
    """

    topic: Topic
    process: Process
    max_records: int = 500
    shares: int = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in hand, as FastStream acknowledges them: what it commits and rewinds is theirs alone.

    By itself it commits how far the consumer has read, whatever became of it. Partitions that have gone to another
    consumer meanwhile are left to that one.
    """

    consumer: AIOKafkaConsumer
    records: Sequence[RawRecord]

    async def commit(self) -> None:
        """Commit that these records were processed."""
        processed = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in self.records}
        assigned = self.consumer.assignment()
        await self.consumer.commit({place: offset for place, offset in processed.items() if place in assigned})

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go back, so that the records come again."""
        if partition in self.consumer.assignment():
            self.consumer.seek(partition, offset)


def subscribed_broker(
    connection: KafkaConnection,
    topics: TopicNames,
    subscriptions: Sequence[Subscription],
    publish: Publish,
    *,
    group_prefix: str,
) -> KafkaBroker:
    """A FastStream broker with one batch subscriber for each subscription, not yet started.

    Offsets are committed once `deliver` has returned for the batch, and only then: if it is stopped before, the
    batch comes again.
    """
    broker = KafkaBroker(
        connection.bootstrap_servers.split(","),  # FastStream takes a text for one address
        client_id=connection.client_id,
        security=_security(connection),
        sasl_oauth_token_provider=connection.client_options().get("sasl_oauth_token_provider"),
        consumer_only=True,
        metadata_max_age_ms=_METADATA_MS,
        apply_types=False,
        serializer=None,
        graceful_timeout=GRACE_S,
        logger=logging.getLogger("faststream"),
    )
    for subscription in (each for each in subscriptions for _ in range(each.shares)):
        subscriber = broker.subscriber(
            topics.name(subscription.topic),
            batch=True,
            group_id=f"{group_prefix}{subscription.topic}",
            auto_offset_reset="earliest",
            ack_policy=AckPolicy.NACK_ON_ERROR,
            batch_timeout_ms=_LOOK_MS,
            fetch_max_wait_ms=_FETCH_MS,
            max_records=subscription.max_records,
        )
        _attach(subscriber, subscription, publish)
    return broker


async def start(broker: KafkaBroker) -> None:
    """Start all subscribers side by side: each waits for its group to let it in, which a rebalance makes seconds."""
    read_within_bounds()
    await broker.connect()
    # Only now, as connecting sets it anew.
    build_consumers_by(broker, PatientConsumer)
    await asyncio.gather(*(subscriber.start() for subscriber in broker.subscribers))


def _attach(subscriber: BatchSubscriber, subscription: Subscription, publish: Publish) -> None:
    async def parse(records: tuple[RawRecord, ...]) -> KafkaAckableMessage:
        # FastStream's own parser decodes every header of every record, and fails on one that isn't UTF-8.
        if subscriber.consumer is None:
            raise RuntimeError("Records came from a subscriber that has no consumer")
        return KafkaAckableMessage(
            raw_message=records, body=b"", headers={}, consumer=Batch(subscriber.consumer, records)
        )

    async def raw_records(message: Any) -> Sequence[RawRecord]:
        records: Sequence[RawRecord] = message.raw_message
        return records

    @subscriber(parser=parse, decoder=raw_records)
    async def handle(records: Sequence[RawRecord]) -> None:
        with observed(subscription.topic, records):
            await deliver(records, subscription.process, publish)


def _security(connection: KafkaConnection) -> BaseSecurity | None:
    options = connection.client_options()
    protocol = connection.security_protocol
    if protocol == "PLAINTEXT":
        return None
    context, tls = options.get("ssl_context"), protocol.endswith("SSL")
    if protocol == "SSL":
        return BaseSecurity(ssl_context=context, use_ssl=True)
    if connection.sasl_mechanism == "OAUTHBEARER":
        return SASLOAuthBearer(ssl_context=context, use_ssl=tls)
    return _SASL[connection.sasl_mechanism](
        username=connection.sasl_username or "",
        password=connection.sasl_password or "",
        ssl_context=context,
        use_ssl=tls,
    )
