"""Replays: a dead letter becomes a message of its source topic again."""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

from domain.delivery import OutgoingMessage
from messaging.decoding import RawRecord, position_of
from messaging.topics import DEAD_LETTER_SUFFIX, Topic

REPLAYED_FROM: Final = "x-replayed-from"
REASON_HEADERS: Final = frozenset(
    {"x-error-code", "x-error-message", "x-source-topic", "x-source-partition", "x-source-offset", "x-failed-at"}
)

_SOURCE: Final = b"/plaudit/dlq"
_MENDED: Final = UUID("6f1f0c1d-2f5e-5c0b-8d0a-2a9f6f0f5c11")


def replayed_message(letter: RawRecord, *, value: bytes | None = None, earlier: int = 0) -> OutgoingMessage:
    """The letter for its source topic: key, value and headers as they were received, and where it comes from.

    `value` takes the place of the letter's own: a mended message is another one, so that what identifies it
    follows from the new value, too. `earlier`: how often it was replayed before.
    A message without an id keeps the identity that its content gives it. Only a return command has none: it gets
    one here, so that a replay that was cut short and done again makes one return.
    """
    topic = letter.topic.removesuffix(DEAD_LETTER_SUFFIX)
    headers = [(n, v) for n, v in letter.headers if n not in REASON_HEADERS and n != REPLAYED_FROM]
    place = letter_id(letter)
    identities = [content for name, content in headers if name == "ce_id"]
    identity = identities[-1] or None if identities else None  # the last one counts, as for the consumers
    if identity is None and topic.endswith(Topic.RETURN_COMMANDS):
        identity = f"{place}/{earlier}".encode()
        headers += [("ce_id", identity), ("ce_source", _SOURCE)]
    if value is not None and identity is not None:
        mended = str(uuid5(_MENDED, f"{identity.hex()}/{value.hex()}")).encode()
        headers = [(n, mended if n == "ce_id" else v) for n, v in headers]
    headers.append((REPLAYED_FROM, place.encode()))
    return OutgoingMessage(topic, letter.key, letter.value if value is None else value, headers)


def letter_id(letter: RawRecord) -> str:
    """The identity of a dead letter: `<topic>/<partition>-<offset>-<timestamp>`."""
    return f"{letter.topic}/{position_of(letter)}"


def header(letter: RawRecord, name: str) -> str:
    """The text of a header, empty without it."""
    return (dict(letter.headers).get(name) or b"").decode(errors="replace")
