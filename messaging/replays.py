"""Replays: a dead letter becomes a message of its source topic again."""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

from domain.delivery import OutgoingMessage
from domain.privacy import people_in
from messaging.decoding import RawRecord, position_of
from messaging.topics import DEAD_LETTER_SUFFIX, Topic

REPLAYED_FROM: Final = "x-replayed-from"
REASON_HEADERS: Final = frozenset(
    {"x-error-code", "x-error-message", "x-source-topic", "x-source-partition", "x-source-offset", "x-failed-at"}
)

FLOW: Final = (
    Topic.STORE_UPDATES,
    Topic.OBJECT_UPDATES,
    Topic.ORDER_EVENTS,
    Topic.IMAGE_UPLOADS,
    Topic.REVIEW_SUBMISSIONS,
    Topic.MODERATION_COMMANDS,
    Topic.REVIEW_FEEDBACK,
    Topic.IMAGE_COMMANDS,
    Topic.MODERATION_VERDICTS,
    Topic.REVIEW_CHANGES,
    Topic.RETURN_COMMANDS,
    Topic.REMINDER_COMMANDS,
    Topic.MAIL_COMMANDS,
)
"""Every topic that has dead letters, dependencies first: a store before its reviews, an order before its returns."""

_KEYED_BY_PERSON: Final = (Topic.MAIL_COMMANDS, Topic.ORDER_EVENTS, Topic.REMINDER_COMMANDS, Topic.RETURN_COMMANDS)
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


def people_of(letter: RawRecord) -> set[str]:
    """The customers that a dead letter may be about."""
    people = people_in(letter.value or b"")
    return people | {key} if (key := person_key(letter)) else people


def person_key(letter: RawRecord) -> str | None:
    """The key where it is that of a customer or an order; elsewhere it says nothing of who."""
    if not letter.key or not letter.topic.removesuffix(DEAD_LETTER_SUFFIX).endswith(_KEYED_BY_PERSON):
        return None
    return letter.key.decode(errors="replace")
