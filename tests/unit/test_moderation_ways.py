"""The route of moderation commands: through the router whenever Kafka's lag isn't known to be zero."""

import pytest
from aiokafka.errors import ConsumerStoppedError, IllegalStateError, NodeNotReadyError

from api.moderation_ways import ModerationWays
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.partition_counts import PartitionCounts, never_grew
from messaging.topics import Topic, TopicNames


class Told(ConsumerLag):
    """A lag check that returns or raises the given value."""

    def __init__(self, told: bool | Exception) -> None:
        super().__init__(KafkaConnection("127.0.0.1:1"), TopicNames(""))
        self._told = told

    async def is_read(self, topic: Topic) -> bool:
        if isinstance(self._told, Exception):
            raise self._told
        return self._told


@pytest.mark.parametrize(
    "told", [False, TimeoutError(), NodeNotReadyError(), ConsumerStoppedError(), IllegalStateError(), KeyError(1)]
)
async def test_in_doubt_commands_go_by_the_router(told: bool | Exception) -> None:
    assert not await ModerationWays(Told(told), PartitionCounts(never_grew, "review-changes")).is_straight()


async def test_they_go_straight_while_nothing_is_on_its_way() -> None:
    assert await ModerationWays(Told(True), PartitionCounts(never_grew, "review-changes")).is_straight()
