"""Replays: a dead letter becomes a message of its source topic again, and the command that asks for it."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID, uuid5

import orjson
from pydantic import Field, TypeAdapter

from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.privacy import people_in
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import FIRST_PUBLISHED, MAX_MESSAGE_BYTES, RawRecord, first_published, position_of
from messaging.reading_shapes import folded_name
from messaging.schemas import MOST_OFFSET, MOST_PARTITION, ClosedMessage, Name, OptionalId, usable
from messaging.topics import CONSUMED, DEAD_LETTER_SUFFIX, Topic

REPLAYED_FROM: Final = "x-replayed-from"
REASON_HEADERS: Final = frozenset(
    {"x-error-code", "x-error-message", "x-source-topic", "x-source-partition", "x-source-offset", "x-failed-at"}
)

REPLAYS_KEY: Final = "dead-letters"
"""The key of all commands to replay, so that they keep their order: letters of several topics can be about one."""

_KEYED_BY_PERSON: Final = (Topic.MAIL_COMMANDS, Topic.ORDER_EVENTS, Topic.REMINDER_COMMANDS, Topic.RETURN_COMMANDS)
_SOURCE: Final = b"/plaudit/dlq"
_ANSWERED: Final = (
    *(Topic.STORE_UPDATES, Topic.MODERATION_COMMANDS, Topic.REVIEW_FEEDBACK, Topic.REVIEW_CHANGES),
    Topic.IMAGE_COMMANDS,
)
"""Topics of commands whose repeats are known by their `commandId` alone."""
_COMMANDS: Final = UUID("9d0f7c52-6c1e-5a43-8f5b-3b8a1e0d6c24")
_MENDED: Final = UUID("6f1f0c1d-2f5e-5c0b-8d0a-2a9f6f0f5c11")
_RECORDS: Final = UUID("b8a4c1de-7f36-5d92-8e0f-41c7d95a2b60")

_PLACE: Final = re.compile(r"([a-z-]{1,64})/([0-9]{1,10})/([0-9]{1,19})")
_PLACE_LENGTH: Final = 96
_ID: Final = re.compile(r"[a-zA-Z0-9._-]+/[0-9]+-[0-9]+--?[0-9]+")
_ID_LENGTH: Final = 320


@dataclass(frozen=True, slots=True)
class LetterPlace:
    """The place of a dead letter: the topic that it came from, and where it stands among the topic's dead letters."""

    topic: Topic
    partition: int
    offset: int

    @property
    def turn(self) -> tuple[int, int, int]:
        """Its turn in a replay of several: topics in the order of the flow, the letters of a partition in theirs."""
        return CONSUMED.index(self.topic), self.partition, self.offset

    def __str__(self) -> str:
        """The place as a text, which `place_in` reads: `review-submissions/3/17`."""
        return f"{self.topic}/{self.partition}/{self.offset}"


def text_of(data: bytes) -> str:
    """Bytes as text; what is no UTF-8 is written as `\\xff`."""
    return data.decode(errors="backslashreplace")


def place_in(text: str) -> LetterPlace:
    """The place that a text names. Raises ValueError."""
    found = _PLACE.fullmatch(text)
    if found is None or found[1] not in CONSUMED or int(found[2]) > MOST_PARTITION or int(found[3]) > MOST_OFFSET:
        raise ValueError("Must be topic/partition/offset of a dead letter, like review-submissions/3/17")
    return LetterPlace(Topic(found[1]), int(found[2]), int(found[3]))


PlaceText = Annotated[str, Field(max_length=_PLACE_LENGTH), usable(place_in, "invalid_place")]


class ReplayCommand(ClosedMessage):
    """Publish a dead letter to its topic again, once; `value` takes the place of its own."""

    place: PlaceText
    value: str | None = None
    moderator: Name | None = None
    command_id: OptionalId = None


REPLAY_COMMAND: Final[TypeAdapter[ReplayCommand]] = TypeAdapter(ReplayCommand)


class LetterState(StrEnum):
    """A dead letter is open until it is published again or discarded; what fails again is open again."""

    OPEN = "open"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


class Hindrance(StrEnum):
    """The reason against replaying a dead letter."""

    REPLAYED = "replayed-before"
    DISCARDED = "discarded"
    ERASED = "erased"
    EMPTY = "empty"
    TOO_LARGE = "too-large"

    @property
    def outcome(self) -> Outcome:
        """The outcome of a replay that it stands against."""
        return Outcome.UNCHANGED if self is Hindrance.REPLAYED else Outcome.REFUSED


