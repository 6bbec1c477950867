"""Subscribe inboxes to their topics with FastStream, and commit the offsets that they have delivered."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
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
from consumers.telemetry import observe_batch
from messaging.decoding import RawRecord
from messaging.kafka.connection import CLIENT_ID, KafkaConnection
from messaging.kafka.patient_consumer import PatientConsumer
from messaging.kafka.record_batches import read_within_bounds
from messaging.topics import Topic, TopicNames
from storage.topics_growth import GrowthRepository

log = structlog.get_logger()

_POLL_MS: Final = 1_000
"""Maximum milliseconds of one poll; a record that arrives ends it."""

_METADATA_MS: Final = 5_000
"""Milliseconds for which a consumer may ask a broker that no longer leads a partition; aiokafka's default is 5 min."""

_FETCH_BYTES: Final = 16 * 1024 * 1024
"""Maximum bytes of brokers' answers to the shares of a topic: a large record in each partition would fill memory."""

GRACE_S: Final = 6.0
"""Seconds that a batch in progress may take at a stop; an unfinished one is delivered again."""

AFTER_REFUSAL_S: Final = 2.0
"""Seconds to wait after a refused commit. The batch is delivered again, and publishes its dead letters again."""

_SASL: Final = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch in progress, as FastStream acknowledges it: only the offsets of its records are committed or rewound.

    By itself FastStream commits the position of the consumer, whatever became of the records before it. Partitions that
    have been assigned to another consumer meanwhile are left to that one, and those of a recreated topic begin at its
    oldest record.
    """

    consumer: PatientConsumer
    records: Sequence[RawRecord]
    polled: int
    """Number of the assignment under which the records were polled."""

    async def commit(self) -> None:
        """Commit these records as processed, except in reassigned partitions: their new owners get those again."""
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
                "a batch isn't committed: its partitions were reassigned",
                topic=self.records[0].topic,
                partitions=left,
            )

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Rewind a partition, so that its records are delivered again."""
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

    Offsets are committed only after `Inbox.deliver` has returned for the batch: if it is stopped before, the batch is
    delivered again. Records of a producer's transaction are delivered once that is committed.
    """
    broker = KafkaBroker(
        connection.bootstrap_servers.split(","),  # FastStream takes a string as one address
        client_id=CLIENT_ID,
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
            auto_offset_reset="none",  # PatientConsumer decides, and reports lost records
            isolation_level="read_committed",
            ack_policy=AckPolicy.NACK_ON_ERROR,
            batch_timeout_ms=_POLL_MS,
            fetch_max_bytes=_FETCH_BYTES // inbox.shares,
            max_records=inbox.max_records,
            listener=inbox.listener,
        )
        _attach(subscriber, inbox)
    return broker


async def start(broker: KafkaBroker, topics: TopicNames, growth: GrowthRepository) -> None:
    """Start all subscribers concurrently: each waits to join its group, which takes seconds during a rebalance.

    The new partitions of a growing topic are not read until earlier records are applied.
    """

    async def readable(name: str) -> int | None:
        return await growth.readable(name.removeprefix(topics.prefix))

    read_within_bounds()
    shares: defaultdict[str, Iterator[int]] = defaultdict(count)

    def consumer(*names: str, group_id: str, **options: Any) -> PatientConsumer:
        # Partitions are dealt to members in the order of their ids, which begin with the client's: the first shares of
        # all workers come before their second ones, so that workers get equal numbers of partitions.
        options["client_id"] = f"{CLIENT_ID}-{next(shares[group_id])}"
        return PatientConsumer(*names, readable=readable, group_id=group_id, **options)

    await broker.connect()
    # After connecting, which resets the builder.
    build_consumers_by(broker, consumer)
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
        with observe_batch(inbox.topic, records):
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
