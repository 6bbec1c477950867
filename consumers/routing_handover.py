"""Handover of a partition of commands: the new worker waits until all that the old one forwarded is applied."""

import asyncio
from collections.abc import Collection
from typing import Final

from aiokafka import ConsumerRebalanceListener, TopicPartition

from messaging.kafka.connection import KafkaConnection
from messaging.kafka.lag import ConsumerLag, Ends
from messaging.topics import Topic, TopicNames

_LOOK_S: Final = 0.1
_TIMEOUT_S: Final = 10.0


class Handover(ConsumerRebalanceListener):  # type: ignore[misc]
    """Waits, once partitions of commands are assigned to us, until the commands that others forwarded are applied.

    Others may have used other partitions than we do: an older version has another rule, and a worker may have seen
    fewer partitions. A later command about the same review would overtake theirs.
    """

    def __init__(self, connection: KafkaConnection, topics: TopicNames) -> None:
        self._connection = connection
        self._topics = topics
        self._assignment = 1
        self._measured_assignment = 0
        self._ends: Ends = {}
        self._applied_assignment = 0

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Do nothing: the new owner waits."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Make the next `wait` wait: others may have had the partitions before."""
        self._assignment += 1

    async def wait(self) -> None:
        """Wait before commands are forwarded. Raises BrokerAwayError and KafkaError while Kafka is unavailable; the
        next call then waits for the same offsets, and not for records published meanwhile."""
        assignment = self._assignment
        if self._applied_assignment == assignment:
            return
        async with ConsumerLag(self._connection, self._topics, timeout=_TIMEOUT_S) as lag:
            if self._measured_assignment != assignment:
                self._ends = await lag.ends(Topic.REVIEW_CHANGES)
                self._measured_assignment = assignment
            while unapplied := await lag.unapplied(self._ends):
                self._ends = unapplied
                await asyncio.sleep(_LOOK_S)
        self._applied_assignment = assignment
