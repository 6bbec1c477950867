"""The partitions that a consumer holds, since which assignment, and how far it has committed them."""

import asyncio
from collections.abc import Collection
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from messaging.kafka.aiokafka_internals import assignment_end, drained_positions, generation

_NO_GENERATION: Final = -1


class Tenure:
    """The assignments of a started consumer, and since which of them it has held each partition.

    `committed` has the offsets that it has committed under the current one.

    A partition held in two consecutive generations of the group was nobody else's in between. Assignments are counted
    here, because generations start again when Kafka has forgotten a group.
    """

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self._generation = _NO_GENERATION
        self._since: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.assignments = 0
        self._note_assignment()

    @property
    def is_current(self) -> bool:
        """False during a rebalance, and once the consumer has left its group."""
        return _NO_GENERATION < self._generation == generation(self._consumer)

    def held_since(self, assignment: int) -> set[TopicPartition]:
        """The partitions that the consumer has held without a break since that assignment."""
        return {partition for partition, since in self._since.items() if since <= assignment}

    def passed(self, in_hand: Collection[TopicPartition] = ()) -> dict[TopicPartition, int]:
        """Positions beyond the offsets committed under the current assignment, in partitions from which no fetched
        record waits: neither in the consumer's buffer, nor in the hands of its caller.

        All records before them are processed: only control records, such as the ends of transactions, lie between.
        """
        return {
            partition: position
            for partition, position in drained_positions(self._consumer).items()
            if partition not in in_hand
            and self._consumer.highwater(partition) is not None
            and position > self.committed.get(partition, -1)
        }

    def _note_assignment(self, _: asyncio.Future[None] | None = None) -> None:
        now = generation(self._consumer)
        held = self._since if now == self._generation + 1 else {}
        self.assignments += 1
        self.committed = {}
        self._since = {partition: held.get(partition, self.assignments) for partition in self._consumer.assignment()}
        self._generation = now
        assignment_end(self._consumer).add_done_callback(self._note_assignment)
