"""Record batches as our consumers read them, in place of aiokafka's own class.

A record that can't be decoded is yielded among the others, with an `UnreadableValue`; batches expand within bounds.
"""

import struct
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka.errors import CorruptRecordException

from messaging.dead_letters_codes import DeadLetterCode
from messaging.kafka.aiokafka_internals import legacy_batch, record_batch, replace_batch_reader
from messaging.kafka.expansion import MAX_EXPANDED_BYTES, MalformedError, TooFarError, expanded
from messaging.kafka.record_parts import Cursor, TruncatedError

_LENGTH: Final = struct.Struct(">8xi")
_LENGTH_END: Final = _LENGTH.size
_MAGIC: Final = 16
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_AT: Final = 21
_CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
_MAX_UNREADABLE: Final = 1_000
"""Maximum number of unreadable records of a batch that are yielded; the last one stands for the rest."""

_POLL_BYTES: Final = 2 * 1024 * 1024
"""Expanded bytes after which a poll takes in no further batch: 1,000 records of 2 KiB. The last one may have as many as
MAX_EXPANDED_BYTES more, and a worker has 20 consumers: if 15 MB batches wait in all topics it takes 550 MiB, with eight
times this allowance 960 of its 1,024."""


class UnreadableValue(bytes):
    """The value of a record that can't be decoded as a whole: as sent, or empty if that is unknown.

    `code` is that of a dead letter, `reason` describes the problem.
    """

    code: DeadLetterCode
    reason: str

    def __new__(cls, value: bytes, code: DeadLetterCode, reason: str) -> "UnreadableValue":
        """The value, and the reason why its record can't be decoded."""
        unreadable = super().__new__(cls, value)
        unreadable.code, unreadable.reason = code, reason
        return unreadable


@dataclass(slots=True)
class Allowance:
    """Expanded bytes that a consumer may take in during a poll; once they are used up, the rest is fetched again."""

    left: int = _POLL_BYTES

    def renew(self) -> None:
        """Start another poll."""
        self.left = _POLL_BYTES


allowance: Final[ContextVar[Allowance | None]] = ContextVar("allowance", default=None)
"""The allowance of the consumer that is being started: its tasks inherit it."""


def read_within_bounds() -> None:
    """Have all consumers of this process read with `ReadableBatches`. Raises AttributeError if aiokafka has changed."""
    replace_batch_reader(ReadableBatches)


class ReadableBatches:
    """The batches in the bytes of a fetch; replaces aiokafka's MemoryRecords."""

    def __init__(self, fetched: bytes) -> None:
        self._fetched = memoryview(fetched)
        self._position = 0
        self._allowance = allowance.get()
        self._is_new = True

    def size_in_bytes(self) -> int:
        """Number of all bytes, including those of a truncated batch."""
        return len(self._fetched)

    def has_next(self) -> bool:
        """True if there is a complete batch, and the allowance permits it.

        On arrival aiokafka takes False for a batch that it can never read, and skips it; later, for the end.
        """
        is_new, self._is_new = self._is_new, False
        there = self._end() is not None
        return there and (is_new or self._allowance is None or self._allowance.left > 0)

    def next_batch(self) -> Any:
        """The next batch; None at the end."""
        end = self._end()
        if end is None:
            return None
        batch, self._position = self._fetched[self._position : end], end
        if len(batch) < _HEADER.size or batch[_MAGIC] < 2:
            return legacy_batch(bytes(batch))
        return ReadableBatch(batch, self._allowance)

    def _end(self) -> int | None:
        if len(self._fetched) - self._position < _LENGTH_END:
            return None
        (length,) = _LENGTH.unpack_from(self._fetched, self._position)
        end = self._position + _LENGTH_END + length
        return end if length >= 0 and end <= len(self._fetched) else None


