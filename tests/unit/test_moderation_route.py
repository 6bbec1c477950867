"""The route of moderation commands: through the router whenever Kafka's lag isn't known to be zero."""

import pytest
from aiokafka.errors import ConsumerStoppedError, IllegalStateError, NodeNotReadyError

from api.moderation_route import ModerationRoute
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.partition_counts import PartitionCounts, never_grew
from messaging.topics import Topic, TopicNames


class FixedLag(ConsumerLag):
    """A lag check that returns or raises the given value."""

    def __init__(self, answer: bool | Exception) -> None:
        super().__init__(KafkaConnection("127.0.0.1:1"), TopicNames(""))
        self._answer = answer

    async def is_read(self, topic: Topic) -> bool:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    "answer", [False, TimeoutError(), NodeNotReadyError(), ConsumerStoppedError(), IllegalStateError(), KeyError(1)]
)
async def test_commands_go_through_the_router_if_in_doubt(answer: bool | Exception) -> None:
    assert not await ModerationRoute(FixedLag(answer), PartitionCounts(never_grew, "review-changes")).is_direct()


async def test_commands_go_straight_while_the_router_is_idle() -> None:
    assert await ModerationRoute(FixedLag(True), PartitionCounts(never_grew, "review-changes")).is_direct()
