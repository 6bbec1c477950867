"""Subscribe inboxes to their topics by FastStream, and commit what they have delivered."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from faststream import AckPolicy
from faststream.kafka import KafkaBroker
from faststream.kafka.message import KafkaAckableMessage
from faststream.kafka.subscriber.usecase import BatchSubscriber
from faststream.security import BaseSecurity, SASLOAuthBearer, SASLPlaintext, SASLScram256, SASLScram512

from consumers.faststream_internals import build_consumers_by
from consumers.inbox import Inbox
from consumers.telemetry import observed
from messaging.decoding import RawRecord
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.patient_consumer import PatientConsumer
from messaging.kafka.record_batches import read_within_bounds
from messaging.topics import Topic, TopicNames
from storage.topics_growth import GrowthRepository

log = structlog.get_logger()

_LOOK_MS: Final = 1_000
"""A consumer waits for records so long at a time; a record that arrives wakes it."""

_METADATA_MS: Final = 5_000
"""A consumer may ask a broker that no longer leads a partition for so long; aiokafka's default is 5 minutes."""

_FETCH_BYTES: Final = 16 * 1024 * 1024
"""The most that a broker answers at a time, for all partitions: a large record in each would fill the memory."""

GRACE_S: Final = 6.0
"""At a stop, a batch in progress may take so long; what is not done by then is delivered again."""

AFTER_REFUSAL_S: Final = 2.0
"""The wait after a commit that Kafka refuses. The batch comes again, with all that it publishes, like dead letters."""

_SASL: Final = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in progress, as FastStream acknowledges them: it commits and rewinds their offsets alone.

    By itself FastStream commits the position of the consumer, whatever became of the records up to there. Partitions
    that have been assigned to another consumer meanwhile are left to that one, and those of a topic that was made anew
    begin at its oldest record: `polled` is the assignment that the records are of.
    """

    consumer: PatientConsumer
    records: Sequence[RawRecord]
    polled: int

    async def commit(self) -> None:
        """Commit that these records were processed; whoever has their partitions by now gets the others again."""
        processed = {TopicPartition(r.topic, r.partition): r.offset + 1 for r in self.records}
        ours = await self.consumer.still_ours(processed, self.polled)
        try:
            if ours:
                await self.consumer.commit({place: processed[place] for place in ours})
        except (CommitFailedError, IllegalStateError):
            ours = set()
        except KafkaError:
            await asyncio.sleep(AFTER_REFUSAL_S)
            raise
        if left := len(processed) - len(ours):
            log.warning(
                "a batch isn't committed: its partitions have been assigned anew",
                topic=self.records[0].topic,
                partitions=left,
            )

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go back, so that the records are delivered again."""
        self.consumer.rewind(partition, offset, self.polled)


def subscribed_broker(
    connection: KafkaConnection,
    topics: TopicNames,
    inboxes: Sequence[Inbox[Any]],
    *,
    group_prefix: str,
    only: Collection[Topic] = tuple(Topic),
) -> KafkaBroker:
    """A FastStream broker with one batch subscriber for each share of an inbox of these topics, not yet started.

    Offsets are committed once `Inbox.deliver` has returned for the batch, and only then: if it is stopped before, the
    batch is delivered again. What is in a transaction of its producer is delivered once that is committed.
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
    for inbox in (each for each in inboxes if each.topic in only for _ in range(each.shares)):
        subscriber = broker.subscriber(
            topics.name(inbox.topic),
            batch=True,
            group_id=f"{group_prefix}{inbox.topic}",
            auto_offset_reset="none",  # that is up to the consumer, which tells what is lost
            isolation_level="read_committed",
            ack_policy=AckPolicy.NACK_ON_ERROR,
            batch_timeout_ms=_LOOK_MS,
            fetch_max_bytes=_FETCH_BYTES,
            max_records=inbox.max_records,
            listener=inbox.listener,
        )
        _attach(subscriber, inbox)
    return broker


async def start(broker: KafkaBroker, topics: TopicNames, growth: GrowthRepository) -> None:
    """Start all subscribers side by side: each waits for its group to let it in, which a rebalance makes seconds.

    Of a topic that grows they leave the new partitions alone until what came before is applied.
    """

    async def readable(name: str) -> int | None:
        return await growth.readable(name.removeprefix(topics.prefix))

    read_within_bounds()
    await broker.connect()
    # Only now, as connecting sets it anew.
    build_consumers_by(broker, partial(PatientConsumer, readable=readable))
    await asyncio.gather(*(subscriber.start() for subscriber in broker.subscribers))


def _attach(subscriber: BatchSubscriber, inbox: Inbox[Any]) -> None:
    async def parse(records: tuple[RawRecord, ...]) -> KafkaAckableMessage:
        # FastStream's own parser decodes every header of every record, and fails on one that isn't UTF-8.
        consumer = subscriber.consumer
        if not isinstance(consumer, PatientConsumer):
            raise TypeError("FastStream delivered records of a subscriber whose consumer isn't ours")
        return KafkaAckableMessage(
            raw_message=records, body=b"", headers={}, consumer=Batch(consumer, records, consumer.polled)
        )

    async def raw_records(message: Any) -> Sequence[RawRecord]:
        records: Sequence[RawRecord] = message.raw_message
        return records

    @subscriber(parser=parse, decoder=raw_records)
    async def handle(records: Sequence[RawRecord]) -> None:
        with observed(inbox.topic, records):
            await inbox.deliver(records)


def _security(connection: KafkaConnection) -> BaseSecurity | None:
    options = connection.client_options()
    access, protocol = connection.access, connection.access.security_protocol
    if protocol == "PLAINTEXT":
        return None
    context, tls = options.get("ssl_context"), protocol.endswith("SSL")
    if protocol == "SSL":
        return BaseSecurity(ssl_context=context, use_ssl=True)
    if access.sasl_mechanism == "OAUTHBEARER":
        return SASLOAuthBearer(ssl_context=context, use_ssl=tls)
    return _SASL[access.sasl_mechanism](
        username=options["sasl_plain_username"],
        password=options["sasl_plain_password"],
        ssl_context=context,
        use_ssl=tls,
    )
