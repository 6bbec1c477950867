"""The turns of workers: one passes on the commands of a partition behind those that another has passed on of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from domain.delivery import RecordPosition
from messaging.kafka.connection import BrokerAwayError, KafkaConnection
from messaging.kafka.lag import Backlog, ConsumerLag
from messaging.topics import Topic, TopicNames

_LOOK_S: Final = 0.05
_NOWHERE: Final = Backlog(0, -1)


class Turns:
    """Waits, where others have passed on commands of a partition, until their effects are there.

    They may have put them elsewhere than we do: an older version by another rule, or one that saw fewer partitions. A
    later command about the same review would overtake them there. Such a change shows in the offsets: they don't go on
    where our last ones ended.
    """

    def __init__(self, connection: KafkaConnection, topics: TopicNames) -> None:
        self._connection = connection
        self._topics = topics
        self._next: dict[int, int] = {}

    async def wait(self, positions: Iterable[RecordPosition]) -> None:
        """Wait before these commands are passed on. Raises BrokerAwayError and KafkaError while Kafka is away."""
        first: dict[int, int] = {}
        for position in positions:
            first.setdefault(position.partition, position.offset)
        if any(self._next.get(partition) != offset for partition, offset in first.items()):
            await self._until_applied()

    def note(self, positions: Iterable[RecordPosition]) -> None:
        """These commands have been passed on."""
        self._next |= {position.partition: position.offset + 1 for position in positions}

    async def _until_applied(self) -> None:
        """Wait until the changes that are there now have been applied."""
        lag = ConsumerLag(self._connection, self._topics)
        try:
            ahead = {number: each.next_offset + each.records for number, each in (await _changes(lag)).items()}
            while ahead:
                now = await _changes(lag)
                ahead = {number: end for number, end in ahead.items() if now.get(number, _NOWHERE).next_offset < end}
                if ahead:
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError as error:
            raise BrokerAwayError("Kafka did not tell in time how far the changes are applied") from error
        finally:
            await lag.stop()


async def _changes(lag: ConsumerLag) -> Mapping[int, Backlog]:
    found = await lag.measure()
    return {number: each for (topic, number), each in found.items() if topic is Topic.REVIEW_CHANGES}
