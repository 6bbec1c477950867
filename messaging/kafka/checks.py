"""Checks of Kafka: are the topics as the service needs them, and are they consumed?"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from domain.findings import Finding, failed, ok, warn
from domain.quantities import quantity
from domain.timestamps import from_milliseconds
from messaging.kafka.administration import admin_client, partitions_of
from messaging.kafka.checks_settings import settings_problems
from messaging.kafka.connection import BrokerAwayError, KafkaConnection
from messaging.kafka.durability import topic_settings_of
from messaging.kafka.lag import ConsumerLag, Lag, Partition
from messaging.kafka.standstill import STANDS_AFTER_S
from messaging.kafka.topic_reader import TopicReader
from messaging.topics import CONSUMED, DEAD_LETTER_SUFFIX, ExpectedTopics, Topic, TopicNames

_FUTURE_S: Final = 60
_HIGH_LAG: Final = 10_000
_MAX_READ: Final = 3
MOST_SETTLED: Final = 100_000
"""Maximum number of settled dead letters whose ids are examined, so that a million discards don't slow a check down."""
_PROGRESS_S: Final = 8.0
"""Seconds within which a partition with a backlog should make progress. A worker that catches up takes turns among its
partitions, each for about a second; with slower records, as of images, a partition may wait longer than this."""
_LOOK_S: Final = 1.0


async def check_kafka(
    admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer, expected: ExpectedTopics
) -> AsyncIterator[Finding]:
    """Findings on brokers, topics and clocks. Raises aiokafka's errors if Kafka is unavailable."""
    cluster_topics = set(await admin.list_topics())
    cluster = await admin.describe_cluster()
    brokers = len(cluster["brokers"])
    yield ok("kafka", f"answers, {quantity(brokers, 'broker')}")
    names = expected.topics.all()
    missing = [name for name in names if name not in cluster_topics]
    if missing:
        yield failed("topics", f"missing {', '.join(missing)}", "`plaudit init` creates them.")
    existing = [name for name in names if name in cluster_topics]
    if not existing:
        return
    described = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics(existing)}
    configs = await topic_settings_of(admin, existing)
    problems = [*_layout_problems(described, expected, brokers), *settings_problems(configs, expected)]
    for problem in problems:
        yield problem
    if not problems and not missing:
        yield ok("topics", f"all {len(existing)} exist")
    partitions = [TopicPartition(name, p["partition"]) for name, partitions in described.items() for p in partitions]
    yield await _clock(
        consumer, [partition for partition in partitions if not partition.topic.endswith(DEAD_LETTER_SUFFIX)]
    )


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """The dead letters in Kafka."""

    count: int
    """Number of all of them, open or settled."""
    settled: int | None
    """Number of settled ones; None if unknown."""
    is_whole: bool = True
    """False if `settled` is only a lower bound."""


async def kept_letters(
    consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, topics: TopicNames, settled: Collection[str] | None
) -> KeptLetters:
    """Count the dead letters. `settled` has the ids of those that were replayed or discarded; if there are more than
    MOST_SETTLED, it may be incomplete."""
    cluster_topics = set(await admin.list_topics())
    names = [name for topic in CONSUMED if (name := topics.dead_letters(topic)) in cluster_topics]
    partitions = await partitions_of(admin, names)
    first, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    count = sum(ends[partition] - first[partition] for partition in partitions)
    if settled is None:
        return KeptLetters(count, None)
    first_offsets = {(partition.topic, partition.partition): first[partition] for partition in partitions}
    return KeptLetters(
        count, sum(_is_retained(id, first_offsets) for id in settled), is_whole=len(settled) <= MOST_SETTLED
    )


def _is_retained(letter: str, first_offsets: Mapping[tuple[str, int], int]) -> bool:
    topic, _, position = letter.rpartition("/")
    partition, offset, _ = position.split("-", 2)
    first_offset = first_offsets.get((topic, int(partition)))
    return first_offset is not None and int(offset) >= first_offset


def check_dead_letters(kept: KeptLetters) -> Finding:
    """A finding on the dead letters in Kafka."""
    if kept.count == 0:
        return ok("dead letters", "none")
    if kept.settled is None:
        text = f"{kept.count} retained"
    elif kept.settled >= kept.count:
        return ok("dead letters", f"0 open, {kept.settled} settled")
    elif not kept.is_whole:
        text = f"{kept.count} retained, at least {kept.settled} of them settled"
    else:
        text = f"{kept.count - kept.settled} open" + (f", {kept.settled} settled" if kept.settled else "")
    return warn(
        "dead letters",
        text,
        "`plaudit dlq summary` counts them by topic and code, `plaudit dlq list` shows the reasons.",
    )


