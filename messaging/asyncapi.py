"""The AsyncAPI 3 document, generated from the schemas that validate the messages."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import TaggedUnionSchema

from messaging.asyncapi_examples import EXAMPLES
from messaging.dead_letters_replays import REPLAY_COMMAND
from messaging.events import (
    MODERATION_EVENTS,
    RatingChanged,
    ReminderRequested,
    ReviewEdited,
    ReviewModerated,
    ReviewReplied,
    ReviewReported,
    ReviewSubmitted,
    SubmissionRefused,
)
from messaging.events_returns import ReturnDeleted, ReturnRefused, ReturnState
from messaging.feedback import FEEDBACK_COMMAND
from messaging.images import IMAGE_COMMAND, IMAGE_UPLOAD
from messaging.mails import MAIL_COMMAND, MAIL_KIND
from messaging.moderation import MODERATION_COMMAND
from messaging.objects import OBJECT_UPDATE
from messaging.orders import ORDER_EVENT
from messaging.reminders import REMINDER_COMMAND
from messaging.returns import RETURN_COMMAND
from messaging.review_claims import REVIEW_CLAIMED
from messaging.reviews import REVIEW_CHANGE, SUBMISSIONS, SubmittedReview
from messaging.reviews_state import ReviewState
from messaging.sessions import ENDED_SESSION
from messaging.stores import STORE_UPDATE
from messaging.topics import Topic, TopicNames
from messaging.verdicts import MODERATION_VERDICT

_REF: Final = "#/components/schemas/{model}"
_HEADERS: Final = "CloudEventHeaders"
_HEADER_FIELDS: Final = {
    "ce_specversion": "1.0",
    "ce_id": "Unique id of the message; a repeat has the same one",
    "ce_type": "`plaudit.` followed by the kind of the message; each message for other systems states its value",
    "ce_source": "Process that published the message, written as a path",
    "ce_time": "Time of the message, ISO 8601 in UTC",
    "content-type": "application/json",
    "ce_commandid": "Id of the HTTP command that caused the message; missing otherwise",
    "ce_commandmark": "Identifies the whole command: its messages, and those of a repeat of it, all have this value",
    "traceparent": "W3C trace context of the request or message that caused this one; missing without tracing",
}

_KINDS: Final = {"MailCommand": MAIL_KIND}
"""Kinds in `ce_type` of messages for others, by message name, if they differ from it."""

_TOMBSTONE: Final[TypeAdapter[None]] = TypeAdapter(
    Annotated[
        None, Field(description="A record without a value (tombstone): the review with this key no longer exists")
    ]
)


class _Schemas(GenerateJsonSchema):
    """Schemas as Pydantic generates them, except that AsyncAPI's discriminator is only the property's name, and that
    fields have no titles, which would only repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No title for any field."""
        return False

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> JsonSchemaValue:
        """The schema of a union with a discriminator."""
        generated = super().tagged_union_schema(schema)
        return {**generated, "discriminator": generated["discriminator"]["propertyName"]}


@dataclass(frozen=True, slots=True)
class _Channel:
    """A topic: its direction, the key of its records, and its values by message name."""

    summary: str
    direction: Literal["in", "inside", "out"]
    key: str
    messages: dict[str, TypeAdapter[Any]]


CHANNELS: Final = {
    Topic.REVIEW_SUBMISSIONS: _Channel(
        "Reviews to store: one review, or an array of at most 1,000; the value has at most 1 MiB",
        "in",
        "EntityType:EntityId",
        {"SubmittedReview": TypeAdapter(SubmittedReview), "SubmittedReviews": SUBMISSIONS},
    ),
    Topic.MODERATION_COMMANDS: _Channel(
        "Reviews to approve, reject, reset or delete", "in", "review id", {"ModerationCommand": MODERATION_COMMAND}
    ),
    Topic.REVIEW_FEEDBACK: _Channel(
        "Replies to reviews, votes on reviews, and reports of reviews",
        "in",
        "review id",
        {"FeedbackCommand": FEEDBACK_COMMAND},
    ),
    Topic.MODERATION_VERDICTS: _Channel(
        "Verdicts of classifiers on the texts of reviews",
        "in",
        "review id",
        {"ModerationVerdict": MODERATION_VERDICT},
    ),
    Topic.ORDER_EVENTS: _Channel("Orders in their current state", "in", "order id", {"OrderEvent": ORDER_EVENT}),
    Topic.REMINDER_COMMANDS: _Channel(
        "Notices that customers have seen a request for reviews",
        "in",
        "order id",
        {"ReminderCommand": REMINDER_COMMAND},
    ),
    Topic.RETURN_COMMANDS: _Channel(
        "Returns to create, change or delete", "in", "order id", {"ReturnCommand": RETURN_COMMAND}
    ),
    Topic.STORE_UPDATES: _Channel(
        "Stores and settings; omitted fields keep their values", "in", "store id", {"StoreUpdate": STORE_UPDATE}
    ),
    Topic.OBJECT_UPDATES: _Channel(
        "Facts about reviewed objects, such as their names and GTINs; omitted fields keep their values",
        "in",
        "EntityType:EntityId",
        {"ObjectUpdate": OBJECT_UPDATE},
    ),
    Topic.REVIEW_CHANGES: _Channel(
        "Internal: moderation commands and recounts of ratings; those of one object are in one partition",
        "inside",
        "EntityType:EntityId, or review id",
        {"ReviewChange": REVIEW_CHANGE},
    ),
    Topic.IMAGE_UPLOADS: _Channel(
        "Internal: uploaded images to be rebuilt from their pixels", "inside", "image id", {"ImageUpload": IMAGE_UPLOAD}
    ),
    Topic.IMAGE_COMMANDS: _Channel(
        "Images of reviews to hide or to show again", "in", "image id", {"ImageCommand": IMAGE_COMMAND}
    ),
    Topic.ENDED_SESSIONS: _Channel(
        "Internal: console sessions that ended because the person signed out",
        "inside",
        "session id",
        {"EndedSession": ENDED_SESSION},
    ),
    Topic.DEAD_LETTER_COMMANDS: _Channel(
        "Internal: requests to publish a dead letter again",
        "inside",
        "one key for all messages, to keep their order",
        {"ReplayCommand": REPLAY_COMMAND},
    ),
    Topic.MAIL_COMMANDS: _Channel(
        "Mails to send; repeats have the same `ce_id` and `id`", "out", "customer id", {"MailCommand": MAIL_COMMAND}
    ),
    Topic.REVIEW_CLAIMS: _Channel(
        "Reviews that moderators have open; advisory, and valid for two minutes",
        "out",
        "review id",
        {"ReviewClaimed": REVIEW_CLAIMED},
    ),
    Topic.REVIEWS: _Channel(
        "The current state of each review, compacted; a record without a value means that the review no longer exists",
        "out",
        "review id",
        {"ReviewState": TypeAdapter(ReviewState), "ReviewGone": _TOMBSTONE},
    ),
    Topic.EVENTS: _Channel(
        "Events; `ce_type` names the event, and repeats have the same `ce_id`",
        "out",
        "EntityType:EntityId, or order id; of a ReturnRefused without order: return id",
        {
            "ReviewSubmitted": TypeAdapter(ReviewSubmitted),
            "ReviewEdited": TypeAdapter(ReviewEdited),
            **dict.fromkeys(MODERATION_EVENTS.values(), TypeAdapter(ReviewModerated)),
            "ReviewReplied": TypeAdapter(ReviewReplied),
            "ReviewReported": TypeAdapter(ReviewReported),
            "RatingChanged": TypeAdapter(RatingChanged),
            "ReminderRequested": TypeAdapter(ReminderRequested),
            "SubmissionRefused": TypeAdapter(SubmissionRefused),
            "ReturnCreated": TypeAdapter(ReturnState),
            "ReturnChanged": TypeAdapter(ReturnState),
            "ReturnDeleted": TypeAdapter(ReturnDeleted),
            "ReturnRefused": TypeAdapter(ReturnRefused),
        },
    ),
}


def asyncapi_document(topics: TopicNames, version: str) -> dict[str, Any]:
    """The AsyncAPI 3.0.0 document for these topic names, as plain JSON values."""
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    schemas: dict[str, Any] = {_HEADERS: _header_schema()}
    for topic, channel in CHANNELS.items():
        for name, adapter in channel.messages.items():
            schema = adapter.json_schema(ref_template=_REF, schema_generator=_Schemas)
            schemas |= schema.pop("$defs", {})
            messages[name] = {
                "name": name,
                "contentType": "application/json",
                **({} if channel.direction == "in" else {"headers": _headers_of(name, channel)}),
                "payload": schema,
                **({"examples": [{"payload": each} for each in EXAMPLES[name]]} if name in EXAMPLES else {}),
                "bindings": {"kafka": {"key": {"type": "string", "description": channel.key}}},
            }
        channels[topic.value] = {
            "address": topics.name(topic),
            "description": f"{channel.summary}. Key: {channel.key}.",
            "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in channel.messages},
        }
        if channel.direction != "inside":
            operations[f"{channel.direction}-{topic}"] = {
                "action": "receive" if channel.direction == "in" else "send",
                "summary": channel.summary,
                "channel": {"$ref": f"#/channels/{topic}"},
            }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Plaudit",
            "version": version,
            "description": "Values are JSON in UTF-8. Messages published by Plaudit carry CloudEvents 1.0 headers in "
            "binary mode; incoming messages may omit all headers. A message that can't be processed goes "
            "to `<topic>.dlq` with the reason.",
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": schemas},
    }


def _headers_of(name: str, channel: _Channel) -> dict[str, Any]:
    """The headers of a message that Plaudit publishes, with its `ce_type` if it is for others."""
    headers: dict[str, Any] = {"type": "object", "allOf": [{"$ref": _REF.format(model=_HEADERS)}]}
    if channel.direction == "out":
        headers["properties"] = {"ce_type": {"const": f"plaudit.{_KINDS.get(name, name)}"}}
    return headers


def _header_schema() -> dict[str, Any]:
    return {
        "description": "CloudEvents 1.0 in binary mode, on every message that Plaudit publishes.",
        "type": "object",
        "required": [name for name in _HEADER_FIELDS if name not in ("ce_commandid", "ce_commandmark", "traceparent")],
        "properties": {name: {"type": "string", "description": text} for name, text in _HEADER_FIELDS.items()},
    }
