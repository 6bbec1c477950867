"""The events about submissions: published at least once, with the same ids after a redelivery."""

from collections.abc import Iterable
from typing import Final

from uuid_utils import UUID, uuid5

from consumers.reviews.submissions import Submission
from consumers.services import Services
from domain.delivery import OutgoingMessage
from domain.places import entity_key
from domain.reviews import Review
from domain.reviews_refusals import Refusal
from messaging.events import review_submitted, submission_refused
from messaging.tracing import cause_of

_EVENTS: Final = UUID("a8c1d0c7-7a0b-5f0e-8a54-0f5b7a1e2c33")


async def publish_refusals(services: Services, refused: Iterable[tuple[Submission, Refusal]]) -> None:
    """Publish that submissions were refused: at least once, with the same event id on a repeat."""
    events = []
    for submission, reason in refused:
        key = submission.review.identity.key
        data = submission_refused(submission.id, key, reason, submission.created)
        # With its key: an array can hold several rivals for one id.
        id = str(uuid5(_EVENTS, f"{submission.positions[0]}/{submission.key}"))
        events.append(services.event(entity_key(key.entity), "SubmissionRefused", data, id=id))
    await services.publisher.publish(events)


def submitted_event(services: Services, submission: Submission, review: Review) -> OutgoingMessage:
    """The event for a stored review; a redelivery gives it the same id."""
    return services.event(
        entity_key(review.entity),
        "ReviewSubmitted",
        review_submitted(review),
        id=str(uuid5(_EVENTS, f"{submission.id}/{submission.positions[0].timestamp}")),
        cause=cause_of(submission.positions[0]),
    )
