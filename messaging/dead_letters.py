"""Dead letters: messages that can never be processed, kept as received together with the reason."""

from datetime import UTC, datetime
from typing import Final

import orjson

from domain.delivery import OutgoingMessage, RecordPosition
from domain.timestamps import timestamp
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import (
    FIRST_PUBLISHED,
    LATEST_MS,
    DeadLetter,
    InvalidMessageError,
    RawRecord,
    first_published,
    position_of,
)
from messaging.kafka.record_batches import UnreadableValue
from messaging.topics import DEAD_LETTER_SUFFIX, MAX_DEAD_LETTER_BYTES

REASON_LENGTH: Final = 1_000
_NO_KEY: Final = b""
"""Replaces a missing key if there is no value either: a message must have one of them."""
_OVERHEAD_BYTES: Final = 16 * 1024
"""Upper bound in bytes of the reason's headers and Kafka's framing of a record."""


def dead_letter_message(letter: DeadLetter) -> OutgoingMessage:
    """The message for the dead-letter topic: key, value and headers as received, and `x-` headers with the reason.

    A record of a compressed batch can be too large for any topic once it is expanded. Only its key, unless that is
    large, too, and the reason are kept; the reason names the record's position.
    """
    record = letter.record
    reason_headers = _reason_headers(record.topic, position_of(record), letter.error, first_published(record))
    topic = record.topic + DEAD_LETTER_SUFFIX
    if _size_bytes(record) > MAX_DEAD_LETTER_BYTES - _OVERHEAD_BYTES:
        key = record.key if len(record.key or b"") <= _OVERHEAD_BYTES else None
        return OutgoingMessage(topic, key or _NO_KEY, None, reason_headers)
    names = {name for name, _ in reason_headers}
    received = [(name, value) for name, value in record.headers if name not in names]
    value = None if record.value == b"" and isinstance(record.value, UnreadableValue) else record.value
    key = _NO_KEY if record.key is None and value is None else record.key
    return OutgoingMessage(topic, key, value, [*received, *reason_headers])


def bare_dead_letter(letter: DeadLetter) -> OutgoingMessage:
    """The message for a letter that can't be sent as received: only the reason, which names the record's position."""
    record = letter.record
    reason = _reason_headers(record.topic, position_of(record), letter.error, first_published(record))
    return OutgoingMessage(record.topic + DEAD_LETTER_SUFFIX, _NO_KEY, None, reason)


def _size_bytes(record: RawRecord) -> int:
    # The lengths of a name and of a value take up to five bytes each.
    headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def review_never_came() -> InvalidMessageError:
    """The error of a command that waited an hour for its review in vain."""
    text = "No review with this id was submitted within the hour"
    return InvalidMessageError(DeadLetterCode.REVIEW_NOT_FOUND, text)


def image_never_came() -> InvalidMessageError:
    """The error of a command that waited an hour for its image in vain."""
    text = "No review with this id had this image within the hour"
    return InvalidMessageError(DeadLetterCode.REVIEW_NOT_FOUND, text)


def rebuilt_dead_letter(
    topic: str, position: RecordPosition, *, key: str, value: object, error: InvalidMessageError
) -> OutgoingMessage:
    """The dead letter for part of a record that is no longer available; `topic` is the record's topic."""
    headers = _reason_headers(topic, position, error, position.timestamp)
    return OutgoingMessage(topic + DEAD_LETTER_SUFFIX, key.encode(), orjson.dumps(value), headers)


def _reason_headers(
    topic: str, position: RecordPosition, error: InvalidMessageError, published: int
) -> list[tuple[str, bytes]]:
    fields = {
        "x-error-code": error.code,
        "x-error-message": str(error)[:REASON_LENGTH],
        "x-source-topic": topic,
        "x-source-partition": str(position.partition),
        "x-source-offset": str(position.offset),
        "x-failed-at": timestamp(datetime.now(UTC)),
    }
    if 0 <= published <= LATEST_MS:
        fields[FIRST_PUBLISHED] = str(published)
    return [(name, text.encode(errors="replace")) for name, text in fields.items()]
