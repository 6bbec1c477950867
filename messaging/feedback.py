"""Messages of feedback (replies, votes, reports): one codec for their topic, parked commands and dead letters."""

from typing import Annotated, Any, Final, Literal
from uuid import UUID, uuid5

from pydantic import Field, StringConstraints, TypeAdapter, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from domain.feedback import Feedback, FeedbackAction, Origin
from domain.feedback_reports import Report, ReportReason, Settlement
from domain.invisible import is_blank
from domain.reviews import ModerationAction
from domain.reviews_facts import Reply
from domain.timestamps import from_milliseconds, timestamp
from messaging.decoding import Received
from messaging.envelope import cloud_event_identity
from messaging.json_values import present
from messaging.schemas import (
    HIDDEN_INPUT,
    NO_NULL,
    ClosedMessage,
    Id,
    MailAddress,
    Moment,
    Name,
    NotBlank,
    OnlyTrue,
    OptionalId,
    Readable,
    Stores,
    TextHash,
)
from messaging.tracing import cause_of

KIND: Final = "feedback"
FEEDBACK_LENGTH: Final = 5_000

_REPORTS: Final = UUID("2f1d3c0a-6c3e-5d0b-9a52-7d0c4c1b8e14")


FeedbackText = Annotated[str, StringConstraints(max_length=FEEDBACK_LENGTH, pattern=NO_NULL), NotBlank]


class GivenReply(ClosedMessage):
    """The store's reply to a review."""

    text: Annotated[FeedbackText, Readable]
    author: Annotated[Name | None, Field(description="Name shown with it")] = None


class GivenVoter(ClosedMessage):
    """The person who votes."""

    user_id: Annotated[OptionalId, Field(description="Missing: the caller")] = None


class GivenVote(GivenVoter):
    """A vote on a review."""

    helpful: bool


class GivenReport(ClosedMessage):
    """An objection to a review."""

    reason: ReportReason
    explanation: Annotated[FeedbackText, Readable]
    name: Name | None = None
    email: MailAddress = None
    good_faith: Annotated[
        OnlyTrue,
        Field(description="Confirms that the sender believes in good faith that the report is accurate and complete"),
    ]


class GivenSettlement(ClosedMessage):
    """The decision that settled a report."""

    action: ModerationAction
    moderator: Name | None = None
    at: Moment

    def settlement(self) -> Settlement:
        """The settlement as a domain value."""
        return Settlement(self.action, self.moderator, self.at)


class OldReport(ClosedMessage):
    """The part of a report that only an import sets."""

    report_id: Annotated[OptionalId, Field(description="Only for an imported report: its id in the other system")] = (
        None
    )
    reported_date: Annotated[Moment | None, Field(description="Only for an imported report: when it was made")] = None
    settled: Annotated[
        GivenSettlement | None, Field(description="Only for an imported report: the decision that settled it")
    ] = None


class _FeedbackOnReview(ClosedMessage):
    """The fields that all feedback has."""

    review_id: Id
    command_id: Annotated[
        OptionalId,
        Field(description="If given, the outcome is stored under this id for 24 hours; a repeat changes nothing"),
    ] = None
    stores: Stores = None
    text_hash: Annotated[
        TextHash | None, Field(description="If given, a review with another text is refused; set by `plaudit import`")
    ] = None

    def _feedback(self, action: FeedbackAction, origin: Origin, **fields: Any) -> Feedback:
        return Feedback(
            self.review_id,
            action,
            origin,
            from_milliseconds(origin.position.timestamp),
            command_id=self.command_id,
            stores=self.stores,
            text_hash=self.text_hash,
            **fields,
        )


class ReplyCommand(_FeedbackOnReview, GivenReply):
    """Reply to a review, or change its reply."""

    action: Literal[FeedbackAction.REPLY]
    moderator: Name | None = None
    created_date: Annotated[Moment | None, Field(description="Only for an imported reply: when it was written")] = None
    modified_date: Annotated[
        Moment | None, Field(description="Only for an imported reply: when it was last changed")
    ] = None

    def feedback(self, origin: Origin) -> Feedback:
        """The command as a domain value."""
        at = from_milliseconds(origin.position.timestamp)
        modified = self.modified_date or self.created_date or at
        reply = Reply(self.text, self.author or None, self.created_date or modified, modified)
        return self._feedback(self.action, origin, reply=reply, moderator=self.moderator)


class RemoveReplyCommand(_FeedbackOnReview):
    """Remove the reply to a review."""

    action: Literal[FeedbackAction.REMOVE_REPLY]
    moderator: Name | None = None

    def feedback(self, origin: Origin) -> Feedback:
        """The command as a domain value."""
        return self._feedback(self.action, origin, moderator=self.moderator)