@dataclass(frozen=True, slots=True)
class KafkaExamination:
    """The checks of Kafka that the API can run, on connections of its own."""

    connection: KafkaConnection
    expected: ExpectedTopics

    async def findings(self, lag: Lag | None, settled: Collection[str] | None) -> list[Finding]:
        """All findings, with `lag` as measured and `settled` as for `kept_letters`. Raises as `check_kafka`."""
        topics = self.expected.topics
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(admin_client(self.connection))
            consumer = AIOKafkaConsumer(**self.connection.client_options(), enable_auto_commit=False)
            stack.push_async_callback(consumer.stop)
            await consumer.start()
            found = [finding async for finding in check_kafka(admin, consumer, self.expected)]
            if lag is not None:
                found.append(check_lag(lag, await _unread_topics(admin, lag, topics)))
            return [*found, check_dead_letters(await kept_letters(consumer, admin, topics, settled))]


def _layout_problems(described: Mapping[str, list[Any]], expected: ExpectedTopics, brokers: int) -> Iterator[Finding]:
    layout = expected.layout
    leaderless = [name for name, ps in described.items() if any(p["leader"] < 0 for p in ps)]
    if leaderless:
        yield failed("topics", f"partitions without a leader in {', '.join(leaderless)}", "Check the brokers.")
    behind = [name for name, ps in described.items() if any(len(p["isr"]) < len(p["replicas"]) for p in ps)]
    if behind:
        yield warn("topics", f"replicas out of sync in {', '.join(behind)}", "Is a broker down?")
    consumed = {expected.topics.name(topic) for topic in CONSUMED}
    counts = {name: len(ps) for name, ps in described.items() if name in consumed}
    other = [f"{name} ({count})" for name, count in counts.items() if count != layout.partitions]
    if other:
        advice = (
            "Set PLAUDIT_KAFKA__PARTITIONS to the existing number; `plaudit topics grow` adds partitions and keeps the "
            "order."
        )
        yield warn("topics", f"without the configured {layout.partitions} partitions: {', '.join(other)}", advice)
    few = [name for name, ps in described.items() if any(len(p["replicas"]) < layout.replication_factor for p in ps)]
    if few:
        advice = "Add replicas with kafka-reassign-partitions."
        yield warn("topics", f"fewer than {layout.replication_factor} replicas of {', '.join(few)}", advice)
    elif brokers > 1 and layout.replication_factor == 1:
        advice = "Losing a broker would lose messages: set PLAUDIT_KAFKA__REPLICATION_FACTOR to 3."
        yield warn("topics", f"one replica of each topic on {brokers} brokers", advice)


async def _clock(consumer: AIOKafkaConsumer, partitions: list[TopicPartition]) -> Finding:
    # Timestamps come from the clock of the producer or the broker: one in the future means that the clock is wrong.
    future = int((time.time() + _FUTURE_S) * 1000)
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, future))
    # Tansu returns an end offset if there is no such record.
    wrong = sorted(
        {partition.topic for partition, at in found.items() if at is not None and (at.timestamp or 0) >= future}
    )
    if wrong:
        advice = "Synchronise producers, brokers and this machine with a time server: reviews are dated by these times."
        return warn("kafka clock", f"records with timestamps in the future in {', '.join(wrong)}", advice)
    return ok("kafka clock", "no record has a timestamp in the future")


async def check_consumption(
    admin: AIOKafkaAdminClient, connection: KafkaConnection, topics: TopicNames
) -> AsyncIterator[Finding]:
    """Findings on lag and progress, which take up to ten seconds if there is a backlog. The topics must exist."""
    try:
        async with ConsumerLag(connection, topics) as consumer_lag:
            earlier = await consumer_lag.measure()
            unread = await _unread_topics(admin, earlier, topics)
            lag, standing = await _watch(consumer_lag, earlier, unread)
    except BrokerAwayError as error:
        yield warn("lag", f"{error}", "Run this again: Kafka may have started a moment ago.")
        return
    unread = await _unread_topics(admin, lag, topics)
    yield check_lag(lag, unread)
    standing = {partition: offset for partition, offset in standing.items() if partition[0] not in unread}
    # Both measurements have a partition unless its topic was deleted or grown meanwhile.
    moving = {
        partition[0]
        for partition in lag.keys() & earlier.keys()
        if lag[partition].next_offset != earlier[partition].next_offset
    }
    yield await _progress(connection, topics, standing, moving)


