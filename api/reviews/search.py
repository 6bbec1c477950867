"""The review search request, and the query that it becomes."""

from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator

from api.web.cursors import cursor, position_in_order
from api.web.paging import (
    DEFAULT_TAKE,
    After,
    OptionalMoment,
    OptionalSince,
    Skip,
    Take,
    WithTotal,
    check_no_skip,
    the_one_given,
)
from api.web.problems import ProblemError, ProblemKind
from domain.entity_types import SAMPLE, EntityTypes
from domain.ratings import highest_to, lowest_from
from domain.reviews import ReviewStatus
from domain.sorting import UnknownSortError, parse_sort
from messaging.moderation import STATUS_SCHEMA, Status, read_status
from messaging.schemas import MAX_ITEMS, Id, Language, Message, OptionalId, Phrase
from storage.reviews.search import TYPES, ReviewPage, ReviewSearch, ReviewSortField, order


def _statuses(value: object, read_array: ValidatorFunctionWrapHandler) -> list[ReviewStatus] | None:
    if value is None or value == "":
        return None
    found: list[ReviewStatus] = read_array(value) if isinstance(value, list) else [read_status(value)]
    return found


_STATUS_ARRAY: Final = {"type": "array", "items": STATUS_SCHEMA, "maxItems": MAX_ITEMS}
Statuses = Annotated[
    Annotated[list[Status], Field(max_length=MAX_ITEMS)] | None,
    WrapValidator(_statuses),
    WithJsonSchema({"anyOf": [*STATUS_SCHEMA["anyOf"], _STATUS_ARRAY, {"type": "null"}]}),
]
RatingBound = Annotated[float, Field(allow_inf_nan=False)]


class ReviewSearchRequest(Message):
    """Criteria of a list of reviews. A field that is null, empty or missing doesn't restrict the list."""

    review_status: Annotated[
        Statuses, Field(description="A status by name, in any letter case, or number; or several")
    ] = None
    ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="Ids of reviews")] = None
    object_ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="The same as `ids`")] = None
    entity_type: Annotated[OptionalId, Field(description="Type of the objects")] = None
    entity_ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="Ids of objects")] = None
    store_id: Annotated[OptionalId, Field(description="Id of a store")] = None
    user_id: Annotated[OptionalId, Field(description="Id of an author")] = None
    search_phrase: Annotated[
        Phrase | None, Field(description="Substring of title, review, userName or entityName, in any letter case")
    ] = None
    keyword: Annotated[Phrase | None, Field(description="The same as `searchPhrase`")] = None
    start_date: Annotated[OptionalSince, Field(description="Created at this time or later")] = None
    end_date: Annotated[
        OptionalMoment, Field(description="Created at this time or earlier; a date alone is its start")
    ] = None
    start_rating: Annotated[RatingBound | None, Field(description="Rating of at least this")] = None
    end_rating: Annotated[RatingBound | None, Field(description="Rating of at most this")] = None
    reported: Annotated[bool | None, Field(description="true: only reviews with open reports; false: only others")] = (
        None
    )
    flagged: Annotated[
        bool | None,
        Field(
            description="true: only reviews held back or flagged by moderation rules or classifiers; false: only others"
        ),
    ] = None
    has_images: Annotated[
        bool | None, Field(description="true: only reviews with images that are ready; false: only others")
    ] = None
    unseen_images: Annotated[
        bool | None,
        Field(
            description="true: only reviews with images that are hidden until a moderator has seen them; false: only "
            "others"
        ),
    ] = None
    verified_purchase: Annotated[
        bool | None, Field(description="true: only verified purchases; false: only others")
    ] = None
    language: Annotated[Language, Field(description="BCP 47; `en` also finds `en-US`")] = None
    sort: Annotated[
        Phrase | None,
        Field(
            description="`field`, `field:asc` or `field:desc`, several joined with `;`; empty: newest first. "
            f"Fields: {', '.join(ReviewSortField)}; `storeName` sorts by the store's id"
        ),
    ] = None
    take: Take = DEFAULT_TAKE
    skip: Skip = 0
    after: After = None
    with_total: WithTotal = True

    def criteria(self, types: EntityTypes = SAMPLE) -> ReviewSearch:
        """The search to run; a type includes its known children. Raises ProblemError for an unknown sort, a cursor of
        another list, and fields that contradict each other."""
        try:
            sort = parse_sort(self.sort or "", ReviewSortField)
        except UnknownSortError as error:
            raise ProblemError(ProblemKind.UNKNOWN_SORT, str(error)) from None
        search = ReviewSearch(
            ids=the_one_given(("ids", self.ids), ("objectIds", self.object_ids)),
            statuses=self.review_status or None,
            entity_types=types.with_children(self.entity_type) if self.entity_type else None,
            entity_ids=self.entity_ids or None,
            store_id=self.store_id,
            user_id=self.user_id,
            phrase=the_one_given(("searchPhrase", self.search_phrase), ("keyword", self.keyword)),
            created_from=self.start_date,
            created_to=self.end_date,
            lowest_rating=None if self.start_rating is None else lowest_from(self.start_rating),
            highest_rating=None if self.end_rating is None else highest_to(self.end_rating),
            is_reported=self.reported,
            is_flagged=self.flagged,
            has_images=self.has_images,
            has_unseen_images=self.unseen_images,
            is_verified=self.verified_purchase,
            language=self.language,
            sort=sort,
            skip=self.skip,
            take=self.take,
        )
        if not self.after:
            return search
        check_no_skip(self.skip)
        return replace(search, after=position_in_order(self.after, self._list(search), order(search), TYPES))

    def next_page(self, search: ReviewSearch, page: ReviewPage) -> str | None:
        """The `after` of the next page; None after the last one."""
        return None if page.end is None else cursor(page.end, self._list(search))

    def _list(self, search: ReviewSearch) -> Any:
        """The description of the list that its cursors belong to."""
        others = {"sort", "take", "skip", "after", "with_total"}
        return [self.model_dump(mode="json", exclude=others, exclude_none=True), order(search)]


REVIEW_SEARCH: TypeAdapter[ReviewSearchRequest] = TypeAdapter(ReviewSearchRequest)
