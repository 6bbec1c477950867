"""The search for reviews, and its filter and sort in MongoDB."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from domain.letter_case import pattern_in_any_case
from domain.ratings import Hundredths
from domain.reviews import Review, ReviewStatus
from domain.sorting import Direction
from storage.database import Document
from storage.keyset import SortValue, after_row, order_by
from storage.queries import in_range, one_of
from storage.reviews.unseen import IN_INDEX, UNSEEN

# The lower bound of a range rather than `$type`: its index bounds are exact, so that a count never reads documents.
SINCE_EVER: Final = datetime(1, 1, 1, tzinfo=UTC)
"""A moment before every review."""


class ReviewSortField(StrEnum):
    """A sort field of a list of reviews."""

    CREATED_DATE = "createdDate"
    MODIFIED_DATE = "modifiedDate"
    RATING = "rating"
    TITLE = "title"
    USER_NAME = "userName"
    ENTITY_NAME = "entityName"
    ENTITY_ID = "entityId"
    ENTITY_TYPE = "entityType"
    REVIEW_STATUS = "reviewStatus"
    STORE_ID = "storeId"
    STORE_NAME = "storeName"
    HELPFUL = "helpful"
    REPORTS = "reports"
    ID = "id"


_STORED_FIELD: Final = {
    ReviewSortField.RATING: "ratingHundredths",
    ReviewSortField.REVIEW_STATUS: "status",
    # Names of stores are stored with the stores, which are few: reviews of a store stand together either way.
    ReviewSortField.STORE_NAME: "storeId",
    ReviewSortField.ID: "_id",
}
TYPES: Final[Mapping[str, type]] = {
    "createdDate": datetime,
    "modifiedDate": datetime,
    "ratingHundredths": int,
    "status": int,
    "helpful": int,
    "reports": int,
}
"""The types of sort fields that aren't texts."""


@dataclass(frozen=True, slots=True)
class ReviewSearch:
    """Search criteria: a review must meet all that are set, and bounds are inclusive."""

    ids: Collection[str] | None = None
    statuses: Collection[ReviewStatus] | None = None
    entity_types: Collection[str | None] | None = None
    entity_ids: Collection[str] | None = None
    store_id: str | None = None
    user_id: str | None = None
    phrase: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    lowest_rating: Hundredths | None = None
    highest_rating: Hundredths | None = None
    is_verified: bool | None = None
    language: str | None = None
    sort: Sequence[tuple[ReviewSortField, Direction]] = field(default=())
    skip: int = 0
    take: int = 20
    after: Sequence[SortValue] | None = None
    """A position in the sort; the page begins after it."""
    stores: Collection[str] | None = None
    """Limits the search to what belongs to one of them; reviews without a store are left out."""
    is_reported: bool | None = None
    """With open reports, or without."""
    is_flagged: bool | None = None
    """With flags of moderation rules or classifiers, or without."""
    has_images: bool | None = None
    """With images that are ready, or without."""
    shows_images: bool | None = None
    """With images that everybody sees once the review is approved, or without."""
    has_unseen_images: bool | None = None
    """With images that are ready, and hidden until a moderator has seen them, or without."""


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """One page of a list."""

    reviews: Sequence[Review]
    long_texts: Mapping[str, int]
    """The length in bytes of each long text by the id of its review, whose own text is empty here."""
    end: Sequence[SortValue] | None = None
    """The position of the last review, if more follow."""


_THERE: Final[Document] = {"$elemMatch": {"pending": {"$ne": True}}}
"""The condition on a review's images that one is ready: an image may come after its review, or never."""

_SHOWN: Final[Document] = {"$elemMatch": {"hidden": {"$ne": True}, "pending": {"$ne": True}}}
"""The condition on a review's images that everybody sees one, once the review is approved."""