async def _watch(consumer_lag: ConsumerLag, first: Lag, unread: Collection[Topic]) -> tuple[Lag, dict[Partition, int]]:
    """The latest lag, and the partitions with a backlog that stayed at their offset for _PROGRESS_S, with that offset.

    It ends once there are none. Topics that no consumer reads are left out.
    """
    lag, end = first, time.monotonic() + _PROGRESS_S
    standing = {
        partition: backlog.next_offset
        for partition, backlog in first.items()
        if backlog.records and partition[0] not in unread
    }
    while standing and time.monotonic() < end:
        await asyncio.sleep(_LOOK_S)
        lag = await consumer_lag.measure()
        standing = {
            partition: offset
            for partition, offset in standing.items()
            if partition in lag and lag[partition].next_offset == offset
        }
    return lag, standing


def check_lag(lag: Lag, unread: Collection[Topic]) -> Finding:
    """A finding on the measured lag: is it read, and is there much of it? `unread`: topics that no consumer reads."""
    by_topic = _by_topic(lag)
    text = ", ".join(f"{topic} {records}" for topic, records in by_topic.items() if records)
    missed = {
        topic: sum(each.missed for (each_topic, _), each in lag.items() if each_topic is topic) for topic in by_topic
    }
    if any(missed.values()):
        lost = ", ".join(f"{count} of {topic}" for topic, count in missed.items() if count)
        advice = "They are lost: have their producers send them again, and start workers before more are deleted."
        return failed("lag", f"retention deleted records before they were read: {lost}", advice)
    if unread:
        advice = "Start `plaudit worker`, for mail-commands `plaudit mailer`."
        named = ", ".join(f"{topic} ({by_topic[topic]})" for topic in unread)
        return failed("lag", f"no consumer group reads {named}", advice)
    if sum(by_topic.values()) >= _HIGH_LAG:
        advice = "Start more workers, up to one for every two partitions; or mailers, up to one per partition."
        return warn("lag", text, advice)
    return ok("lag", text or "none")


async def _unread_topics(admin: AIOKafkaAdminClient, lag: Lag, topics: TopicNames) -> list[Topic]:
    """The topics with a backlog whose consumer group has no member."""
    behind = [topic for topic, records in _by_topic(lag).items() if records]
    return [topic for topic in behind if not await _may_have_members(admin, topics.name(topic))]


def _by_topic(lag: Lag) -> dict[Topic, int]:
    records: dict[Topic, int] = {}
    for (topic, _), backlog in lag.items():
        records[topic] = records.get(topic, 0) + backlog.records
    return records


async def _progress(
    connection: KafkaConnection, topics: TopicNames, standing: Mapping[Partition, int], moving: Collection[Topic]
) -> Finding:
    """A finding on partitions that stay at an offset: is the record there older than STANDS_AFTER_S? It fails then, but
    only warns if others of the topic move and no transaction holds this one."""
    first = sorted(standing.items(), key=lambda each: each[0][0] in moving)
    for (topic, partition), offset in first[:_MAX_READ]:
        place = TopicPartition(topics.name(topic), partition)
        async with TopicReader.open(connection) as reader:
            record = await reader.record(place, offset)
        # A record without a timestamp may have arrived just now.
        if record is not None and record.timestamp >= 0 and time.time() - record.timestamp / 1000 > STANDS_AFTER_S:
            came = f"offset {offset}, a record of {from_milliseconds(record.timestamp):%Y-%m-%d %H:%M:%S} UTC"
            async with TopicReader.open(connection, isolation="read_committed") as reader:
                committed = (await reader.spans([place])).get(place, range(0))
                if committed.stop <= offset:
                    text = f"partition {partition} of {topic} waits at {came}, for an open transaction of a producer"
                    advice = "Have its owner end it: `kafka-transactions.sh find-hanging` finds it, `abort` ends it."
                    return failed("progress", text, advice)
            if topic in moving:
                text = f"partition {partition} of {topic} stays at {came}, while others move"
                advice = "Run this again: if it is still at that offset after a minute, see the logs of the workers."
                return warn("progress", text, advice)
            return failed("progress", f"partition {partition} of {topic} is stuck at {came}", "See the workers' logs.")
    return ok("progress", "no partition is stuck")


async def _may_have_members(admin: AIOKafkaAdminClient, group: str) -> bool:
    """False if a group certainly has no members.

    Kafka describes one of its newer protocol (KIP-848), as a mailer of somebody else may use, like one that never
    existed: it is known by its commits, and its members are not.
    """
    for response in await admin.describe_consumer_groups([group]):
        for described in response.to_object()["groups"]:
            if described["members"]:
                return True
            if described["state"] == "Dead":
                return bool(await admin.list_consumer_group_offsets(group))
    return False
