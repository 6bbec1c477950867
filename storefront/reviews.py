"""The endpoint for an object's reviews on pages."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Query, Request
from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from api.services import Injected, Services
from api.web.cursors import MAX_CURSOR_LENGTH, cursor, position_in_order
from api.web.openapi import OPEN_TO_ALL
from api.web.pages import page_bytes
from api.web.problems import ProblemKind
from api.web.queries import any_case
from api.web.routes import routes
from domain.invisible import unless_blank
from domain.ratings import Entity, highest_with, lowest_with, rating_number
from domain.reviews import Review, ReviewStatus
from domain.sorting import Direction
from domain.timestamps import timestamp
from messaging.schemas import EMPTY_IS_MISSING, Language, ShownMoment, ShownRating
from storage.database import time_limit
from storage.reviews.search import TYPES, ReviewPage, ReviewSearch, ReviewSortField, order
from storefront.answers import Answer
from storefront.middleware import OF_OBJECT
from storefront.responses import cached
from storefront.shoppers import Reading, store_of

MOST_REVIEWS: Final = 50
_DEFAULT_TAKE: Final = 10
FILTERED_S: Final = 2.0
"""Maximum seconds to find the reviews of a page with filters: with a rare or made-up one, MongoDB reads all reviews of
the object."""


class SortOrder(StrEnum):
    """The order of reviews on a page; ties are sorted newest first, with `lowest` oldest first."""

    NEWEST = "newest"
    HELPFUL = "helpful"
    HIGHEST = "highest"
    LOWEST = "lowest"


_SORTS: Final = {
    SortOrder.NEWEST: [(ReviewSortField.CREATED_DATE, Direction.DESC)],
    SortOrder.HELPFUL: [(ReviewSortField.HELPFUL, Direction.DESC), (ReviewSortField.CREATED_DATE, Direction.DESC)],
    SortOrder.HIGHEST: [(ReviewSortField.RATING, Direction.DESC), (ReviewSortField.CREATED_DATE, Direction.DESC)],
    SortOrder.LOWEST: [(ReviewSortField.RATING, Direction.ASC), (ReviewSortField.CREATED_DATE, Direction.ASC)],
}


class PublicReply(TypedDict):
    """The store's answer to a review."""

    text: str
    author: str | None
    date: ShownMoment


class PublicImage(TypedDict):
    """An image of a review, as JPEG: at most 320 and 1600 pixels on its longest side; both are paths of the service."""

    id: str
    small: str
    large: str


class PublicReview(TypedDict):
    """An approved review as shown to the public."""

    id: str
    rating: ShownRating
    title: str | None
    text: str
    author: str | None
    date: ShownMoment
    language: str | None
    verified: bool
    incentivized: bool
    images: list[PublicImage]
    reply: PublicReply | None
    helpful: int
    notHelpful: int


