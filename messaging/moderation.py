"""Moderation commands as messages: as requested, and on their way to the owner of the object.

The only codec of `domain.moderation.Moderation`: for both topics, for parked commands and for dead letters.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from domain.commands import CommandMark, mark_from
from domain.delivery import RecordPosition
from domain.moderation import Moderation
from domain.reviews import ModerationAction, ReviewStatus, review_status
from domain.reviews_facts import ReasonCode, Source
from domain.reviews_moderated import Restored
from domain.timestamps import from_milliseconds, timestamp
from messaging.decoding import Received
from messaging.json_values import present
from messaging.schemas import (
    MAX_ITEMS,
    AtMost,
    ClosedMessage,
    Id,
    Message,
    Milliseconds,
    Moment,
    Name,
    Note,
    Offset,
    OptionalId,
    PartitionNumber,
    StoredId,
    Stores,
    TextHash,
    TextHashes,
    without_blank,
)
from messaging.tracing import cause_of


def read_status(value: object) -> ReviewStatus:
    """The status that a value names. Raises PydanticCustomError if it names none."""
    status = review_status(value)
    if status is None:
        names = ", ".join(f"{status.label} ({status.value})" for status in ReviewStatus)
        raise PydanticCustomError("unknown_status", "Must be one of {names}", {"names": names})
    return status


STATUS_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "string", "enum": [status.label for status in ReviewStatus]},
        {"type": "integer", "enum": [int(status) for status in ReviewStatus]},
    ]
}
Status = Annotated[ReviewStatus, BeforeValidator(read_status), WithJsonSchema(STATUS_SCHEMA)]
"""A status by its name, in any letter case, or by its number."""


class RestoredModeration(ClosedMessage):
    """The moderation of a review at its origin. Only for an imported review that nobody has changed since."""

    status: Status
    modified_date: Moment
    flags: Annotated[
        Annotated[tuple[Id, ...], AtMost(100)] | None,
        Field(description="Ids of the moderation rules that held it back"),
    ] = None
    source: Source | None = None
    language: Name | None = None
    verified_purchase: Annotated[bool, Field(description="Permanently verified, as by a review token")] = False

    def restored(self) -> Restored:
        """The past as a domain value."""
        return Restored(self.status, self.modified_date, self.flags, self.source, self.language, self.verified_purchase)


def text_of_another(ids: Collection[str], text_hashes: Mapping[str, str] | None) -> str | None:
    """A review id that has a text hash, but isn't among these ids; None if there is none."""
    return min((text_hashes or {}).keys() - set(ids), default=None)


class _ModerationFields(Message):
    action: ModerationAction
    moderator: Name | None = None
    reason: Note | None = None
    reason_code: Annotated[
        ReasonCode | None, Field(description="Only for a rejection; a low rating is not a valid reason")
    ] = None
    expected_status: Annotated[
        Status | None,
        Field(description="Status in which the sender saw the reviews; a review in another status is refused"),
    ] = None
    command_id: Annotated[
        OptionalId,
        Field(description="If given, the outcome is stored under this id for 24 hours; a repeat changes nothing"),
    ] = None
    stores: Stores = None
    restored: RestoredModeration | None = None

    @model_validator(mode="after")
    def _check_action_fields(self) -> Self:
        if self.reason_code is not None and not self._is_rejection:
            raise PydanticCustomError("reason_code", "Only a rejection has a reasonCode")
        if (self.restored is not None) is not (self.action is ModerationAction.RESTORE):
            raise PydanticCustomError("restored", "The action restore has `restored`, and no other has")
        return self

    @property
    def _is_rejection(self) -> bool:
        restored = self.restored and self.restored.status
        return self.action is ModerationAction.REJECT or restored is ReviewStatus.REJECTED

    def about(
        self,
        review_id: str,
        text_hash: str | None,
        position: RecordPosition,
        at: datetime,
        trace: str,
        mark: CommandMark | None,
    ) -> Moderation:
        """The command for one review, as a domain value."""
        return Moderation(
            review_id=review_id,
            action=self.action,
            position=position,
            at=at,
            moderator=self.moderator,
            reason=self.reason,
            expected=self.expected_status,
            command_id=self.command_id,
            mark=mark,
            stores=self.stores,
            trace=trace,
            reason_code=self.reason_code,
            restored=self.restored.restored() if self.restored else None,
            text_hash=text_hash,
        )


class ModerationCommand(_ModerationFields, ClosedMessage):
    """A decision about reviews. Only commands for a single id keep their order."""

    ids: Annotated[list[StoredId], Field(min_length=1, max_length=MAX_ITEMS)]
    text_hashes: TextHashes = None

    @model_validator(mode="after")
    def _check_text_hashes(self) -> Self:
        if other := text_of_another(self.ids, self.text_hashes):
            raise PydanticCustomError(
                "other_review", "textHashes contains {id}, which is not among the ids", {"id": other}
            )
        return self

    def moderations(
        self, position: RecordPosition, trace: str = "", mark: CommandMark | None = None
    ) -> list[Moderation]:
        """One command for each distinct review id; `position` is that of their record."""
        at, texts = from_milliseconds(position.timestamp), self.text_hashes or {}
        return [self.about(id, texts.get(id), position, at, trace, mark) for id in dict.fromkeys(self.ids)]


