"""Reading a topic once, without a broker."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from messaging.kafka.topic_reader import TopicReader

PLACE = TopicPartition("topic", 0)


class RecreatedTopic:
    """A consumer of a topic that was deleted, and has two records again: it continues at the first of them."""

    def __init__(self) -> None:
        self.left = [SimpleNamespace(offset=offset) for offset in range(2)]

    def assign(self, partitions: Collection[TopicPartition]) -> None: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def pause(self, partition: TopicPartition) -> None: ...

    async def getmany(self, **_: int) -> dict[TopicPartition, list[Any]]:
        found, self.left = self.left, []
        return {PLACE: found} if found else {}

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {PLACE: 2}

    async def position(self, partition: TopicPartition) -> int:
        return 2 - len(self.left)


@pytest.mark.parametrize(("wanted", "found"), [(range(3), [0, 1]), (range(1, 3), [1]), (range(5, 6), [])])
async def test_records_of_a_recreated_topic_take_no_places_of_earlier_ones(wanted: range, found: list[int]) -> None:
    reader = TopicReader(cast("Any", RecreatedTopic()))
    assert [record.offset async for records in reader.between({PLACE: wanted}) for record in records] == found
