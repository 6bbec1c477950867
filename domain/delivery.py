"""Exactly-once effects: the records that have been applied, and the messages that are owed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import merge
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

REMEMBERED_MESSAGES: Final = 200
"""So many of the messages that wrote a review are remembered: the first one, and the last ones."""


def digest_of(told: str) -> int:
    """The digest of what a message says, by which a repeat is known. 63 bits."""
    return int.from_bytes(blake2b(told.encode(errors="surrogatepass"), digest_size=8).digest()) >> 1


_NOWHERE: Final = -1
"""The partition and the offset of a record whose place says nothing of its age."""


class RecordPosition(NamedTuple):
    """The position of a record in its topic: partition, offset and timestamp (milliseconds since 1970)."""

    partition: int
    offset: int
    timestamp: int

    @classmethod
    def of_time(cls, timestamp: int) -> "RecordPosition":
        """The position of a record whose age is known by this time alone, as that of a replay."""
        return cls(_NOWHERE, _NOWHERE, timestamp)

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}-{self.timestamp}"

    def covers(self, position: "RecordPosition") -> bool:
        """True for a record that is no newer: by its offset in the same partition, else by its time."""
        if position.partition == self.partition != _NOWHERE:
            return position.offset <= self.offset and position.timestamp <= self.timestamp
        return position.timestamp < self.timestamp

    def after(self, position: "RecordPosition") -> "RecordPosition":
        """The given position, with the later of both times: the mark once its record has been applied on top. One that
        is known by its time alone leaves the place as it is."""
        last = self if position.partition == _NOWHERE else position
        return last._replace(timestamp=max(self.timestamp, position.timestamp))


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

    def after(self, position: RecordPosition) -> "Seen":
        """The marks once this record, too, has been taken into account."""
        offset, timestamp = self.marks.get(position.partition, (-1, -1))
        restarted = position.offset <= offset and position.timestamp > timestamp
        mark = (position.offset if restarted else max(offset, position.offset), max(timestamp, position.timestamp))
        return Seen({**self.marks, position.partition: mark})


NOTHING_SEEN: Final = Seen()


def in_turn(items: Iterable[T], position: Callable[[T], RecordPosition]) -> list[T]:
    """Items in the order of their records: by offset within a partition, whatever their times, else by time."""
    partitions: dict[int, list[T]] = {}
    for item in items:
        partitions.setdefault(position(item).partition, []).append(item)
    ordered = [sorted(each, key=lambda item: position(item)[1:]) for _, each in sorted(partitions.items())]
    return list(merge(*ordered, key=lambda item: position(item).timestamp))


class Written(NamedTuple):
    """The last record that wrote a review, and marks of the messages that did, the oldest first.

    The first message stays among them however many there are: it is the one that is sent again most often.
    """

    position: RecordPosition
    messages: tuple[int, ...] = ()

    def covers(self, position: RecordPosition) -> bool:
        """True for a record that is no newer: by its offset in the same partition, else by its time."""
        return self.position.covers(position)

    def after(self, position: RecordPosition, message: int) -> "Written":
        """The same once this record has written the review."""
        messages = (*self.messages[:1], *self.messages[1:][2 - REMEMBERED_MESSAGES :], message)
        return Written(self.position.after(position), messages)


NEVER_WRITTEN: Final = Written(RecordPosition(-1, -1, 0))
"""Every record is newer."""


class OutgoingMessage(NamedTuple):
    """A message on its way out: full topic name, key (None: any partition), value and headers, which can be null."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
