"""Verdicts of classifiers as messages, and as MongoDB parks them."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from domain.delivery import RecordPosition
from domain.moderation_rules import RuleOutcome
from domain.timestamps import from_milliseconds
from domain.verdicts import Verdict
from messaging.decoding import Received
from messaging.schemas import AtMost, ClosedMessage, Id, Name, NoNull, NotBlank, TextHash
from messaging.tracing import cause_of

LONGEST_SOURCE: Final = 64


class ModerationVerdict(ClosedMessage):
    """A classifier's verdict about the text of a review."""

    review_id: Id
    text_hash: TextHash
    source: Annotated[NoNull, Field(max_length=LONGEST_SOURCE, description="Name of the classifier"), NotBlank]
    verdict: Annotated[RuleOutcome, Field(description="`hold` and `flag` keep a new review waiting for a moderator")]
    labels: Annotated[tuple[Name, ...], AtMost(20)] = ()
    score: Annotated[float | None, Field(allow_inf_nan=False)] = None

    def about(self, position: RecordPosition, trace: str) -> Verdict:
        """The verdict as a domain value; `position` is that of its record."""
        return Verdict(
            self.review_id,
            self.text_hash,
            self.source,
            self.verdict,
            position,
            at=from_milliseconds(position.timestamp),
            labels=self.labels,
            score=self.score,
            trace=trace,
        )


MODERATION_VERDICT: TypeAdapter[ModerationVerdict] = TypeAdapter(ModerationVerdict)


def verdict_in(received: Received[ModerationVerdict]) -> Verdict:
    """The verdict in a record."""
    return received.message.about(received.position, cause_of(received.position))


def verdict_value(verdict: Verdict) -> dict[str, object]:
    """The value of a ModerationVerdict."""
    return {
        "reviewId": verdict.review_id,
        "textHash": verdict.text_hash,
        "source": verdict.source,
        "verdict": verdict.outcome.value,
        "labels": list(verdict.labels),
        "score": verdict.score,
    }


def parked_verdict(verdict: Verdict) -> dict[str, object]:
    """The value for MongoDB: the verdict and its origin."""
    return {**verdict_value(verdict), "position": list(verdict.position), "trace": verdict.trace}


def verdict_from(value: Mapping[str, Any]) -> Verdict:
    """The verdict in a value of `parked_verdict`, as MongoDB returns it."""
    fields = {name: value[name] for name in ("reviewId", "textHash", "source", "verdict", "labels", "score")}
    message = MODERATION_VERDICT.validate_python(fields, strict=False)
    return message.about(RecordPosition(*value["position"]), value["trace"])
