"""Replays of dead letters: the command for one, and the message that is published to the source topic again."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID, uuid5

import orjson
from pydantic import Field, TypeAdapter

from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.privacy import people_in
from domain.timestamps import from_milliseconds
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import (
    FIRST_PUBLISHED,
    LATEST_MS,
    MAX_MESSAGE_BYTES,
    Header,
    RawRecord,
    first_published,
    position_of,
)
from messaging.reading_shapes import folded_name
from messaging.schemas import MOST_OFFSET, MOST_PARTITION, ClosedMessage, Name, OptionalId, usable
from messaging.topics import CONSUMED, DEAD_LETTER_SUFFIX, Topic

REPLAYED_FROM: Final = "x-replayed-from"
REASON_HEADERS: Final = frozenset(
    {"x-error-code", "x-error-message", "x-source-topic", "x-source-partition", "x-source-offset", "x-failed-at"}
)

REPLAYS_KEY: Final = "dead-letters"
"""The key of all replay commands, so that they keep their order: letters of different topics can concern one object."""

_KEYED_BY_PERSON: Final = (Topic.MAIL_COMMANDS, Topic.ORDER_EVENTS, Topic.REMINDER_COMMANDS, Topic.RETURN_COMMANDS)
_SOURCE: Final = b"/plaudit/dlq"
_KNOWN_BY_COMMAND_ID: Final = (
    *(Topic.STORE_UPDATES, Topic.MODERATION_COMMANDS, Topic.REVIEW_FEEDBACK, Topic.REVIEW_CHANGES),
    *(Topic.IMAGE_COMMANDS, Topic.RETURN_COMMANDS),
)
"""Topics of commands whose repeats are recognised only by their `commandId`."""
_COMMAND_NAMESPACE: Final = UUID("9d0f7c52-6c1e-5a43-8f5b-3b8a1e0d6c24")
_CORRECTION_NAMESPACE: Final = UUID("6f1f0c1d-2f5e-5c0b-8d0a-2a9f6f0f5c11")
_RECORD_NAMESPACE: Final = UUID("b8a4c1de-7f36-5d92-8e0f-41c7d95a2b60")

_PLACE: Final = re.compile(r"([a-z-]{1,64})/([0-9]{1,10})/([0-9]{1,19})")
_PLACE_LENGTH: Final = 96
_ID: Final = re.compile(r"[a-zA-Z0-9._-]+/[0-9]+-[0-9]+--?[0-9]+")
_ID_LENGTH: Final = 320


@dataclass(frozen=True, slots=True)
class LetterPlace:
    """The place of a dead letter: its source topic, and its partition and offset in the dead-letter topic."""

    topic: Topic
    partition: int
    offset: int

    @property
    def sort_key(self) -> tuple[int, int, int]:
        """Sort key for a replay of several letters: topics in the order of the flow, then partition and offset."""
        return CONSUMED.index(self.topic), self.partition, self.offset

    def __str__(self) -> str:
        """The place as text, like `review-submissions/3/17`; `place_in` parses it."""
        return f"{self.topic}/{self.partition}/{self.offset}"


def text_of(data: bytes) -> str:
    """Bytes decoded as UTF-8; invalid ones are escaped, like `\\xff`."""
    return data.decode(errors="backslashreplace")


def optional_text_of(data: bytes | None) -> str | None:
    """Bytes decoded like `text_of`; None for no bytes."""
    return None if data is None else text_of(data)


def place_in(text: str) -> LetterPlace:
    """Parse the text of a place. Raises ValueError if it can't be the place of a dead letter."""
    found = _PLACE.fullmatch(text)
    if found is None or found[1] not in CONSUMED or int(found[2]) > MOST_PARTITION or int(found[3]) > MOST_OFFSET:
        raise ValueError("Must be topic/partition/offset of a dead letter, like review-submissions/3/17")
    return LetterPlace(Topic(found[1]), int(found[2]), int(found[3]))


