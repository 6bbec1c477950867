"""The events about submissions: published at least once, with the same ids after a redelivery."""

from collections.abc import Collection, Iterable
from typing import Final

from uuid_utils import UUID, uuid5

from consumers.reviews.decisions import undecided_part
from consumers.reviews.submissions import Submission
from consumers.services import Services
from domain.delivery import OutgoingMessage
from domain.places import entity_key
from domain.reviews import Review
from domain.reviews_refusals import Refusal
from messaging.events import review_submitted, submission_refused
from messaging.tracing import cause_of

_EVENTS: Final = UUID("a8c1d0c7-7a0b-5f0e-8a54-0f5b7a1e2c33")


async def publish_rivals(services: Services, rivals: Collection[Submission]) -> None:
    """Publish the refusals of submissions whose ids were taken; those of edits are emitted by their transaction,
    and follow: `REDELIVERED` relies on it."""
    # A command with an answer is a repeat: its review was stored, and has been deleted since.
    answered = await services.outcomes.answers([s.answer_key for s in rivals if s.review.command_id])
    await publish_refusals(services, ((s, Refusal.ID_TAKEN) for s in rivals if s.answer_key not in answered))


async def publish_undecided(services: Services, refused: Collection[tuple[Submission, Refusal]]) -> None:
    """Publish that submissions were refused, except those whose id has been given to a review, and the records that
    were refused before: the rules may have changed since a record was decided, and no event may say that a stored
    review is refused."""
    holders = await services.reviews.holders({submission.id for submission, _ in refused})
    undecided = ((undecided_part(each, holders.get(each.id)), reason) for each, reason in refused)
    await publish_refusals(services, ((part, reason) for part, reason in undecided if part is not None))


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
