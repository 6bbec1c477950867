"""The endpoint that shows other moderators that somebody is looking at a review."""

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Depends
from pydantic import Field, TypeAdapter
from starlette.responses import Response

from api import examples
from api.auth.permissions import Moderator
from api.services import Injected
from api.stores.bounds import check_review
from api.web.bodies import JsonBody
from api.web.openapi import problems
from api.web.problems import ProblemKind, not_found
from api.web.routes import routes
from domain.timestamps import timestamp
from messaging.review_claims import ReviewClaimed
from messaging.schemas import ClosedMessage, OptionalId
from messaging.topics import Topic


class GivenClaim(ClosedMessage):
    """A claim. Without authentication a browser is recognised by a name that it makes up, its `desk`."""

    desk: Annotated[OptionalId, Field(description="Name of the browser, chosen by itself")] = None


GIVEN_CLAIM: Final = JsonBody(TypeAdapter(GivenClaim), {"A browser": examples.CLAIM}, required=False)

router: Final = routes("/api/customerReviews/{id}", "Moderation")


@router.post(
    "/claim",
    operation_id="claimReview",
    status_code=204,
    response_class=Response,
    responses=problems(ProblemKind.NOT_FOUND),
)
async def claim(
    caller: Moderator, id: str, given: Annotated[GivenClaim | None, Depends(GIVEN_CLAIM)], services: Injected
) -> Response:
    """Show other moderators that you are looking at a review. A claim is advisory: it stops nobody from deciding, is
    shown for two minutes, and ends with any decision."""
    await check_review(services, caller, id)
    review = await services.reviews.get(id)
    if review is None:
        raise not_found("review")
    event: ReviewClaimed = {
        "reviewId": id,
        "storeId": review.store_id,
        "subject": caller.subject,
        "desk": given.desk if given else None,
        "at": timestamp(datetime.now(UTC)),
    }
    await services.publisher.publish([services.message(Topic.REVIEW_CLAIMS, id, "ReviewClaimed", event)])
    return Response(status_code=204)
