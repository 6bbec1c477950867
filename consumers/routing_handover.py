"""Hand-over of a partition of commands: its new worker waits until what the old one passed on is applied."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from aiokafka import ConsumerRebalanceListener, TopicPartition

from messaging.kafka.connection import KafkaConnection
from messaging.kafka.lag import ConsumerLag, Unread
from messaging.topics import Topic, TopicNames

_LOOK_S: Final = 0.1
_TIMEOUT_S: Final = 10.0


class Handover(ConsumerRebalanceListener):  # type: ignore[misc]
    """Waits, once partitions of commands have been assigned to us, until what others passed on of them is applied.

    They may have put it elsewhere than we do: an older version by another rule, or one that saw fewer partitions. A
    later command about the same review would overtake it there.
    """

    def __init__(self, connection: KafkaConnection, topics: TopicNames) -> None:
        self._connection = connection
        self._topics = topics
        self._assignment = 1
        self._awaited = 0
        self._ahead: dict[int, int] = {}
        self._begun = 0

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Nothing: whoever gets them waits."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Others may have had them before."""
        self._assignment += 1

    async def wait(self) -> None:
        """Wait before commands are passed on. Raises BrokerAwayError and KafkaError while Kafka is away; the next call
        goes on then, for what has come meanwhile isn't waited for."""
        assignment = self._assignment
        if self._begun == assignment:
            return
        lag = ConsumerLag(self._connection, self._topics, timeout=_TIMEOUT_S)
        try:
            if self._awaited != assignment:
                self._ahead = {number: each.end for number, each in (await _changes(lag)).items()}
                self._awaited = assignment
            await self._until_applied(lag)
        finally:
            await lag.stop()
        self._begun = assignment

    async def _until_applied(self, lag: ConsumerLag) -> None:
        """Wait until the changes that are ahead have been applied, or are gone with their topic."""
        while self._ahead:
            now = await _changes(lag)
            self._ahead = {number: end for number, end in self._ahead.items() if _may_come(now, number, end)}
            if self._ahead:
                await asyncio.sleep(_LOOK_S)


def _may_come(now: Mapping[int, Unread], number: int, end: int) -> bool:
    """True if changes before this end of a partition are still to be applied. A topic that was made anew has none of
    them; while there is no topic, it may come back with them."""
    each = now.get(number)
    return not now if each is None else each.next_offset < end <= each.end


async def _changes(lag: ConsumerLag) -> Mapping[int, Unread]:
    return {number: each for (_, number), each in (await lag.measure(Topic.REVIEW_CHANGES)).items()}
