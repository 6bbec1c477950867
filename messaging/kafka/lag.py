"""The lag of the consumer groups, measured from outside, so that it is known even if no consumer runs."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import UnknownTopicOrPartitionError
from aiokafka.structs import OffsetAndMetadata

from messaging.kafka.administration import partitions_of
from messaging.kafka.connection import BrokerAwayError, KafkaConnection, in_time
from messaging.kafka.topic_reader import TopicReader
from messaging.topics import Topic, TopicNames

_READ_TIMEOUT_S: Final = 15.0
_NO_ANSWER: Final = "Kafka did not return consumer offsets in time"


class Unread(NamedTuple):
    """The backlog of one partition."""

    records: int
    """Number of records that its group has yet to commit."""
    next_offset: int
    """Offset of the first of them."""
    missed: int = 0
    """Number of records that retention deleted before the group read them."""

    @property
    def end(self) -> int:
        """The offset after the last of them."""
        return self.next_offset + self.records


Partition = tuple[Topic, int]
"""A topic and the number of one of its partitions."""

Lag = dict[Partition, Unread]

Ends = Mapping[Partition, int]
"""The offset after the last record of each partition, at one moment."""


class _Group(NamedTuple):
    """The partitions that a group reads, and the broker that stores its offsets."""

    partitions: list[TopicPartition]
    coordinator: int


class ConsumerLag:
    """Asks Kafka for end offsets and for the committed offsets of groups; keeps its two clients open between calls.

    Raises aiokafka's errors, or BrokerAwayError, also if Kafka doesn't answer in time. The next call makes new clients.
    As a context manager it disconnects at the end.
    """

    def __init__(self, connection: KafkaConnection, topics: TopicNames, *, timeout: float = 3.0) -> None:
        self._connection = connection
        self._topics = topics
        self._timeout: Final = timeout
        self._admin: AIOKafkaAdminClient | None = None
        self._reader: AIOKafkaConsumer | None = None
        self._groups: dict[str, _Group] = {}
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def another(self) -> "ConsumerLag":
        """A copy with its own clients: a failed call closes the clients of all concurrent calls of one instance."""
        return ConsumerLag(self._connection, self._topics, timeout=self._timeout)

    async def measure(self, *topics: Topic) -> Lag:
        """The lag of every partition of these topics; without arguments, of all consumed topics."""
        async with self._stop_on_error():
            return await self._measure(*await self._clients(), topics or tuple(Topic))

    async def ends(self, *topics: Topic) -> Ends:
        """The current ends of these topics.

        Also raises UnknownTopicOrPartitionError: a missing topic, or one that the broker has yet to learn of, may have
        records.
        """
        measured = await self.measure(*topics)
        if missing := sorted(set(topics) - {topic for topic, _ in measured}):
            raise UnknownTopicOrPartitionError(f"Kafka has no topic {', '.join(map(self._topics.name, missing))}")
        return {partition: each.end for partition, each in measured.items()}

    async def unapplied(self, ends: Ends) -> Ends:
        """Those of these ends that the groups have yet to reach. A recreated topic has no end of the earlier one; a
        missing topic may come back with them."""
        if not ends:
            return {}
        measured = await self.measure(*{topic for topic, _ in ends})
        present = {topic for topic, _ in measured}

        def is_unapplied(partition: Partition, end: int) -> bool:
            if each := measured.get(partition):
                return each.next_offset < end <= each.end
            return partition[0] not in present

        return {partition: end for partition, end in ends.items() if is_unapplied(partition, end)}

    async def is_read(self, topic: Topic) -> bool:
        """True if the group of a topic has committed every record that was acknowledged before this call.

        Also raises UnknownTopicOrPartitionError: a missing topic, or one that the broker has yet to learn of, may have
        records.
        """
        name = self._topics.name(topic)
        async with self._stop_on_error():
            admin, reader = await self._clients()
            if (group := self._groups.pop(name, None)) is None:
                group = _Group(await partitions_of(admin, [name]), await admin.find_coordinator(name))
            partitions, ends, committed = await asyncio.gather(
                partitions_of(admin, [name]),
                reader.end_offsets(group.partitions),
                admin.list_consumer_group_offsets(name, group.coordinator, group.partitions),
            )
        if not partitions:
            raise UnknownTopicOrPartitionError(f"Kafka has no topic {name}")
        if partitions != group.partitions or not all(_is_committed(committed.get(p), ends[p]) for p in partitions):
            return False
        # Only now: a broker that is no longer the coordinator returns no commits.
        self._groups[name] = group
        return True

    async def oldest_unread(self, topic: Topic, latest: float) -> float | None:
        """The timestamp of a topic's oldest uncommitted record, in seconds of Unix time; None if all records are
        committed. Control records, such as the end of a transaction, don't count.

        It is 0 if the next record of any partition has no time since 1970, or one after `latest`, which says nothing
        about the records behind it.
        """
        if await self.is_read(topic):
            return None
        offsets = {
            partition: each.next_offset for partition, each in (await self.measure(topic)).items() if each.records
        }
        times = await self.times(offsets)
        return min((0.0 if time is None or time > latest else time for time in times.values()), default=None)

    async def times(self, offsets: Mapping[Partition, int]) -> dict[Partition, float | None]:
        """The timestamp of the first record at or after each of these offsets, in seconds of Unix time; None if it has
        none since 1970. Partitions without such a record are left out."""
        originals = {TopicPartition(self._topics.name(each[0]), each[1]): each for each in offsets}
        async with in_time(_READ_TIMEOUT_S, _NO_ANSWER), TopicReader.open(self._connection) as reader:
            found = await reader.firsts({each: offsets[partition] for each, partition in originals.items()})
        return {
            originals[each]: record.timestamp / 1000 if record.timestamp >= 0 else None
            for each, record in found.items()
        }

    async def stop(self) -> None:
        """Disconnect."""
        admin, self._admin, reader, self._reader = self._admin, None, self._reader, None
        self._groups.clear()
        if admin is not None:
            await admin.close()
        if reader is not None:
            await reader.stop()

    @asynccontextmanager
    async def _stop_on_error(self) -> AsyncIterator[None]:
        try:
            async with in_time(self._timeout, _NO_ANSWER):
                yield
        except BaseException:
            await self.stop()
            raise

    async def _clients(self) -> tuple[AIOKafkaAdminClient, AIOKafkaConsumer]:
        async with self._connecting:
            # A concurrent call that fails removes them.
            if (admin := self._admin) is None:
                admin = self._admin = AIOKafkaAdminClient(**self._connection.client_options())
                await admin.start()
            if (reader := self._reader) is None:
                reader = self._reader = AIOKafkaConsumer(**self._connection.client_options(), enable_auto_commit=False)
                await reader.start()
            return admin, reader

    async def _measure(self, admin: AIOKafkaAdminClient, reader: AIOKafkaConsumer, topics: Collection[Topic]) -> Lag:
        names = {self._topics.name(topic): topic for topic in topics if topic.is_consumed}
        partitions = await partitions_of(admin, list(names))
        if not partitions:
            return {}
        by_topic = {name: list(each) for name, each in groupby(partitions, key=attrgetter("topic"))}
        first, ends, *groups = await asyncio.gather(
            reader.beginning_offsets(partitions),
            reader.end_offsets(partitions),
            # A group has its topic's name. Partitions are explicit, because Tansu can't list all that it knows.
            *(admin.list_consumer_group_offsets(name, partitions=each) for name, each in by_topic.items()),
        )
        answered = {partition: offset.offset for group in groups for partition, offset in group.items()}
        # An answer has offset -1 for a partition that was never committed. It has no partitions if the broker is no
        # longer the coordinator, or still loads the group.
        if unanswered := sorted({partition.topic for partition in partitions if partition not in answered}):
            raise BrokerAwayError(f"Kafka returns no committed offsets at the moment for {', '.join(unanswered)}")
        committed = {partition: offset for partition, offset in answered.items() if offset >= 0}
        # Records deleted by retention are no backlog.
        next_offsets = {partition: max(committed.get(partition, 0), first[partition]) for partition in partitions}
        return {
            (names[partition.topic], partition.partition): Unread(
                max(0, ends[partition] - offset), offset, max(0, offset - committed.get(partition, offset))
            )
            for partition, offset in next_offsets.items()
        }


def _is_committed(committed: OffsetAndMetadata | None, end: int) -> bool:
    return end == 0 or (committed is not None and committed.offset >= end)
