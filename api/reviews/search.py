"""The review search request, and what it asks the storage for."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic_core import PydanticCustomError

from api.web.paging import DEFAULT_TAKE, Moment, Skip, Take
from api.web.problems import ProblemError, ProblemKind
from domain.entity_types import SAMPLE, EntityTypes
from domain.ratings import highest_to, lowest_from
from domain.reviews import ReviewStatus
from domain.sorting import UnknownSortError, parse_sort
from messaging.schemas import MAX_ITEMS, Id, Message, OptionalId, Phrase
from storage.reviews_search import ReviewSearch, ReviewSortField

_STATUS_NAMES: Final = [status.label for status in ReviewStatus]
_STATUS_OF_NAME: Final = {status.label.lower(): status for status in ReviewStatus}
_STATUS_SCHEMA: Final[dict[str, Any]] = {"type": "string", "enum": _STATUS_NAMES}


def _status(value: object, _: ValidatorFunctionWrapHandler) -> ReviewStatus:
    status = _STATUS_OF_NAME.get(value.lower()) if isinstance(value, str) else None
    if status is None:
        raise PydanticCustomError("unknown_status", "Must be one of {names}", {"names": ", ".join(_STATUS_NAMES)})
    return status


def _statuses(value: object, read_array: ValidatorFunctionWrapHandler) -> list[ReviewStatus] | None:
    if value is None or value == "":
        return None
    found: list[ReviewStatus] = [_status(value, read_array)] if isinstance(value, str) else read_array(value)
    return found


Statuses = Annotated[
    list[Annotated[ReviewStatus, WrapValidator(_status)]] | None,
    WrapValidator(_statuses),
    WithJsonSchema({"anyOf": [_STATUS_SCHEMA, {"type": "array", "items": _STATUS_SCHEMA}, {"type": "null"}]}),
]
RatingBound = Annotated[float, Field(allow_inf_nan=False)]


class ReviewSearchRequest(Message):
    """Criteria of a list of reviews. A field that is null, empty or missing doesn't restrict the list."""

    review_status: Annotated[Statuses, Field(description="A name, or several; any letter case")] = None
    entity_type: OptionalId = None
    entity_ids: Annotated[list[Id], Field(max_length=MAX_ITEMS)] | None = None
    store_id: OptionalId = None
    user_id: OptionalId = None
    search_phrase: Annotated[
        Phrase | None, Field(description="Part of title, review, userName or entityName, in any letter case")
    ] = None
    start_date: Annotated[Moment | None, Field(description="Created then or later")] = None
    end_date: Annotated[Moment | None, Field(description="Created then or earlier")] = None
    start_rating: RatingBound | None = None
    end_rating: RatingBound | None = None
    sort: Annotated[
        Phrase | None,
        Field(description="`field`, `field:asc` or `field:desc`, several joined with `;`; empty: newest first"),
    ] = None
    take: Take = DEFAULT_TAKE
    skip: Skip = 0

    def criteria(self, types: EntityTypes = SAMPLE) -> ReviewSearch:
        """The search to run; a type includes its known children. Raises ProblemError for an unknown sort."""
        try:
            sort = parse_sort(self.sort or "", ReviewSortField)
        except UnknownSortError as error:
            raise ProblemError(ProblemKind.UNKNOWN_SORT, str(error)) from None
        return ReviewSearch(
            statuses=self.review_status or None,
            entity_types=types.with_children(self.entity_type) if self.entity_type else None,
            entity_ids=self.entity_ids or None,
            store_id=self.store_id,
            user_id=self.user_id,
            phrase=self.search_phrase or None,
            created_from=self.start_date,
            created_to=self.end_date,
            lowest_rating=None if self.start_rating is None else lowest_from(self.start_rating),
            highest_rating=None if self.end_rating is None else highest_to(self.end_rating),
            sort=sort,
            skip=self.skip,
            take=self.take,
        )


REVIEW_SEARCH: TypeAdapter[ReviewSearchRequest] = TypeAdapter(ReviewSearchRequest)