def criteria(search: ReviewSearch) -> Document:
    """The MongoDB filter for a search. It matches reviews alone, not the placeholders of deleted and refused ones."""
    created = in_range(search.created_from or SINCE_EVER, search.created_to)
    conditions: Document = {"createdDate": created, **_about(search)}
    every = [*conditions.pop("$and", ()), *_about_images(search)]
    if search.ids is not None:
        conditions["_id"] = one_of(list(search.ids))
    if search.statuses is not None:
        conditions["status"] = one_of([int(status) for status in search.statuses])
    if search.user_id is not None:
        conditions["userId"] = search.user_id
    if search.is_reported is not None:
        conditions["reports"] = {"$gt": 0} if search.is_reported else None
    if search.is_flagged is not None:
        conditions["flags.0"] = {"$exists": search.is_flagged}
    if rating := in_range(search.lowest_rating, search.highest_rating):
        conditions["ratingHundredths"] = rating
    if search.is_verified is not None:
        conditions["verifiedPurchase"] = True if search.is_verified else {"$ne": True}
    if search.language is not None:
        # Language tags are stored in their usual letter case; a search for en finds en-US.
        conditions["language"] = {"$regex": f"^{re.escape(search.language)}(-|$)"}
    if search.phrase:
        pattern = {"$regex": pattern_in_any_case(search.phrase), "$options": "i"}
        conditions["$or"] = [{name: pattern} for name in ("title", "review", "userName", "entityName")]
    if search.after is not None:
        every += after_row(order(search), search.after)
    return {**conditions, "$and": every} if every else conditions


def tallied(search: ReviewSearch) -> Document | None:
    """The MongoDB filter for the tallies that count these reviews; None if none do: they count approved reviews, by
    object and store."""
    if search.statuses is None or set(search.statuses) != {ReviewStatus.APPROVED}:
        return None
    by_object_and_store = ReviewSearch(
        statuses=search.statuses,
        entity_types=search.entity_types,
        entity_ids=search.entity_ids,
        store_id=search.store_id,
        stores=search.stores,
        sort=search.sort,
        skip=search.skip,
        take=search.take,
        after=search.after,
    )
    return _about(search) if search == by_object_and_store else None


def are_tallied(search: ReviewSearch) -> bool:
    """True if tallies count exactly these reviews."""
    return tallied(search) is not None


def order(search: ReviewSearch) -> list[tuple[str, int]]:
    """The MongoDB sort for a search: newest first by default; ties are broken by id."""
    keys = search.sort or [(ReviewSortField.CREATED_DATE, Direction.DESC)]
    return order_by((_STORED_FIELD.get(key, key.value), direction) for key, direction in keys)


def sorts_everything(search: ReviewSearch) -> bool:
    """True if MongoDB has to scan nearly all reviews and sort the result: no index narrows them or has the order."""
    narrowing = (search.ids, search.entity_types, search.entity_ids, search.store_id, search.user_id, search.stores)
    if any(each is not None for each in (*narrowing, search.created_from, search.created_to)):
        return False
    if search.is_reported or search.has_unseen_images:
        return False
    if search.statuses is not None and ReviewStatus.APPROVED not in search.statuses:
        return False
    return bool(search.sort) and search.sort[0][0] not in (ReviewSortField.CREATED_DATE, ReviewSortField.ID)


def _about_images(search: ReviewSearch) -> Iterator[Document]:
    """The conditions on the images of a review."""
    wanted = ((_THERE, search.has_images), (_SHOWN, search.shows_images), (UNSEEN, search.has_unseen_images))
    for images, is_wanted in wanted:
        if is_wanted is not None:
            yield {"images": images if is_wanted else {"$not": images}}
    if search.has_unseen_images:
        yield IN_INDEX


def _about(search: ReviewSearch) -> Document:
    """The conditions on objects and stores, the same for reviews and tallies."""
    conditions: Document = {}
    for name, values in (("entityType", search.entity_types), ("entityId", search.entity_ids)):
        if values is not None:
            conditions[name] = one_of(list(values))
    if search.store_id is not None:
        conditions["storeId"] = search.store_id
    if search.stores is not None:
        conditions["$and"] = [{"storeId": {"$in": list(search.stores)}}]
    return conditions