class PublicPage(TypedDict):
    """One page of reviews; `next` is `after` of the next page, null on the last one."""

    results: list[PublicReview]
    next: str | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The criteria for the reviews of a page."""

    sort: SortOrder
    stars: int | None
    photos: bool | None
    verified: bool | None
    language: str | None
    take: int

    @property
    def is_filtered(self) -> bool:
        """True if not all reviews are wanted."""
        return any(each is not None for each in (self.stars, self.photos, self.verified, self.language))

    def search(self, store_id: str, entity: Entity, after: str | None) -> ReviewSearch:
        """The search by these criteria. Raises ProblemError: `after` is no position in its results."""
        search = ReviewSearch(
            statuses=[ReviewStatus.APPROVED],
            entity_types=[entity.type],
            entity_ids=[entity.id],
            store_id=store_id,
            lowest_rating=lowest_with(self.stars) if self.stars else None,
            highest_rating=highest_with(self.stars) if self.stars else None,
            shows_images=self.photos,
            is_verified=self.verified,
            language=self.language,
            sort=_SORTS[self.sort],
            take=self.take,
        )
        if after is None:
            return search
        return replace(
            search, after=position_in_order(after, self._cursor_scope(store_id, entity), order(search), TYPES)
        )

    def next_page(self, store_id: str, entity: Entity, page: ReviewPage) -> str | None:
        """`after` of the next page; None on the last one."""
        return None if page.end is None else cursor(page.end, self._cursor_scope(store_id, entity))

    def _cursor_scope(self, store_id: str, entity: Entity) -> Any:
        return [store_id, *entity, self.sort, self.stars, self.photos, self.verified, self.language]


async def wanted_reviews(
    sort: Annotated[
        SortOrder, any_case(SortOrder), Query(description="Ties: the newest first, with `lowest` the oldest first")
    ] = SortOrder.NEWEST,
    stars: Annotated[
        int | None, Query(ge=1, le=5, description="Only reviews whose rating, rounded to stars, is this")
    ] = None,
    photos: Annotated[bool | None, Query(description="true: only reviews with images; false: only others")] = None,
    verified: Annotated[bool | None, Query(description="true: only verified purchases; false: only others")] = None,
    language: Annotated[Language, Query(description="BCP 47; `en` also finds `en-US`")] = None,
    take: Annotated[int, Query(ge=1, le=MOST_REVIEWS, description="Maximum number of reviews")] = _DEFAULT_TAKE,
) -> Wanted:
    """The criteria in the query."""
    return Wanted(sort, stars, photos, verified, language, take)


router: Final = routes(OF_OBJECT, "Storefront", ProblemKind.NOT_FOUND, also={304: {}})


@router.get("/reviews", operation_id="listPublicReviews", response_model=PublicPage, openapi_extra=OPEN_TO_ALL)
async def list_reviews(
    request: Request,
    shopper: Reading,
    services: Injected,
    wanted: Annotated[Wanted, Depends(wanted_reviews)],
    after: Annotated[
        Annotated[str, Field(max_length=MAX_CURSOR_LENGTH)] | None,
        EMPTY_IS_MISSING,
        Query(description="The `next` of the previous page"),
    ] = None,
) -> Response:
    """Approved reviews of an object, one page at a time."""
    search = wanted.search(shopper.store.id, shopper.entity, after)
    return await cached(request, partial(_load, services, shopper.store.id, shopper.entity, wanted, search))


async def _load(services: Services, store_id: str, entity: Entity, wanted: Wanted, search: ReviewSearch) -> Answer:
    store = await store_of(services, store_id)
    with await services.pages.rows(search.take) as room:
        with time_limit(services.database, FILTERED_S) if wanted.is_filtered else nullcontext():
            page = await services.reviews.search(search)
        room.give_back(down_to=page_bytes(len(page.reviews), sum(len(review.text) for review in page.reviews)))
        async with services.pages.long_texts(page.long_texts.values()):
            found: PublicPage = {
                "results": [public_review(review) for review in await whole(services, page)],
                "next": wanted.next_page(store_id, entity, page),
            }
            return Answer(orjson.dumps(found), origins=frozenset(store.settings.storefront_origins))


async def whole(services: Services, page: ReviewPage) -> list[Review]:
    """The reviews of a page with their long texts, except those that were deleted since or are no longer approved."""
    if not page.long_texts:
        return list(page.reviews)
    texts = await services.reviews.texts(page.long_texts, approved=True)
    present = [review for review in page.reviews if review.id in texts or review.id not in page.long_texts]
    return [replace(review, text=texts.get(review.id, review.text)) for review in present]


def public_review(review: Review) -> PublicReview:
    """A review as shown to the public."""
    reply = review.reply
    return {
        "id": review.id,
        "rating": rating_number(review.rating),
        "title": unless_blank(review.title),
        "text": review.text,
        "author": unless_blank(review.user_name),
        "date": timestamp(review.created),
        "language": review.facts.language,
        "verified": review.facts.verified_purchase,
        "incentivized": review.facts.incentivized,
        "images": [
            {"id": image.id, "small": f"/api/images/{image.id}?size=320", "large": f"/api/images/{image.id}"}
            for image in review.images
            if image.is_shown
        ],
        "reply": reply
        and {"text": reply.text, "author": unless_blank(reply.author), "date": timestamp(reply.modified)},
        "helpful": review.responses.helpful,
        "notHelpful": review.responses.not_helpful,
    }
