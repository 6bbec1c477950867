"""A reader of topics from their end, without a consumer group: every process that follows them sees every record."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from domain.timestamps import from_milliseconds, milliseconds
from messaging.decoding import LATEST_MS
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.record_batches import read_within_bounds
from messaging.server_errors import for_log

log = structlog.get_logger()

_PAUSES_S: Final = (1.0, 2.0, 5.0)


class Tail:
    """Follows topics, by their full names."""

    def __init__(self, connection: KafkaConnection, topics: Sequence[str]) -> None:
        self._connection = connection
        self._topics = topics

    async def records(self, since: datetime) -> AsyncGenerator[Any]:
        """The records that arrived since this time, and all that arrive, in order within each partition.

        While Kafka is unavailable it waits, and then continues at the timestamp of each partition's last record: that
        one may be repeated. A record that can't be decoded has an unreadable value.
        """
        read_within_bounds()
        reached: dict[TopicPartition, datetime] = {}
        failures = 0
        while True:
            try:
                async with AIOKafkaConsumer(
                    *self._topics,
                    **self._connection.client_options(),
                    enable_auto_commit=False,
                    auto_offset_reset="latest",
                ) as consumer:
                    await self._seek(consumer, since, reached)
                    async for record in consumer:
                        failures = 0
                        # A producer can write anything there: it can't continue from a timestamp that is out of range.
                        if 0 <= record.timestamp <= LATEST_MS:
                            place = TopicPartition(record.topic, record.partition)
                            reached[place] = from_milliseconds(record.timestamp)
                        yield record
            except (KafkaError, OSError) as error:
                pause = _PAUSES_S[min(failures, len(_PAUSES_S) - 1)]
                failures += 1
                log.warning("Topics can't be read at the moment", error=for_log(error), pause_s=pause)
                await asyncio.sleep(pause)

    async def _seek(
        self, consumer: AIOKafkaConsumer, since: datetime, reached: Mapping[TopicPartition, datetime]
    ) -> None:
        partitions = consumer.assignment()
        # In this order: a record that arrives between the two answers is after the known end.
        ends = await consumer.end_offsets(list(partitions))
        offsets = await consumer.offsets_for_times({p: milliseconds(reached.get(p, since)) for p in partitions})
        for partition in partitions:
            found = offsets.get(partition)
            consumer.seek(partition, found.offset if found else ends[partition])
