"""The return search request, and what it asks the storage for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, TypeAdapter

from api.web.paging import DEFAULT_TAKE, Skip, Take, one_of
from api.web.problems import ProblemError, ProblemKind
from domain.sorting import Direction, UnknownSortError, parse_direction, parse_sort
from messaging.schemas import MAX_ITEMS, Id, Message, OptionalId, Phrase
from storage.returns import ReturnSearch, ReturnSortField


class ResponseGroup(StrEnum):
    """The parts of a return in a list."""

    DEFAULT = "Default"
    WITH_ORDERS = "WithOrders"
    NONE = "None"


_GROUPS: Final = {group.lower(): group for group in ResponseGroup}


def _group(value: object) -> object:
    return _GROUPS.get(value.strip().lower(), value) if isinstance(value, str) and value.strip() else value or None


class ReturnSearchRequest(Message):
    """Criteria of a list of returns. A field that is null, empty or missing doesn't restrict the list."""

    order_id: OptionalId = None
    object_ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="Ids of returns")] = None
    ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="The same as `objectIds`")] = None
    keyword: Annotated[Phrase | None, Field(description="Part of number or status, in any letter case")] = None
    sort: Annotated[
        Phrase | None,
        Field(
            description="`Ascending` or `Descending` by number; else `field`, `field:asc` or `field:desc`, several "
            f"joined with `;`; empty: `Ascending`. Fields: {', '.join(ReturnSortField)}"
        ),
    ] = None
    skip: Skip = 0
    take: Take = DEFAULT_TAKE
    response_group: Annotated[
        ResponseGroup | None, BeforeValidator(_group), Field(description="`None`: `order` is null; else with orders")
    ] = None

    @property
    def with_orders(self) -> bool:
        """True if the answer is to hold the orders."""
        return self.response_group is not ResponseGroup.NONE

    def criteria(self) -> ReturnSearch:
        """The search to run. Raises ProblemError for an unknown sort field."""
        return ReturnSearch(
            order_id=self.order_id,
            ids=one_of(("objectIds", self.object_ids), ("ids", self.ids)),
            keyword=self.keyword or None,
            sort=_sort(self.sort or ""),
            skip=self.skip,
            take=self.take,
        )


def _sort(expression: str) -> Sequence[tuple[ReturnSortField, Direction]]:
    # A direction alone: by number.
    if expression.strip().isalpha() and (direction := parse_direction(expression)):
        return [(ReturnSortField.NUMBER, direction)]
    try:
        return parse_sort(expression, ReturnSortField)
    except UnknownSortError as error:
        raise ProblemError(ProblemKind.UNKNOWN_SORT, f"{error} Or use Ascending or Descending.") from None


RETURN_SEARCH: TypeAdapter[ReturnSearchRequest] = TypeAdapter(ReturnSearchRequest)