def hindrance(
    letter: RawRecord, mended: bytes | None, *, state: LetterState, is_spared: bool, again: bool = False
) -> Hindrance | None:
    """The reason against replaying a letter, with its own value or a mended one; None for none.

    `is_spared`: no person whom it is about was forgotten since. `again`: also what is settled already.
    """
    if not is_spared:
        return Hindrance.ERASED
    if state is not LetterState.OPEN and not again:
        return Hindrance.REPLAYED if state is LetterState.REPLAYED else Hindrance.DISCARDED
    value = letter.value if mended is None else mended
    if value is None:
        return Hindrance.EMPTY
    # Consumers read no larger value; topics take the rest with it.
    others = len(letter.key or b"") + sum(len(name) + len(content or b"") for name, content in letter.headers)
    return Hindrance.TOO_LARGE if len(value) > MAX_MESSAGE_BYTES or others > MAX_MESSAGE_BYTES else None


def replayed_message(letter: RawRecord, *, value: bytes | None = None, earlier: int = 0) -> OutgoingMessage:
    """The letter for its source topic: key, value and headers as they were received, the first letter of its line, and
    the time at which the message was first published.

    `value` takes the place of the letter's own: a mended message is another one, so that what identifies it
    follows from the new value, too. `earlier`: how often it was replayed before.
    A message without an id keeps the identity that its content gives it. A command has none: it gets one here, so that
    a replay that was cut short and done again takes effect once, and undoes nothing that came in between. So do the
    replays of two letters of one record.
    """
    topic = letter.topic.removesuffix(DEAD_LETTER_SUFFIX)
    own = {*REASON_HEADERS, REPLAYED_FROM, FIRST_PUBLISHED}
    headers = [(n, v) for n, v in letter.headers if n not in own]
    record = _record_id(letter)
    identities = [content for name, content in headers if name == "ce_id"]
    identity = identities[-1] or None if identities else None  # the last one counts, as for the consumers
    if identity is None and topic.endswith(Topic.RETURN_COMMANDS):
        identity = f"{record}/{earlier}".encode()
        headers += [("ce_id", identity), ("ce_source", _SOURCE)]
    if value is not None and identity is not None:
        mended = str(uuid5(_MENDED, f"{identity.hex()}/{value.hex()}")).encode()
        headers = [(n, mended if n == "ce_id" else v) for n, v in headers]
    headers.append((REPLAYED_FROM, first_letter_id(letter).encode()))
    headers.append((FIRST_PUBLISHED, str(first_published(letter)).encode()))
    content = letter.value if value is None else value
    if content is not None and topic.endswith(_ANSWERED):
        told = f"{record}/{earlier}" if value is None else f"{record}/{earlier}/{value.hex()}"
        is_settled = header(letter, "x-error-code") == DeadLetterCode.REVIEW_NOT_FOUND
        content = _as_command(content, str(uuid5(_COMMANDS, told)), is_settled=is_settled)
    return OutgoingMessage(topic, letter.key, content, headers)


def _record_id(letter: RawRecord) -> str:
    """The identity of the record that became a letter, or of its part that did: a record that is delivered again fails
    again, and its letter can be published twice. That of the letter where nothing says what it came of."""
    source = [header(letter, name) for name in ("x-source-topic", "x-source-partition", "x-source-offset")]
    if not all(source):
        return letter_id(letter)
    source.append(header(letter, FIRST_PUBLISHED))  # empty for a record whose time can't be one
    # A record may hold commands about several things, which fail one by one.
    part = [(each or b"").hex() for each in (letter.key, letter.value)]
    return str(uuid5(_RECORDS, "/".join(source + part)))


def _as_command(value: bytes, command_id: str, *, is_settled: bool) -> bytes:
    """The value of a command with an id, by which a repeat changes nothing.

    One that has an id keeps it, unless it `is_settled`: it waited in vain, and has been answered "not-found", so that
    by its own id it would be a repeat itself. Null and an empty text are none. The rest of the value stays as it was
    received, byte for byte where no id is replaced.
    """
    try:
        command = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    if not isinstance(command, dict) or not command:
        return value
    own = next((name for name in command if folded_name(name) == "commandid"), None)
    if own is not None and command[own] not in (None, ""):
        return orjson.dumps({**command, own: command_id}) if is_settled else value
    # A recount comes to the same each time, and a report without an id is known by what it says.
    told = {folded_name(name): folded_name(content) for name, content in command.items()}
    if told.get("kind") == "recount" or told.get("action") == "report":
        return value
    if own is not None:
        return orjson.dumps({**command, own: command_id})
    return value.replace(b"{", b'{"commandId":"%s",' % command_id.encode(), 1)


def letter_id(letter: RawRecord) -> str:
    """The identity of a dead letter: `<topic>/<partition>-<offset>-<timestamp>`."""
    return f"{letter.topic}/{position_of(letter)}"


def first_letter_id(letter: RawRecord) -> str:
    """The identity of the letter whose replays led to this one, which its own replays carry on; its own without one."""
    first = header(letter, REPLAYED_FROM)
    return first if len(first) <= _ID_LENGTH and _ID.fullmatch(first) else letter_id(letter)


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
