"""A reader of topics for the tools: their present records, once, without a consumer group."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from messaging.decoding import RawRecord
from messaging.kafka.aiokafka_internals import look_up_topics
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.record_batches import read_within_bounds
from messaging.topics import MAX_DEAD_LETTER_BYTES

_POLL_MS: Final = 300
_MAX_RECORDS: Final = 500


class TopicReader:
    """Streams the records of topics; memory holds one batch, however long they are. Commits nothing.

    Use it within `open`. On brokers whose reported ends are one batch behind (Tansu), the last batch is left out.
    """

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    @classmethod
    @asynccontextmanager
    async def open(
        cls, connection: KafkaConnection, *, isolation: str = "read_uncommitted"
    ) -> "AsyncIterator[TopicReader]":
        """A connected reader. With the `isolation` read_committed, topics end for it where a transaction is open."""
        read_within_bounds()
        consumer = AIOKafkaConsumer(
            **connection.client_options(),
            enable_auto_commit=False,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=1024 * 1024,
            fetch_max_bytes=MAX_DEAD_LETTER_BYTES,
        )
        try:
            await consumer.start()
            await asyncio.sleep(0)  # a consumer that is stopped before its tasks start raises CancelledError
            yield cls(consumer)
        finally:
            await consumer.stop()

    async def batches(
        self, partitions: Collection[TopicPartition], *, since: datetime | None = None
    ) -> AsyncIterator[list[RawRecord]]:
        """The present records of these partitions from a time on, in order within each partition.

        Records that arrive meanwhile are not read, so it ends.
        """
        spans = await self.spans(partitions)
        if spans and since is not None:
            milliseconds = max(0, int(since.timestamp() * 1000))  # no record is older than 1970
            found = await self._consumer.offsets_for_times(dict.fromkeys(spans, milliseconds))
            spans = {p: range(found[p].offset, span.stop) for p, span in spans.items() if found.get(p) is not None}
        async for records in self.between(spans):
            yield records

    async def spans(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, range]:
        """The offsets of the present records of each partition; partitions without records are left out."""
        if not partitions:
            return {}
        look_up_topics(self._consumer, {partition.topic for partition in partitions})
        begins = await self._consumer.beginning_offsets(list(partitions))
        ends = await self._consumer.end_offsets(list(partitions))
        return {
            partition: range(begins[partition], ends[partition])
            for partition in partitions
            if begins[partition] < ends[partition]
        }

    async def newest(self, partitions: Collection[TopicPartition], count: int) -> list[RawRecord]:
        """The records at the last `count` offsets of each partition, in order within it."""
        spans = {partition: span[-count:] for partition, span in (await self.spans(partitions)).items()}
        return [record async for records in self.between(spans) for record in records]

    async def firsts(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, RawRecord]:
        """The first present record at or after these offsets of each partition; partitions without one are left out."""
        spans = {p: range(offsets[p], span.stop) for p, span in (await self.spans(list(offsets))).items()}
        found = [record async for (record,) in self.between(spans, only_first=True)]
        return {TopicPartition(record.topic, record.partition): record for record in found}

    async def between(
        self, spans: Mapping[TopicPartition, range], *, only_first: bool = False
    ) -> AsyncIterator[list[RawRecord]]:
        """The records at these offsets of each partition, in order within it; with `only_first`, the first of each
        alone. Ends earlier if a topic was recreated meanwhile, and has fewer offsets."""
        left = {partition: span.stop for partition, span in spans.items() if span}
        self._consumer.assign(list(left))
        for partition in left:
            self._consumer.seek(partition, spans[partition].start)
        while left:
            found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_MAX_RECORDS)
            for partition, records in found.items():
                first, end = spans[partition].start, left.get(partition, 0)
                wanted = [record for record in records if first <= record.offset < end]  # a new topic begins at 0
                if wanted and only_first:
                    left[partition] = 0
                    yield wanted[:1]
                elif wanted:
                    yield wanted
            ends = {} if found else await self._consumer.end_offsets(list(left))
            for partition in list(left):
                left[partition] = min(left[partition], ends.get(partition, left[partition]))
                if await self._consumer.position(partition) >= left[partition]:
                    self._consumer.pause(partition)
                    del left[partition]

    async def record(self, partition: TopicPartition, offset: int) -> RawRecord | None:
        """The record at an offset; None if there is none."""
        span = (await self.spans([partition])).get(partition)
        if span is None or offset not in span:
            return None
        async for records in self.between({partition: range(offset, offset + 1)}):
            return records[0]
        return None