class ModerationOfReview(_ModerationFields):
    """A moderation command for one review, in the partition of the reviewed object."""

    kind: Literal["moderation"] = "moderation"
    review_id: StoredId
    text_hash: TextHash | None = None
    source: Annotated[
        tuple[PartitionNumber, Offset, Milliseconds] | None,
        Field(description="Partition, offset and timestamp of the command; null if this record is the command itself"),
    ] = None
    command_mark: Annotated[
        str | None, Field(description="Identifies the whole command: the value of its header `ce_commandmark`")
    ] = None

    def moderation(self, position: RecordPosition, at: datetime, trace: str, mark: CommandMark | None) -> Moderation:
        """The command as a domain value. `position` and `mark` are those of its record, unless it has its own."""
        if self.source is not None:
            position, mark = RecordPosition(*self.source), mark_from(self.command_mark)
        return self.about(self.review_id, self.text_hash, position, at, trace, mark)


_DIRECT: Final = 1_000_000
"""Added to the partitions of commands published directly to the owner, so that a review's marks keep them apart."""

_PARKED_TRACE: Final = "traceparent"
_ARRIVED: Final = "arrived"
_ARRIVED_BESIDE: Final = "arrivedBeside"

MODERATION_COMMAND: TypeAdapter[ModerationCommand] = TypeAdapter(ModerationCommand)


def forwarded_value(command: Moderation) -> dict[str, Any]:
    """The value of a ModerationOfReview."""
    value = direct_value(moderation_fields(command), command.review_id, command.text_hash)
    mark = {"commandMark": str(command.mark)} if command.mark else {}
    return {**value, "source": list(command.position), **mark}


def routed_value(value: Mapping[str, Any], review_id: str, text_hash: str | None) -> dict[str, Any]:
    """The value of a ModerationCommand for one review. `value` has its other fields, `text_hash` is that of the text it
    is meant for, None for any."""
    texts = {"textHashes": {review_id: text_hash}} if text_hash else {}
    return {"ids": [review_id], **texts, **value}


def direct_value(value: Mapping[str, Any], review_id: str, text_hash: str | None) -> dict[str, Any]:
    """The value of a ModerationOfReview that is itself the command; parameters as for `routed_value`."""
    text = {"textHash": text_hash} if text_hash else {}
    return {"kind": "moderation", "reviewId": review_id, **text, **value}


def direct_position(position: RecordPosition) -> RecordPosition | None:
    """The position in the topic of changes of a command published directly there; None for others."""
    return position._replace(partition=position.partition - _DIRECT) if position.partition >= _DIRECT else None


def moderations_in(received: Received[ModerationCommand]) -> list[Moderation]:
    """The commands in a record of the topic of moderation commands, one for each distinct review."""
    return received.message.moderations(received.position, cause_of(received.position), received.mark)


def moderation_in(received: Received[ModerationOfReview]) -> Moderation:
    """The command in a record of the topic of changes."""
    record = received.position
    position = record._replace(partition=record.partition + _DIRECT)
    command = received.message.moderation(position, received.at, cause_of(record), received.mark)
    return command._replace(arrived=record)


def moderation_from(value: Mapping[str, Any]) -> Moderation:
    """The command in a value of `parked_value`, as MongoDB returns it."""
    message = ModerationOfReview.model_validate(without_blank(value, "commandId"), strict=False)
    position, trace = RecordPosition(*value["source"]), value.get(_PARKED_TRACE, "")
    command = message.moderation(position, from_milliseconds(position.timestamp), trace, None)
    if (offset := value.get(_ARRIVED)) is None:
        return command
    partition, time = value[_ARRIVED_BESIDE]
    return command._replace(arrived=RecordPosition(partition, offset, time))


def parked_value(command: Moderation) -> dict[str, Any]:
    """The value for MongoDB: that of a ModerationOfReview, and data of its record beside the value."""
    beside: dict[str, Any] = {_PARKED_TRACE: command.trace or None}
    if (at := command.arrived) is not None:
        beside |= {_ARRIVED: at.offset, _ARRIVED_BESIDE: [at.partition, at.timestamp]}
    return forwarded_value(command) | present(beside)


def restored_value(restored: Restored) -> dict[str, Any]:
    """The value of a RestoredModeration."""
    return {
        "status": restored.status.label,
        "modifiedDate": timestamp(restored.modified),
        "flags": None if restored.flags is None else list(restored.flags),
        "source": restored.source,
        "language": restored.language,
        "verifiedPurchase": restored.is_verified,
    }


def moderation_fields(command: Moderation) -> dict[str, Any]:
    """The fields that all values of a command have."""
    fields = {
        "action": command.action.value,
        "moderator": command.moderator,
        "reason": command.reason,
        "reasonCode": command.reason_code,
        "expectedStatus": None if command.expected is None else command.expected.label,
        "commandId": command.command_id,
        "stores": None if command.stores is None else list(command.stores),
        "restored": command.restored and restored_value(command.restored),
    }
    return present(fields)