class VoteCommand(_FeedbackOnReview):
    """Vote on a review; the last vote of a voter counts."""

    action: Literal[FeedbackAction.VOTE]
    user_id: Id
    helpful: bool

    def feedback(self, origin: Origin) -> Feedback:
        """The command as a domain value."""
        return self._feedback(self.action, origin, user_id=self.user_id, helpful=self.helpful)


class RemoveVoteCommand(_FeedbackOnReview):
    """Withdraw a vote."""

    action: Literal[FeedbackAction.REMOVE_VOTE]
    user_id: Id

    def feedback(self, origin: Origin) -> Feedback:
        """The command as a domain value."""
        return self._feedback(self.action, origin, user_id=self.user_id)


class ReportCommand(_FeedbackOnReview, GivenReport, OldReport):
    """Report a review. A repeat is recognised by its id if it has one, else by its command, by its CloudEvents
    identity, or by its content."""

    action: Literal[FeedbackAction.REPORT]
    # Empty in an imported report whose author has been erased.
    explanation: Annotated[str, StringConstraints(max_length=FEEDBACK_LENGTH, pattern=NO_NULL)]
    user_id: OptionalId = None

    @field_validator("explanation")
    @classmethod
    def _check_explanation(cls, text: str, given: ValidationInfo) -> str:
        if given.data.get("reported_date") is None and is_blank(text):
            raise PydanticCustomError("blank", "Must not be blank")
        return text

    def feedback(self, origin: Origin) -> Feedback:
        """The command as a domain value."""
        at = from_milliseconds(origin.position.timestamp)
        content = (self.reason.value, self.explanation, self.name, self.email, self.user_id)
        report = Report(
            self.report_id or _generated_id(self.review_id, self.command_id or origin.identity, content),
            self.review_id,
            self.reason,
            self.explanation,
            min(self.reported_date or at, at),
            self.name or None,
            self.email,
            self.user_id,
            self.settled.settlement() if self.settled else None,
        )
        return self._feedback(self.action, origin, report=report)


FeedbackCommand = ReplyCommand | RemoveReplyCommand | VoteCommand | RemoveVoteCommand | ReportCommand

FEEDBACK_COMMAND: TypeAdapter[FeedbackCommand] = TypeAdapter(
    Annotated[FeedbackCommand, Field(discriminator="action")], config=HIDDEN_INPUT
)
REPLY: TypeAdapter[GivenReply] = TypeAdapter(GivenReply)
VOTE: TypeAdapter[GivenVote] = TypeAdapter(GivenVote)
VOTER: TypeAdapter[GivenVoter] = TypeAdapter(GivenVoter)
REPORT: TypeAdapter[GivenReport] = TypeAdapter(GivenReport)


def feedback_in(received: Received[FeedbackCommand]) -> Feedback:
    """The feedback in a record."""
    position, identity = received.position, cloud_event_identity(received.record.headers)
    origin = Origin(position, received.mark, identity, cause_of(position))
    return received.message.feedback(origin)


def feedback_value(feedback: Feedback) -> dict[str, Any]:
    """The value of a FeedbackCommand."""
    fields = {
        "action": feedback.action.value,
        "reviewId": feedback.review_id,
        "commandId": feedback.command_id,
        "stores": None if feedback.stores is None else list(feedback.stores),
        "moderator": feedback.moderator,
        "textHash": feedback.text_hash,
        **_content(feedback),
    }
    return present(fields)


def _content(feedback: Feedback) -> dict[str, Any]:
    if report := feedback.report:
        sender = {"name": report.name, "email": report.email, "userId": report.user_id, "goodFaith": True}
        # A report without an explanation was imported, even if its date is that of its record.
        is_imported = report.at != feedback.at or is_blank(report.explanation)
        imported = {"reportedDate": timestamp(report.at)} if is_imported else {}
        content = (report.reason.value, report.explanation, report.name, report.email, report.user_id)
        if report.id != _generated_id(feedback.review_id, feedback.command_id or feedback.origin.identity, content):
            imported["reportId"] = report.id
        return {
            "reason": report.reason.value,
            "explanation": report.explanation,
            **sender,
            **imported,
            **_settlement_fields(report),
        }
    if reply := feedback.reply:
        dates = {"createdDate": timestamp(reply.created), "modifiedDate": timestamp(reply.modified)}
        return {"text": reply.text, "author": reply.author, **dates}
    return {"userId": feedback.user_id, "helpful": feedback.helpful} if feedback.vote_key else {}


def _generated_id(review_id: str, identity: str | None, content: tuple[str | None, ...]) -> str:
    """The id of a report without one: from the identity of its message, else from its content."""
    return str(uuid5(_REPORTS, f"{review_id}\n{identity or repr(content)}"))


def _settlement_fields(report: Report) -> dict[str, Any]:
    if report.settled is None:
        return {}
    action, moderator, at = report.settled
    by = {"moderator": moderator} if moderator is not None else {}
    return {"settled": {"action": action.value, **by, "at": timestamp(at)}}
