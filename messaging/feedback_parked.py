"""Feedback that arrived before its review, as MongoDB stores it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.commands import mark_from
from domain.delivery import RecordPosition
from domain.feedback import Feedback, Origin
from messaging.feedback import FEEDBACK_COMMAND, KIND, feedback_value
from messaging.json_values import present
from messaging.schemas import without_blank


def parked_feedback(feedback: Feedback) -> dict[str, Any]:
    """The value for MongoDB: the command and its origin."""
    origin, command = feedback.origin, feedback_value(feedback)
    fields = {
        "kind": KIND,
        "reviewId": feedback.review_id,
        "commandId": feedback.command_id,
        "source": list(origin.position),
        "commandMark": str(origin.mark) if origin.mark else None,
        "identity": origin.identity,
        "traceparent": origin.trace or None,
        # Outside of the command, in which workers of the previous version refuse unknown fields.
        "textHash": command.pop("textHash", None),
        "command": command,
    }
    return present(fields)


def feedback_from(value: Mapping[str, Any]) -> Feedback:
    """The feedback in a value of `parked_feedback`, as MongoDB returns it."""
    position, mark = RecordPosition(*value["source"]), mark_from(value.get("commandMark"))
    origin = Origin(position, mark, value.get("identity"), value.get("traceparent", ""))
    command = without_blank(value["command"], "userId", "commandId")
    feedback = FEEDBACK_COMMAND.validate_python(command, strict=False).feedback(origin)
    return replace(feedback, text_hash=value.get("textHash"))
