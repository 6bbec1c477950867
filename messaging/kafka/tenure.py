"""The partitions that a consumer holds, and since when."""

import asyncio
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from messaging.kafka.aiokafka_internals import assignment_end, generation

_NONE: Final = -1


class Tenure:
    """The assignments of a consumer that has started, and since which of them each partition has been its own.

    A partition that is in two generations of the group, one right after the other, was nobody else's in between. The
    assignments are counted here: where Kafka has forgotten a group, its generations begin anew.
    """

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self._generation = _NONE
        self._since: dict[TopicPartition, int] = {}
        self.assignments = 0
        self._note()

    @property
    def is_current(self) -> bool:
        """False while partitions are being assigned anew, and once the consumer has left its group."""
        return _NONE < self._generation == generation(self._consumer)

    def held_since(self, assignment: int) -> set[TopicPartition]:
        """The partitions that have been the consumer's without a break since that assignment."""
        return {partition for partition, since in self._since.items() if since <= assignment}

    def _note(self, _: asyncio.Future[None] | None = None) -> None:
        now = generation(self._consumer)
        held = self._since if now == self._generation + 1 else {}
        self.assignments += 1
        self._since = {partition: held.get(partition, self.assignments) for partition in self._consumer.assignment()}
        self._generation = now
        assignment_end(self._consumer).add_done_callback(self._note)
