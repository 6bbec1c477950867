"""Decoding of raw records into validated messages, and the errors of those that can't be read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from domain.commands import CommandMark, mark_from
from domain.delivery import RecordPosition
from domain.timestamps import from_milliseconds
from messaging.dead_letters_codes import DeadLetterCode
from messaging.kafka.record_batches import UnreadableValue
from messaging.reading_errors import DUPLICATE_FIELD, UNKNOWN_FIELD, InputError, InvalidContentError, invalid_content

MARK_HEADER: Final = "ce_commandmark"
"""An extension attribute: the mark of the whole command, which is stored with the outcome."""

T = TypeVar("T")

Header = tuple[str, bytes | None]

MAX_MESSAGE_BYTES: Final = 1024 * 1024
"""Maximum bytes of a value that is decoded, as for HTTP bodies."""

LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970."""

FIRST_PUBLISHED: Final = "x-first-published"
"""Header of dead letters and their replays: the time at which the message was first published, in ms since 1970."""

_MOST_ERRORS: Final = 20

_CODES_OF_FIELD_ERRORS: Final = {
    DUPLICATE_FIELD: DeadLetterCode.DUPLICATE_FIELD,
    UNKNOWN_FIELD: DeadLetterCode.UNKNOWN_FIELD,
}

_UNUSABLE_TIME: Final = (
    "The record's timestamp is not in the years 1970 to 9999. It dates what happened, so it is not replaced: "
    "publish the record with a valid timestamp, or use `plaudit dlq replay`, which sets the time of the replay"
)

_IN_STRUCTURED_MODE: Final = (
    "The value is a CloudEvent in structured mode, which is not supported. Publish it in binary mode: the data as "
    "the value, and the attributes as headers like ce_id and ce_source"
)


class RawRecord(Protocol):
    """A record as the consumer delivers it: its timestamp in milliseconds since 1970, any bytes or None in headers."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


@dataclass(slots=True)
class PlainRecord:
    """A record that no consumer delivers: it is kept in the database, or only checked."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


class InvalidMessageError(Exception):
    """A message that can never be processed. `code` is stable, and the text describes the problem. `errors` has the
    first errors with their places in its value, if they are known."""

    def __init__(self, code: DeadLetterCode, message: str, errors: Sequence[InputError] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.errors = errors[:_MOST_ERRORS]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that can never be processed, and its error."""

    record: RawRecord
    error: InvalidMessageError


class Received(NamedTuple, Generic[T]):
    """A decoded message and its record."""

    record: RawRecord
    message: T

    @property
    def position(self) -> RecordPosition:
        """The position of the record in its topic."""
        return position_of(self.record)

    @property
    def at(self) -> datetime:
        """The time of the record."""
        return from_milliseconds(self.record.timestamp)

    @property
    def mark(self) -> CommandMark | None:
        """The mark of its command, if it has one."""
        return mark_in(self.record.headers)


def mark_in(headers: Iterable[Header]) -> CommandMark | None:
    """The mark of the command that a message belongs to; None without a valid one."""
    return mark_from(header_in(headers, MARK_HEADER).decode(errors="replace"))


def header_in(headers: Iterable[Header], name: str) -> bytes:
    """The value of the first header with this name that isn't empty; empty without one."""
    return next((value for each, value in headers if each == name and value), b"")


def position_of(record: RawRecord) -> RecordPosition:
    """The position of the record in its topic."""
    return RecordPosition(record.partition, record.offset, record.timestamp)


def first_published(record: RawRecord) -> int:
    """The time of a record in milliseconds since 1970; for a replay, that of the record that became a letter."""
    first = dict(record.headers).get(FIRST_PUBLISHED) or b""
    is_time = first.isdigit() and len(first) <= len(str(LATEST_MS))
    return min(record.timestamp, int(first)) if is_time else record.timestamp


def aged_position(record: RawRecord) -> RecordPosition:
    """The position by which a record is older or newer than others. For a replay it is only the time at which its
    message was first published, because its offset is after everything published since."""
    first = first_published(record)
    return RecordPosition.of_time(first) if first < record.timestamp else position_of(record)


def decode_records(
    records: Iterable[RawRecord], read: Callable[[bytes], T]
) -> tuple[list[Received[T]], list[DeadLetter]]:
    """Decode records with `read`: the decoded messages, and dead letters for the others. Both keep the order."""
    good: list[Received[T]] = []
    bad: list[DeadLetter] = []
    for record in records:
        try:
            good.append(Received(record, read(_value(record))))
        except ValidationError as invalid:
            bad.append(DeadLetter(record, _message_error(invalid_content(invalid))))
        except InvalidContentError as invalid:
            bad.append(DeadLetter(record, _structured_mode_error(record) or _message_error(invalid)))
        except InvalidMessageError as invalid:
            # Without its traceback, which holds this frame, and so the whole batch, until garbage is collected.
            bad.append(DeadLetter(record, invalid.with_traceback(None)))
    return good, bad


def refusal_of(value: bytes | None, read: Callable[[bytes], object]) -> InvalidMessageError | None:
    """The error with which a consumer that decodes with `read` would reject a record with this value; None for none."""
    _, bad = decode_records([PlainRecord("", 0, 0, 0, None, value, ())], read)
    return bad[0].error if bad else None


def _value(record: RawRecord) -> bytes:
    """The value of a record that can be decoded. Raises InvalidMessageError for others."""
    value = record.value
    if isinstance(value, UnreadableValue):
        raise InvalidMessageError(value.code, value.reason)
    if not 0 <= record.timestamp <= LATEST_MS:
        raise InvalidMessageError(DeadLetterCode.INVALID_TIMESTAMP, _UNUSABLE_TIME)
    if value is None:
        raise InvalidMessageError(DeadLetterCode.EMPTY, "The record has no value: a tombstone deletes nothing here")
    if len(value) > MAX_MESSAGE_BYTES:
        raise InvalidMessageError(
            DeadLetterCode.TOO_LARGE, f"The value has {len(value)} bytes; the maximum is {MAX_MESSAGE_BYTES}"
        )
    return value


def _structured_mode_error(record: RawRecord) -> InvalidMessageError | None:
    """The error of a value that is a whole CloudEvent, None for others: an error about missing fields would mislead."""
    kind = dict(record.headers).get("content-type") or b""
    is_structured = kind.lower().startswith(b"application/cloudevents") or b'"specversion"' in (record.value or b"")
    return InvalidMessageError(DeadLetterCode.INVALID_MESSAGE, _IN_STRUCTURED_MODE) if is_structured else None


def _message_error(error: InvalidContentError) -> InvalidMessageError:
    if error.is_malformed:
        return InvalidMessageError(DeadLetterCode.INVALID_JSON, str(error), error.errors)
    code = _CODES_OF_FIELD_ERRORS.get(error.errors[0].code, DeadLetterCode.INVALID_MESSAGE)
    return InvalidMessageError(code, str(error), error.errors)
