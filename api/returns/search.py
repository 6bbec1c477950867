"""The return search request, and the query that it becomes."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, TypeAdapter

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
from domain.returns_statuses import DEFAULT_STATUSES, status_named
from domain.sorting import Direction, UnknownSortError, parse_direction, parse_sort
from messaging.schemas import MAX_ITEMS, Id, Message, OptionalId, Phrase, ReturnStatusName
from storage.returns.search import TYPES, ReturnPage, ReturnSearch, ReturnSortField, order


class ResponseGroup(StrEnum):
    """The parts of a return in a list."""

    DEFAULT = "Default"
    WITH_ORDERS = "WithOrders"
    NONE = "None"


CUSTOMER_ORDERS: Final = 1_000
"""Maximum number of orders of a customer, the newest, whose returns are searched."""

_GROUPS: Final = {group.lower(): group for group in ResponseGroup}


def _group(value: object) -> object:
    if not isinstance(value, str):
        return value
    return _GROUPS.get(value.strip().lower(), value) if value.strip() else None


def _as_list(value: object) -> object:
    return ([value] if value else None) if isinstance(value, str) else value


Statuses = Annotated[
    Annotated[list[ReturnStatusName], Field(max_length=MAX_ITEMS)] | None,
    BeforeValidator(_as_list, json_schema_input_type=ReturnStatusName | list[ReturnStatusName] | None),
]


class ReturnSearchRequest(Message):
    """Criteria of a list of returns. A field that is null, empty or missing doesn't restrict the list."""

    order_id: Annotated[OptionalId, Field(description="Id of an order")] = None
    status: Annotated[Statuses, Field(description="One status or several, in any letter case")] = None
    customer_id: Annotated[
        OptionalId, Field(description=f"Returns of the {CUSTOMER_ORDERS} newest orders of this customer")
    ] = None
    store_id: Annotated[OptionalId, Field(description="Id of a store")] = None
    start_date: Annotated[OptionalSince, Field(description="Created at this time or later")] = None
    end_date: Annotated[
        OptionalMoment, Field(description="Created at this time or earlier; a date alone is its start")
    ] = None
    object_ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="Ids of returns")] = None
    ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="The same as `objectIds`")] = None
    keyword: Annotated[
        Phrase | None, Field(description="Substring of number or status, in any letter case; a whole number is fast")
    ] = None
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
        ResponseGroup | None,
        BeforeValidator(_group),
        Field(description="`None`: `order` is null; otherwise the order is included"),
    ] = None

    after: After = None
    with_total: WithTotal = True

    @property
    def with_orders(self) -> bool:
        """True if the answer includes the orders."""
        return self.response_group is not ResponseGroup.NONE

    def criteria(
        self, statuses: Sequence[str] = DEFAULT_STATUSES, order_ids: Sequence[str] | None = None
    ) -> ReturnSearch:
        """The search to run, with the statuses of the settings and the orders of the customer. Raises ProblemError for
        an unknown sort field, a cursor of another list, and fields that contradict each other."""
        search = ReturnSearch(
            order_id=self.order_id,
            ids=the_one_given(("objectIds", self.object_ids), ("ids", self.ids)),
            keyword=self.keyword or None,
            sort=_sort(self.sort or ""),
            skip=self.skip,
            take=self.take,
            statuses=[status_named(each, statuses) or each for each in self.status] if self.status else None,
            order_ids=order_ids,
            store_id=self.store_id,
            created_from=self.start_date,
            created_to=self.end_date,
        )
        if not self.after:
            return search
        check_no_skip(self.skip)
        return replace(search, after=position_in_order(self.after, self._list(search), order(search), TYPES))

    def next_page(self, search: ReturnSearch, page: ReturnPage) -> str | None:
        """The `after` of the next page; None after the last one."""
        return None if page.end is None else cursor(page.end, self._list(search))

    def _list(self, search: ReturnSearch) -> Any:
        """The description of the list that its cursors belong to."""
        others = {"sort", "take", "skip", "after", "with_total", "response_group"}
        return [self.model_dump(mode="json", exclude=others, exclude_none=True), order(search)]


def _sort(expression: str) -> Sequence[tuple[ReturnSortField, Direction]]:
    # A direction alone sorts by number.
    if expression.strip().isalpha() and (direction := parse_direction(expression)):
        return [(ReturnSortField.NUMBER, direction)]
    try:
        return parse_sort(expression, ReturnSortField)
    except UnknownSortError as error:
        raise ProblemError(ProblemKind.UNKNOWN_SORT, f"{error} Or use Ascending or Descending.") from None


RETURN_SEARCH: TypeAdapter[ReturnSearchRequest] = TypeAdapter(ReturnSearchRequest)
