"""Which consumer reads which topic, and how FastStream drives them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from faststream import AckPolicy
from faststream.kafka import KafkaBroker
from faststream.kafka.message import KafkaAckableMessage
from faststream.kafka.subscriber.usecase import BatchSubscriber
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256, SASLScram512

from consumers.delivery import Process, Publish, deliver
from consumers.signals import observed
from messaging.connection import KafkaConnection
from messaging.decoding import RawRecord
from messaging.topics import Topic, TopicNames

POLL_PAUSE_MS: Final = 20
"""How long a consumer waits for records before it looks again: the latency of a message that comes alone."""

GRACE_S: Final = 6.0
"""At a stop, how long a batch in hand may take; what is not done by then is delivered again."""

_SASL: Final = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer, its topic, and the most records it takes at once."""

    topic: Topic
    process: Process
    max_records: int = 500


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
        connection.bootstrap_servers,
        client_id=connection.client_id,
        security=_security(connection),
        consumer_only=True,
        apply_types=False,
        serializer=None,
        graceful_timeout=GRACE_S,
        logger=logging.getLogger("faststream"),
    )
    for subscription in subscriptions:
        subscriber = broker.subscriber(
            topics.name(subscription.topic),
            batch=True,
            group_id=f"{group_prefix}{subscription.topic}",
            auto_offset_reset="earliest",
            ack_policy=AckPolicy.NACK_ON_ERROR,
            batch_timeout_ms=POLL_PAUSE_MS,
            max_records=subscription.max_records,
        )
        _attach(subscriber, subscription, publish)
    return broker


async def start(broker: KafkaBroker) -> None:
    """Start all subscribers side by side: each waits for its group to let it in, which a rebalance makes seconds."""
    await broker.connect()
    await asyncio.gather(*(subscriber.start() for subscriber in broker.subscribers))


def _attach(subscriber: BatchSubscriber, subscription: Subscription, publish: Publish) -> None:
    async def parse(records: tuple[RawRecord, ...]) -> KafkaAckableMessage:
        # FastStream's own parser decodes every header of every record, and fails on one that isn't UTF-8.
        consumer: AIOKafkaConsumer | None = subscriber.consumer
        return KafkaAckableMessage(raw_message=records, body=b"", headers={}, consumer=consumer)

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
    return _SASL[connection.sasl_mechanism](
        username=connection.sasl_username or "",
        password=connection.sasl_password or "",
        ssl_context=context,
        use_ssl=tls,
    )
