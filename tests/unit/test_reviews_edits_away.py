"""Submissions with a known id while the database is unavailable, so that it isn't known if they are edits."""

import pytest

from api.commands import Earlier
from api.reviews.edits import wanted_by
from api.web.problems import ProblemError
from domain.permissions import ANYBODY, Caller, Permission
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.reviews import SubmittedReview
from storage.database import connect
from tests.support.app import NOWHERE, REVIEW, facade_services

CREATE, OTHERS, MODERATE = (
    Permission.CREATE_REVIEWS,
    Permission.CREATE_REVIEWS_FOR_OTHERS,
    Permission.MODERATE_REVIEWS,
)


async def status_of(caller: Caller, id: str | None = "r") -> int:
    """The status of the refusal of a submission; 202 if it is accepted."""
    review = SubmittedReview.model_validate({**REVIEW, "id": id, "userId": "anna"})
    client, database = connect(f"mongodb://{NOWHERE}", "nothing", timeout=0.001)
    async with client:
        services = facade_services(database, Publisher(KafkaConnection(NOWHERE)))
        try:
            await wanted_by(services, caller, {id or "new": review}, Earlier())
        except ProblemError as problem:
            return problem.kind.status
    return 202


@pytest.mark.long
@pytest.mark.parametrize(
    ("permissions", "status"),
    [
        ({CREATE}, 202),
        ({MODERATE}, 503),
        ({MODERATE, CREATE}, 503),
        ({MODERATE, OTHERS}, 503),
        ({MODERATE, CREATE, OTHERS}, 202),
        ({OTHERS}, 403),
    ],
)
async def test_permission_is_refused_only_if_no_look_up_could_allow_it(
    permissions: set[Permission], status: int
) -> None:
    assert await status_of(Caller("eve", frozenset(permissions))) == status


async def test_submission_that_needs_no_look_up_is_answered() -> None:
    assert await status_of(ANYBODY) == 202
    assert await status_of(Caller("eve", frozenset({MODERATE})), id=None) == 403
