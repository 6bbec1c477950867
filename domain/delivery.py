"""Exactly-once effects: marks of the records that have been applied, and outgoing messages."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import merge
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

REMEMBERED_MESSAGES: Final = 200
"""Maximum number of messages that a review remembers having been written by: the first one, and the last ones."""


def content_digest(content: str) -> int:
    """A 63-bit digest of a message's content, by which a repeat is recognised."""
    return int.from_bytes(blake2b(content.encode(errors="surrogatepass"), digest_size=8).digest()) >> 1


_NOWHERE: Final = -1
"""Partition and offset of a record whose age follows from its timestamp alone."""


class RecordPosition(NamedTuple):
    """The position of a record in its topic: partition, offset and timestamp (milliseconds since 1970)."""

    partition: int
    offset: int
    timestamp: int

    @classmethod
    def of_time(cls, timestamp: int) -> "RecordPosition":
        """A position without partition and offset, as of a replay: its age follows from the timestamp alone."""
        return cls(_NOWHERE, _NOWHERE, timestamp)

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}-{self.timestamp}"

    def covers(self, position: "RecordPosition") -> bool:
        """True for a record that is not newer: by offset and time in the same partition, else by an earlier time."""
        if position.partition == self.partition != _NOWHERE:
            return position.offset <= self.offset and position.timestamp <= self.timestamp
        return position.timestamp < self.timestamp

    def after(self, position: "RecordPosition") -> "RecordPosition":
        """The mark after a record is applied: the record's partition and offset, and the later of both times.

        A position that has only a timestamp leaves partition and offset unchanged.
        """
        last = self if position.partition == _NOWHERE else position
        return last._replace(timestamp=max(self.timestamp, position.timestamp))


@dataclass(frozen=True, slots=True)
class Seen:
    """The last record of each partition of one topic that has been applied to a review, a return or a store.

    Kafka delivers the records of a partition in order, so everything up to that record is old: a redelivery,
    a replay, a duplicate from a consumer that was believed dead. The size is bounded by the number of partitions,
    usually one. The timestamp is kept beside the offset because offsets restart at 0 when a topic is recreated while
    the data stays.
    """

    marks: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Offset and timestamp by partition."""

    def covers(self, position: RecordPosition) -> bool:
        """True if the record has been applied."""
        offset, timestamp = self.marks.get(position.partition, (-1, -1))
        return position.offset <= offset and position.timestamp <= timestamp

    def after(self, position: RecordPosition, *, is_late: bool = False) -> "Seen":
        """The marks after this record, too, has been applied. `is_late`: records behind it, perhaps with earlier times,
        may have been applied before it; otherwise a lower offset with a later time is that of a recreated topic."""
        offset, timestamp = self.marks.get(position.partition, (-1, -1))
        restarted = not is_late and position.offset <= offset and position.timestamp > timestamp
        mark = (position.offset if restarted else max(offset, position.offset), max(timestamp, position.timestamp))
        return Seen({**self.marks, position.partition: mark})

    def positions(self) -> list[RecordPosition]:
        """The last record of each partition, with the latest time of any record there."""
        return [RecordPosition(partition, *mark) for partition, mark in self.marks.items()]


NOTHING_SEEN: Final = Seen()


def in_turn(items: Iterable[T], position: Callable[[T], RecordPosition]) -> list[T]:
    """Items in record order: by offset within a partition, whatever the times, and by time across partitions."""
    partitions: dict[int, list[T]] = {}
    for item in items:
        partitions.setdefault(position(item).partition, []).append(item)
    ordered = [sorted(each, key=lambda item: position(item)[1:]) for _, each in sorted(partitions.items())]
    return list(merge(*ordered, key=lambda item: position(item).timestamp))


def in_parts(items: Iterable[T], most: int, size: Callable[[T], int] = lambda _: 1) -> Iterator[list[T]]:
    """Items in consecutive parts of at most `most` items, or whose sizes add up to that; an item that is larger is a
    part of its own."""
    part, total = list[T](), 0
    for item in items:
        if part and total + size(item) > most:
            yield part
            part, total = [], 0
        part.append(item)
        total += size(item)
    if part:
        yield part


class Written(NamedTuple):
    """The last record that wrote a review, and digests of the messages that wrote it, oldest first.

    The first message is never dropped: it is the one that is sent again most often.
    """

    position: RecordPosition
    messages: tuple[int, ...] = ()

    def covers(self, position: RecordPosition) -> bool:
        """True for a record that is not newer: by offset and time in the same partition, else by an earlier time."""
        return self.position.covers(position)

    def after(self, position: RecordPosition, message: int) -> "Written":
        """The state after this record and message have written the review."""
        messages = (*self.messages[:1], *self.messages[1:][2 - REMEMBERED_MESSAGES :], message)
        return Written(self.position.after(position), messages)

    def after_refusal(self, position: RecordPosition, record: int) -> "Written":
        """The state after this record was refused: its message may come again in another one. A replay, whose time
        alone doesn't cover itself, is recognised by the digest of its own record."""
        if position.partition == _NOWHERE:
            return self.after(position, record)
        return self._replace(position=self.position.after(position))


NEVER_WRITTEN: Final = Written(RecordPosition(-1, -1, 0))
"""The state before any record: every record is newer."""


class OutgoingMessage(NamedTuple):
    """A message to publish: full topic name, key (None: any partition), value (None: a tombstone) and headers."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
