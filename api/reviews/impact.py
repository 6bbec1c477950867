"""The endpoint of what a decision about a review does to the rating of its object."""

from __future__ import annotations

from typing import Final

from typing_extensions import TypedDict

from api.auth.permissions import ReviewReader
from api.services import Injected, Services
from api.web.problems import ProblemKind, not_found
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.ratings import RatingMethod, RatingTally, rating_value
from domain.reviews import Review, ReviewStatus
from domain.stores import rating_method


class RatingNumbers(TypedDict):
    """A rating, 0 to 5 (0: no reviews), and the number of approved reviews behind it."""

    value: float
    reviewCount: int


class Impact(TypedDict):
    """The rating of a review's object in its store, by the store's method: now, and by each decision."""

    method: RatingMethod
    now: RatingNumbers
    ifApproved: RatingNumbers
    ifNotApproved: RatingNumbers


router: Final = routes("/api/customerReviews/{id}", "Reviews", ProblemKind.NOT_FOUND, ProblemKind.UNAVAILABLE)


@router.get("/impact", response_model=Impact)
async def read_impact(caller: ReviewReader, id: str, services: Injected) -> JsonResponse:
    """The rating of a review's object as it is, and as it would be by each decision about the review."""
    review, now = await _rated(services, id)
    if review is None or not caller.may_touch(review.store_id):
        raise not_found("review")
    its = RatingTally.of([review.rating])
    is_counted = review.status is ReviewStatus.APPROVED
    stores = await services.lookups.stores([review.store_id] if review.store_id is not None else [])
    method = rating_method(await services.lookups.general(), stores.get(review.store_id or ""))

    def numbers(tally: RatingTally) -> RatingNumbers:
        # Without the review a damaged tally has fewer than none.
        return {"value": rating_value(tally, method), "reviewCount": max(0, tally.count)}

    return JsonResponse(
        {
            "method": method,
            "now": numbers(now),
            "ifApproved": numbers(now if is_counted else now + its),
            "ifNotApproved": numbers(now - its if is_counted else now),
        }
    )


async def _rated(services: Services, id: str) -> tuple[Review | None, RatingTally]:
    """A review and the tally of its object in its store, at one moment: a decision between would count twice."""
    async with services.database.client.start_session(snapshot=True) as session:
        review = await services.reviews.get(id, session)
        if review is None:
            return None, RatingTally()
        entity = review.entity
        tallies = await services.ratings.of_entities(entity.type, [entity.id], session=session)
    return review, tallies.get(entity.id, {}).get(review.store_id, RatingTally())