PlaceText = Annotated[str, Field(max_length=_PLACE_LENGTH), usable(place_in, "invalid_place")]


class ReplayCommand(ClosedMessage):
    """Publish a dead letter to its topic again, once; `value` replaces its own."""

    place: PlaceText
    value: str | None = None
    moderator: Name | None = None
    command_id: OptionalId = None


REPLAY_COMMAND: Final[TypeAdapter[ReplayCommand]] = TypeAdapter(ReplayCommand)


class LetterState(StrEnum):
    """A dead letter is open until it is replayed or discarded; one whose replay fails is open again."""

    OPEN = "open"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


class ReplayObstacle(StrEnum):
    """The reason for not replaying a dead letter."""

    REPLAYED = "replayed-before"
    DISCARDED = "discarded"
    ERASED = "erased"
    EMPTY = "empty"
    TOO_LARGE = "too-large"

    @property
    def outcome(self) -> Outcome:
        """The outcome of a replay command that meets this obstacle."""
        return Outcome.UNCHANGED if self is ReplayObstacle.REPLAYED else Outcome.REFUSED


def replay_obstacle(
    letter: RawRecord, mended: bytes | None, *, state: LetterState, is_replayable: bool, again: bool = False
) -> ReplayObstacle | None:
    """The reason for not replaying a letter, with its own value or a corrected one; None if it may be replayed.

    `is_replayable`: no person whom it concerns has been erased since. `again`: replay settled letters, too.
    """
    if not is_replayable:
        return ReplayObstacle.ERASED
    if state is not LetterState.OPEN and not again:
        return ReplayObstacle.REPLAYED if state is LetterState.REPLAYED else ReplayObstacle.DISCARDED
    value = letter.value if mended is None else mended
    if value is None:
        return ReplayObstacle.EMPTY
    # Consumers read no larger value; topics accept key and headers of the same size beside it.
    other_bytes = len(letter.key or b"") + sum(len(name) + len(content or b"") for name, content in letter.headers)
    return ReplayObstacle.TOO_LARGE if len(value) > MAX_MESSAGE_BYTES or other_bytes > MAX_MESSAGE_BYTES else None


def replayed_message(letter: RawRecord, *, value: bytes | None = None, earlier: int = 0) -> OutgoingMessage:
    """The message for the letter's source topic: key, value and headers as received, the id of the first letter in its
    chain of replays, and the time at which the message was first published.

    `value` replaces the letter's own. A corrected message is a new one, so its identity follows from the new value,
    too. `earlier` is the number of previous replays. A message without an id keeps the identity that follows from its
    content. A command has none, so it gets an id here: a replay that was interrupted and repeated takes effect once,
    and undoes nothing that happened in between. So do the replays of two letters of one record.
    """
    topic, replay_id = letter.topic.removesuffix(DEAD_LETTER_SUFFIX), f"{_record_id(letter)}/{earlier}"
    headers = [
        *_headers_with_identity(letter, topic, replay_id, value),
        (REPLAYED_FROM, first_letter_id(letter).encode()),
        (FIRST_PUBLISHED, str(first_published(letter)).encode()),
    ]
    content = letter.value if value is None else value
    if content is not None and topic.endswith(_KNOWN_BY_COMMAND_ID):
        command_id = uuid5(_COMMAND_NAMESPACE, replay_id if value is None else f"{replay_id}/{value.hex()}")
        is_answered = header(letter, "x-error-code") == DeadLetterCode.REVIEW_NOT_FOUND
        content = _with_command_id(content, str(command_id), is_answered=is_answered)
    return OutgoingMessage(topic, letter.key, content, headers)


