"""The past of a review in a row of our own export, and the commands that restore it.

No other module of the import knows the messages of feedback.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID, uuid5

from pydantic import FailFast, Field, StringConstraints, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from domain.feedback_reports import ReportReason
from domain.reviews import ReviewStatus
from domain.reviews_facts import ReasonCode, Source
from domain.reviews_moderated import Restored
from domain.timestamps import timestamp
from messaging.feedback import FEEDBACK_LENGTH, FeedbackText, GivenSettlement
from messaging.json_values import present
from messaging.moderation import Status, restored_value
from messaging.schemas import (
    NO_NULL,
    ClosedMessage,
    Id,
    MailAddress,
    Message,
    Moment,
    Name,
    Note,
    OptionalId,
    Readable,
)
from plaudit.tools.imports.bad_rows import BadRowError, faults_of

T = TypeVar("T")

_EXPORT_COLUMNS: Final = ("reviewStatus", "createdDate", "modifiedDate")
"""A row with all of these columns is from our own export; in other rows such a column means something else."""

_FEEDBACK_LINES: Final = ({"reviewId", "votes"}, {"reviewId", "reported"})
"""The exact fields of lines that aren't reviews. A line with any other is a review whose id is called `reviewId`."""

_MAY_BE_EMPTY: Final = ("moderator", "moderationReason")

_NAMESPACE: Final = UUID("5a6e0d54-3a0f-5d0e-8a2f-9d6b9a0c7f11")


class PastReply(ClosedMessage):
    """The store's reply, with its dates."""

    text: Annotated[FeedbackText, Readable]
    author: Name | None = None
    created_date: Moment
    modified_date: Moment


class Past(Message):
    """The past of a review: everything but the words of its author."""

    review_status: Status
    created_date: Moment
    modified_date: Moment
    moderator: Name | None = None
    moderation_reason: Note | None = None
    reason_code: ReasonCode | None = None
    flags: Annotated[tuple[Id, ...] | None, Field(max_length=100)] = None
    source: Source | None = None
    language: Name | None = None
    verified_purchase: bool = False
    reply: PastReply | None = None

    @field_validator("reason_code")
    @classmethod
    def _check_reason_code(cls, code: ReasonCode | None, given: ValidationInfo) -> ReasonCode | None:
        if code is not None and given.data.get("review_status") is not ReviewStatus.REJECTED:
            raise PydanticCustomError("reason_code", "Only a rejected review has one")
        return code

    def restoration(self) -> dict[str, Any]:
        """The moderation command that restores it, without the id of the review."""
        restored = Restored(
            self.review_status,
            self.modified_date,
            self.flags,
            self.source,
            self.language,
            self.verified_purchase,
        )
        fields = {
            "action": "restore",
            "moderator": self.moderator,
            "reason": self.moderation_reason,
            "reasonCode": self.reason_code,
            "restored": restored_value(restored),
        }
        return present(fields)

    def feedback(self, review_id: str) -> Iterator[dict[str, Any]]:
        """The feedback commands that restore the store's reply."""
        if self.reply:
            dates = {
                "createdDate": timestamp(self.reply.created_date),
                "modifiedDate": timestamp(self.reply.modified_date),
            }
            author = {"author": self.reply.author} if self.reply.author else {}
            yield {"action": "reply", "reviewId": review_id, "text": self.reply.text, **author, **dates}


class PastVote(ClosedMessage):
    """A vote on a review."""

    user_id: Id
    helpful: bool


class PastReport(ClosedMessage):
    """A report about a review. `explanation` is empty if the person was erased; earlier exports have no `id`."""

    id: OptionalId = None
    reason: ReportReason
    explanation: Annotated[str, StringConstraints(max_length=FEEDBACK_LENGTH, pattern=NO_NULL)]
    at: Moment
    name: Name | None = None
    email: MailAddress = None
    user_id: OptionalId = None
    settled: GivenSettlement | None = None


class PastFeedback(ClosedMessage):
    """A line of votes on a review, or of reports about it."""

    review_id: Id
    votes: Annotated[tuple[PastVote, ...], FailFast()] = ()
    reported: Annotated[tuple[PastReport, ...], FailFast()] = ()

    def commands(self) -> Iterator[dict[str, Any]]:
        """The feedback commands that restore the votes and reports."""
        for vote in self.votes:
            voted = {"userId": vote.user_id, "helpful": vote.helpful}
            yield {"action": "vote", "reviewId": self.review_id, **voted}
        for report in self.reported:
            fields = report.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"id", "at", "settled"})
            past: dict[str, Any] = {"reportedDate": timestamp(report.at)}
            past |= {"reportId": report.id} if report.id else {}
            if report.settled:
                settled = report.settled
                past["settled"] = {
                    **settled.model_dump(mode="json", by_alias=True, exclude_none=True),
                    "at": timestamp(settled.at),
                }
            yield {"action": "report", "reviewId": self.review_id, "goodFaith": True, **fields, **past}


_PAST: Final = TypeAdapter(Past)
_FEEDBACK: Final = TypeAdapter(PastFeedback)


def is_exported(columns: Mapping[str, Any]) -> bool:
    """True for a row of our own export."""
    return all(columns.get(name) for name in _EXPORT_COLUMNS)


def past_in(columns: Mapping[str, Any], *, is_text: bool) -> Past | None:
    """The past in a row of our own export; None for any other row. Raises BadRowError.

    `is_text`: all values are text, as in CSV, and empty means missing.
    """
    if not is_exported(columns):
        return None
    may_be_empty = () if is_text else _MAY_BE_EMPTY
    given = {
        name: value for name, value in columns.items() if value is not None and (value != "" or name in may_be_empty)
    }
    return _validated(_PAST, given)


def feedback_in(columns: Mapping[str, Any]) -> PastFeedback | None:
    """The votes or reports in a line; None for a line that is a review. Raises BadRowError."""
    return _validated(_FEEDBACK, columns) if columns.keys() in _FEEDBACK_LINES else None


def feedback_identity(command: Mapping[str, Any]) -> str:
    """The CloudEvents id of a feedback command: equal for equal commands."""
    return str(uuid5(_NAMESPACE, repr(sorted(command.items()))))


def _validated(codec: TypeAdapter[T], columns: Mapping[str, Any]) -> T:
    try:
        return codec.validate_python(columns, strict=False)
    except ValidationError as error:
        raise BadRowError(faults_of(error)) from None
