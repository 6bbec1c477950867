"""Publication of many messages at once, packed into one batch for each partition.

A message costs about a fourth of the producer's own `send`, which creates a future and checks a queue for each.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition

from domain.delivery import OutgoingMessage
from domain.places import contains_bucket, murmur2, partition_at
from messaging.kafka.aiokafka_internals import queue_batch
from messaging.kafka.connection import BrokerAwayError
from messaging.topics import Topic


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The assignment of messages to partitions."""

    by_place: bool = True
    """True if changes of reviews keyed by object go to its place, as those keyed by an id with a place always do."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of partitions that the keys of a topic are distributed among, by topic; others use all existing ones."""


BY_PLACE: Final = Partitioning()

_MIN_PACKED: Final = 8
_LARGE_BYTES: Final = 64 * 1024


async def send_batch(
    producer: AIOKafkaProducer, messages: Sequence[OutgoingMessage], partitioning: Partitioning
) -> list[asyncio.Future[Any]]:
    """Send messages; each future completes when the broker has acknowledged its part of them, or has failed to.

    Messages with one key keep their order. Raises BrokerAwayError while a new partition doesn't exist yet.
    """
    counts = {topic: await _partition_count(producer, topic, partitioning) for topic in {m.topic for m in messages}}
    partitions = [partition_of(m.topic, m.key, counts[m.topic], by_place=partitioning.by_place) for m in messages]
    # A large message is left to the producer, which checks it against the limit.
    if len(messages) < _MIN_PACKED or any(len(m.value or b"") > _LARGE_BYTES for m in messages):
        # Without a key the producer chooses a partition that has a leader.
        return [
            await producer.send(m.topic, m.value, m.key, None if m.key is None else chosen, headers=list(m.headers))
            for m, chosen in zip(messages, partitions, strict=True)
        ]
    parts: dict[tuple[str, int], list[OutgoingMessage]] = {}
    for message, partition in zip(messages, partitions, strict=True):
        parts.setdefault((message.topic, partition), []).append(message)
    return [future for part, content in parts.items() for future in _send_packed(producer, *part, content)]


def _send_packed(
    producer: AIOKafkaProducer, topic: str, partition: int, messages: Sequence[OutgoingMessage]
) -> list[asyncio.Future[Any]]:
    partition, futures = TopicPartition(topic, partition), []
    batch = producer.create_batch()
    for _, key, value, headers in messages:
        if batch.append(key=key, value=value, timestamp=None, headers=list(headers)) is None:
            futures.append(queue_batch(producer, batch, partition))
            batch = producer.create_batch()
            batch.append(key=key, value=value, timestamp=None, headers=list(headers))
    return [*futures, queue_batch(producer, batch, partition)]


async def _partition_count(producer: AIOKafkaProducer, topic: str, partitioning: Partitioning) -> int:
    existing, wanted = len(await producer.partitions_for(topic)), partitioning.counts.get(topic)
    if wanted is None:
        return existing
    if wanted > existing:
        await producer.client.force_metadata_update()
        existing = len(await producer.partitions_for(topic))
        if wanted > existing:
            raise BrokerAwayError(f"{topic} should have {wanted} partitions, but has {existing}")
    return wanted


def partition_of(topic: str, key: bytes | None, count: int, *, by_place: bool = True) -> int:
    """The partition of a key among `count`, as Kafka's own clients choose it; a random one without a key. In the topic
    of changes it is a range of places instead: for ids that contain their place and, with `by_place`, for objects."""
    if key is None:
        return random.randrange(count)  # noqa: S311
    if topic.endswith(Topic.REVIEW_CHANGES) and (by_place or contains_bucket(key)):
        return partition_at(key, count)
    return _key_hash(key) % count


@lru_cache(maxsize=16_384)
def _key_hash(key: bytes) -> int:
    # Cached, because it is pure Python, and the keys of objects repeat.
    return murmur2(key)