def _headers_with_identity(letter: RawRecord, topic: str, replay_id: str, value: bytes | None) -> list[Header]:
    """The headers as received, with the identity of a return command that has none, or of a message with a corrected
    value."""
    replaced = {*REASON_HEADERS, REPLAYED_FROM, FIRST_PUBLISHED}
    headers = [(name, content) for name, content in letter.headers if name not in replaced]
    identity = dict(headers).get("ce_id")  # the last one counts, as for the consumers
    if not identity and topic.endswith(Topic.RETURN_COMMANDS):
        identity = replay_id.encode()
        headers += [("ce_id", identity), ("ce_source", _SOURCE)]
    if value is not None and identity:
        corrected_id = str(uuid5(_CORRECTION_NAMESPACE, f"{identity.hex()}/{value.hex()}")).encode()
        headers = [(name, corrected_id if name == "ce_id" else content) for name, content in headers]
    return headers


def _record_id(letter: RawRecord) -> str:
    """The identity of the record behind a letter, or of its part that failed: a redelivered record fails again, so its
    letter can be published twice. The identity of the letter if no headers name the record."""
    source = [header(letter, name) for name in ("x-source-topic", "x-source-partition", "x-source-offset")]
    if not all(source):
        return letter_id(letter)
    source.append(header(letter, FIRST_PUBLISHED))  # empty if the record's time is out of range
    # A record can hold commands about several objects, which fail separately.
    part = [(each or b"").hex() for each in (letter.key, letter.value)]
    return str(uuid5(_RECORD_NAMESPACE, "/".join(source + part)))


def _with_command_id(value: bytes, command_id: str, *, is_answered: bool) -> bytes:
    """The value of a command with an id, by which a repeat changes nothing.

    A command keeps its own id unless it `is_answered`: it waited in vain, its outcome is "not-found", and with its own
    id it would itself be a repeat. Null and an empty string are no ids. The rest of the value stays as received, byte
    for byte unless an id is replaced.
    """
    try:
        command = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    if not isinstance(command, dict) or not command:
        return value
    own = next((name for name in command if folded_name(name) == "commandid"), None)
    if own is not None and command[own] not in (None, ""):
        return orjson.dumps({**command, own: command_id}) if is_answered else value
    # A recount has the same result each time, and a report without an id is recognised by its content.
    folded = {folded_name(name): folded_name(content) for name, content in command.items()}
    if folded.get("kind") == "recount" or folded.get("action") == "report":
        return value
    if own is not None:
        return orjson.dumps({**command, own: command_id})
    return value.replace(b"{", b'{"commandId":"%s",' % command_id.encode(), 1)


def letter_id(letter: RawRecord) -> str:
    """The id of a dead letter: `<topic>/<partition>-<offset>-<timestamp>`."""
    return f"{letter.topic}/{position_of(letter)}"


def moment_of(timestamp: int) -> datetime:
    """The time of a dead letter by its record's timestamp. Producers can give records any: one before 1970, or after
    9999, counts as the nearest within."""
    return from_milliseconds(min(max(timestamp, 0), LATEST_MS))


def first_letter_id(letter: RawRecord) -> str:
    """The id of the first letter in this one's chain of replays, which its own replays carry on; by default its own."""
    first = header(letter, REPLAYED_FROM)
    return first if len(first) <= _ID_LENGTH and _ID.fullmatch(first) else letter_id(letter)


def header(letter: RawRecord, name: str) -> str:
    """The text of a header; empty without it."""
    return (dict(letter.headers).get(name) or b"").decode(errors="replace")


def people_of(letter: RawRecord) -> set[str]:
    """The customers whom a dead letter may concern."""
    people = people_in(letter.value or b"")
    return people | {key} if (key := person_key(letter)) else people


def person_key(letter: RawRecord) -> str | None:
    """The key if it is that of a customer or an order; None otherwise, since other keys identify nobody."""
    if not letter.key or not letter.topic.removesuffix(DEAD_LETTER_SUFFIX).endswith(_KEYED_BY_PERSON):
        return None
    return letter.key.decode(errors="replace")
