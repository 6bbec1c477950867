"""Reviews as the API shows them."""

from collections.abc import Mapping
from typing import Annotated, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from domain.ratings import rating_number
from domain.reviews import Review, ReviewStatus
from domain.reviews_facts import Source
from domain.stores import Store, store_name
from domain.timestamps import timestamp
from messaging.reviews_state import ReviewFacts, review_facts
from messaging.schemas import ShownMoment, ShownRating

StatusName = Annotated[str, WithJsonSchema({"type": "string", "enum": [each.label for each in ReviewStatus]})]


class ReviewRow(TypedDict):
    """A review in a list."""

    id: str
    entityId: str
    entityName: str | None
    entityType: str
    reviewStatus: StatusName
    reviewStatusId: int
    title: str | None
    review: str
    rating: ShownRating
    userName: str | None
    storeName: str | None
    createdDate: ShownMoment


class ReviewDetails(ReviewRow, ReviewFacts):
    """One review with all its fields. `writtenDate`: only of a review that was imported with it, the same as
    `createdDate`. `pendingImages`: the number of its images that aren't rebuilt yet, and so aren't in `images`.
    `unseenImages`: ids of the images that are hidden until a moderator has seen them, and shows or hides them."""

    writtenDate: ShownMoment | None
    pendingImages: int
    unseenImages: list[str]


class ReviewList(TypedDict):
    """One page of a list, and the total number of reviews; `next` is the `after` of the next page, if there is one."""

    totalCount: NotRequired[int]
    next: NotRequired[str]
    results: list[ReviewRow]


class ReviewDetailsList(TypedDict):
    """One page of a list of reviews with all their fields."""

    totalCount: NotRequired[int]
    next: NotRequired[str]
    results: list[ReviewDetails]


class StatusCounts(TypedDict):
    """The number of reviews in each status."""

    New: int
    Approved: int
    Rejected: int


def review_row(review: Review, stores: Mapping[str, Store]) -> ReviewRow:
    """A review as a row of a list."""
    status = review.status
    return {
        "id": review.id,
        "entityId": review.entity.id,
        "entityName": review.entity_name,
        "entityType": review.entity.type,
        "reviewStatus": status.label,
        "reviewStatusId": int(status),
        "title": review.title,
        "review": review.text,
        "rating": rating_number(review.rating),
        "userName": review.user_name,
        "storeName": store_name(review.store_id, stores),
        "createdDate": timestamp(review.created),
    }


def review_details(review: Review, stores: Mapping[str, Store]) -> ReviewDetails:
    """A review with all its fields."""
    is_import = review.facts.source is Source.IMPORT
    return {
        **review_row(review, stores),
        **review_facts(review),
        "writtenDate": timestamp(review.created) if is_import and review.submitted else None,
        "pendingImages": sum(image.is_pending for image in review.images),
        "unseenImages": [image.id for image in review.images if image.is_unseen and not image.is_pending],
    }
