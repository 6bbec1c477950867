"""The search for returns, and its filter and sort in MongoDB."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from domain.letter_case import pattern_in_any_case
from domain.sorting import Direction
from storage.database import Document
from storage.keyset import SortValue, after_row, order_by
from storage.queries import in_range, one_of

_IS_NUMBERED: Final[Document] = {"number": {"$gte": ""}}
"""The filter that leaves out placeholders of refused and deleted returns. Its index bounds are exact, unlike those of
`$type`."""


class ReturnSortField(StrEnum):
    """A sort field of a list of returns."""

    NUMBER = "number"
    STATUS = "status"
    CREATED_DATE = "createdDate"
    MODIFIED_DATE = "modifiedDate"
    CREATED_BY = "createdBy"
    MODIFIED_BY = "modifiedBy"
    ORDER_ID = "orderId"


TYPES: Final[Mapping[str, type]] = {"createdDate": datetime, "modifiedDate": datetime}
"""The types of sort fields that aren't texts."""


@dataclass(frozen=True, slots=True)
class ReturnSearch:
    """Search criteria: a return must meet all that are set, and bounds are inclusive."""

    order_id: str | None = None
    ids: Collection[str] | None = None
    keyword: str | None = None
    """A part of a number or a status, in any letter case; a whole number is looked up by an index."""
    sort: Sequence[tuple[ReturnSortField, Direction]] = ()
    """By number, ascending, if empty."""
    skip: int = 0
    take: int = 20
    stores: Collection[str] | None = None
    """Limits the search to what belongs to one of them."""
    statuses: Collection[str] | None = None
    order_ids: Collection[str] | None = None
    store_id: str | None = None
    numbers: Sequence[str] | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    after: Sequence[SortValue] | None = None
    """A position in the sort; the page begins after it."""


@dataclass(frozen=True, slots=True)
class FoundReturn:
    """A return on a page: its ids, and its stored size in bytes."""

    id: str
    order_id: str
    size: int


@dataclass(frozen=True, slots=True)
class ReturnPage:
    """One page of a list, without the returns themselves."""

    found: Sequence[FoundReturn]
    end: Sequence[SortValue] | None
    """The position of the last return in the sort, if more follow."""


def criteria(search: ReturnSearch) -> Document:
    """The MongoDB filter for a search."""
    # Only returns have a status: with one, a count reads an index alone.
    conditions: Document = {} if search.statuses is not None else dict(_IS_NUMBERED)
    every: list[Document] = []
    if search.order_id is not None:
        every.append({"orderId": search.order_id})
    if search.order_ids is not None:
        every.append({"orderId": one_of(search.order_ids)})
    if search.numbers is not None:
        conditions["number"] = one_of(search.numbers)
    if search.ids is not None:
        conditions["_id"] = {"$in": list(search.ids)}
    if search.store_id is not None:
        every.append({"storeId": search.store_id})
    if search.stores is not None:
        every.append({"storeId": one_of(search.stores)})
    if search.statuses is not None:
        conditions["status"] = one_of(search.statuses)
    if created := in_range(search.created_from, search.created_to):
        conditions["createdDate"] = created
    if search.keyword:
        conditions |= with_keyword(search.keyword)
    if search.after is not None:
        every += after_row(order(search), search.after)
    return {**conditions, "$and": every} if every else conditions


def with_keyword(keyword: str) -> Document:
    """The filter for a part of a number or a status. MongoDB reads every return that meets the other criteria."""
    pattern = {"$regex": pattern_in_any_case(keyword), "$options": "i"}
    return {"$or": [{"number": pattern}, {"status": pattern}]}


def order(search: ReturnSearch) -> list[tuple[str, int]]:
    """The MongoDB sort for a search: by number by default; ties are broken by id."""
    return order_by(search.sort or [(ReturnSortField.NUMBER, Direction.ASC)])