class ReadableBatch:
    """One batch, like aiokafka's, but it yields its records even if they can't be decoded."""

    def __init__(self, batch: memoryview, allowance: Allowance | None) -> None:
        self._batch = batch
        self._allowance = allowance
        self._original = record_batch(bytes(batch))
        self._records: Iterator[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        # Offsets, attributes and checksum are those of the original batch.
        return getattr(self._original, name)

    def __iter__(self) -> Iterator[Any]:
        return self._decoded_records()

    def __next__(self) -> Any:
        """The next record: aiokafka takes the first of a control batch. Raises CorruptRecordException without one."""
        if self._records is None:
            self._records = iter(self._original)
        for record in self._records:
            return record
        raise CorruptRecordException("a control batch has no records")

    def _decoded_records(self) -> Iterator[Any]:
        header = Header.of(self._batch)
        records, batch = self._batch[_HEADER.size :], self._original
        if header.codec:
            try:
                records = expanded(header.codec, records)
            except TooFarError:
                reason = f"the batch expands to more than {MAX_EXPANDED_BYTES} bytes"
                yield from header.lost(header.base_offset, header.count, DeadLetterCode.TOO_LARGE, reason)
                return
            except MalformedError as error:
                yield from header.lost(header.base_offset, header.count, DeadLetterCode.UNDECODABLE, str(error))
                return
            if self._allowance is not None:
                self._allowance.left -= len(records)
            plain = b"".join((header.without_codec(self._batch), records))
            records, batch = memoryview(plain)[_HEADER.size :], record_batch(plain)
        read, following = 0, header.base_offset
        try:
            for record in batch:
                placed = header.placed(record, read, following)
                read, following = read + 1, placed.offset + 1
                yield placed
        except (CorruptRecordException, ValueError, IndexError, OverflowError) as error:
            yield from _decode_separately(records, header, read, following, str(error))


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a batch; times in milliseconds since 1970."""

    base_offset: int
    attributes: int
    last_delta: int
    first_time: int
    last_time: int
    count: int

    @classmethod
    def of(cls, batch: memoryview) -> "Header":
        """Parse the header of a batch in version 2 of the format."""
        base, _, _, _, _, attributes, delta, first, last, _, _, _, count = _HEADER.unpack_from(batch)
        return cls(base, attributes, delta, first, last, count)

    @property
    def codec(self) -> int:
        """The compression codec; 0 if the records are not compressed."""
        return self.attributes & _CODEC

    @property
    def is_stamped_by_broker(self) -> bool:
        """True if all records carry the time at which the broker appended them."""
        return bool(self.attributes & _APPEND_TIME)

    def without_codec(self, batch: memoryview) -> bytes:
        """The header for the same records without compression. Its checksum doesn't fit them."""
        plain = bytearray(batch[: _HEADER.size])
        _ATTRIBUTES.pack_into(plain, _ATTRIBUTES_AT, self.attributes & ~_CODEC)
        return bytes(plain)

    def placed(self, record: Any, index: int, following: int) -> Any:
        """The record with this index, or an unreadable one at `following` if its offset is impossible there.

        Brokers don't check it in uncompressed batches. aiokafka would skip a record whose offset was there before; and
        an offset behind the batch would be committed, past records that others publish there.
        """
        if following <= record.offset <= self.base_offset + self.last_delta - (self.count - 1 - index):
            return record
        reason = f"the offset {record.offset} is not that of record {index} of its batch"
        value = UnreadableValue(record.value or b"", DeadLetterCode.UNDECODABLE, reason)
        return Record(following, self.last_time, record.key, value, record.headers)

    def lost(self, first: int, count: int, code: DeadLetterCode, reason: str) -> "Iterator[Record]":
        """`count` records from an offset on that exist but can't be decoded."""
        last = self.base_offset + self.last_delta
        offsets = range(first, min(first + max(count, 1), last + 1))
        for offset in offsets[: _MAX_UNREADABLE - 1]:
            yield Record(offset, self.last_time, None, UnreadableValue(b"", code, reason))
        if rest := offsets[_MAX_UNREADABLE - 1 :]:
            reason += f"; the same for all offsets up to {rest[-1]}"
            yield Record(rest[0], self.last_time, None, UnreadableValue(b"", code, reason))


@dataclass(frozen=True, slots=True)
class Record:
    """A record, with the fields that aiokafka copies."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    timestamp_type: int = 0
    checksum: None = None


def _decode_separately(records: memoryview, header: Header, read: int, following: int, reason: str) -> Iterator[Record]:
    """The records after the first `read` ones, from an offset on, decoded one by one: valid ones, and unreadable values
    for the others."""
    cursor = Cursor(records)
    for index in range(header.count):
        try:
            content = cursor.part(cursor.varint())
        except TruncatedError:
            yield from header.lost(following, header.count - max(index, read), DeadLetterCode.UNDECODABLE, reason)
            return
        if index < read:
            continue
        try:
            record = _decode_record(Cursor(content), header)
        except TruncatedError:
            reason = "the record lacks some of its parts"
            raw = UnreadableValue(bytes(content), DeadLetterCode.UNDECODABLE, reason)
            record = Record(following, header.last_time, None, raw)
        placed = header.placed(record, index, following)
        following = placed.offset + 1
        yield placed


def _decode_record(content: Cursor, header: Header) -> Record:
    """Decode one record; its value is unreadable if a header's name is. Raises TruncatedError if parts are missing."""
    content.part(1)
    time = header.first_time + content.varint()
    offset = header.base_offset + content.varint()
    key, value = content.nullable(), content.nullable()
    headers: list[tuple[str, bytes | None]] = []
    reason = ""
    count = content.varint()
    if count < 0:
        raise TruncatedError
    for _ in range(count):
        name = bytes(content.part(content.varint()))
        try:
            headers.append((name.decode(), content.nullable()))
        except UnicodeDecodeError:
            headers.append((name.decode(errors="backslashreplace"), content.nullable()))
            reason = f"the name of the header {name[:100]!r} is not UTF-8"
    if not content.is_at_end:
        raise TruncatedError
    if reason:
        value = UnreadableValue(value or b"", DeadLetterCode.UNDECODABLE, reason)
    return Record(offset, header.last_time if header.is_stamped_by_broker else time, key, value, headers)
