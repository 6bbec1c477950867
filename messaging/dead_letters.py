"""Dead letters: messages that can never work, kept as they were received, with the reason beside them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from messaging.decoding import DeadLetter
from messaging.envelope import OutgoingMessage
from messaging.topics import DEAD_LETTER_SUFFIX

REASON_LENGTH: Final = 1_000


def dead_letter_message(letter: DeadLetter) -> OutgoingMessage:
    """The message for the dead-letter topic: value, key and headers as received, and `x-` headers with the reason."""
    record, error = letter.record, letter.error
    reason = {
        "x-error-code": error.code,
        "x-error-message": str(error)[:REASON_LENGTH],
        "x-source-topic": record.topic,
        "x-source-partition": str(record.partition),
        "x-source-offset": str(record.offset),
        "x-failed-at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    received = [(name, value) for name, value in record.headers if name not in reason]
    return OutgoingMessage(
        topic=record.topic + DEAD_LETTER_SUFFIX,
        key=record.key,
        value=record.value,
        headers=[*received, *((name, text.encode()) for name, text in reason.items())],
    )
