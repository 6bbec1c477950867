"""The return search request, and what it asks the storage for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field, TypeAdapter

from api.web.paging import DEFAULT_TAKE, Skip, Take
from api.web.problems import ProblemError, ProblemKind
from domain.sorting import Direction, UnknownSortError, parse_sort
from messaging.schemas import MAX_ITEMS, Id, Message, OptionalId, Phrase
from storage.returns import ReturnSearch, ReturnSortField

_WORDS: Final = {"ascending": Direction.ASC, "descending": Direction.DESC}
"""Sorts that are a word alone: by number."""


class ReturnSearchRequest(Message):
    """Criteria of a list of returns. A field that is null, empty or missing doesn't restrict the list."""

    order_id: OptionalId = None
    object_ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="Ids of returns")] = None
    keyword: Annotated[Phrase | None, Field(description="Part of number or status, in any letter case")] = None
    sort: Annotated[
        Phrase | None,
        Field(
            description="`Ascending` or `Descending` by number; else `field`, `field:asc` or `field:desc`, several "
            "joined with `;`; empty: `Ascending`"
        ),
    ] = None
    skip: Skip = 0
    take: Take = DEFAULT_TAKE

    def criteria(self) -> ReturnSearch:
        """The search to run. Raises ProblemError for an unknown sort field."""
        return ReturnSearch(
            order_id=self.order_id,
            ids=self.object_ids or None,
            keyword=self.keyword or None,
            sort=_sort(self.sort or ""),
            skip=self.skip,
            take=self.take,
        )


def _sort(expression: str) -> Sequence[tuple[ReturnSortField, Direction]]:
    if direction := _WORDS.get(expression.strip().lower()):
        return [(ReturnSortField.NUMBER, direction)]
    try:
        return parse_sort(expression, ReturnSortField)
    except UnknownSortError as error:
        raise ProblemError(ProblemKind.UNKNOWN_SORT, f"{error} Or use Ascending or Descending.") from None


RETURN_SEARCH: TypeAdapter[ReturnSearchRequest] = TypeAdapter(ReturnSearchRequest)
