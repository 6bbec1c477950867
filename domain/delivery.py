"""Exactly-once effects: the records that have been applied, and the messages that are owed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class RecordPosition(NamedTuple):
    """The position of a record in its topic: partition, offset and timestamp (milliseconds since 1970)."""

    partition: int
    offset: int
    timestamp: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}-{self.timestamp}"


@dataclass(frozen=True, slots=True)
class Seen:
    """For each partition of one topic, the last record that a thing has taken into account.

    A topic delivers the records of a partition in order, so everything up to that record is old: a redelivery,
    a replay, a duplicate of a consumer that was believed dead. The size is bounded by the number of partitions,
    usually one. The timestamp is kept beside the offset because offsets start again at 0 when a topic is created
    anew over data that stays.
    """

    marks: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def covers(self, position: RecordPosition) -> bool:
        """True if the record has been taken into account."""
        offset, timestamp = self.marks.get(position.partition, (-1, -1))
        return position.offset <= offset and position.timestamp <= timestamp

    def after(self, position: RecordPosition) -> Seen:
        """The marks once this record, too, has been taken into account."""
        offset, timestamp = self.marks.get(position.partition, (-1, -1))
        restarted = position.offset <= offset and position.timestamp > timestamp
        mark = (position.offset if restarted else max(offset, position.offset), max(timestamp, position.timestamp))
        return Seen({**self.marks, position.partition: mark})


class OutgoingMessage(NamedTuple):
    """A message on its way out: full topic name, key (None: any partition), value and headers, which can be null."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
