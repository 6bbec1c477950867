"""Pages of lists: `take` and `skip`, and how many rows there are over all pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from pydantic import AfterValidator, Field

DEFAULT_TAKE: Final = 20
MAX_TAKE: Final = 1_000
MAX_SKIP: Final = 2**31 - 1

Take = Annotated[
    Annotated[int, Field(ge=0, le=MAX_TAKE)] | None,
    AfterValidator(lambda take: DEFAULT_TAKE if take is None else take),
    Field(description="The size of the page; 0: only the count"),
]
Skip = Annotated[Annotated[int, Field(ge=0, le=MAX_SKIP)] | None, AfterValidator(lambda skip: skip or 0)]


async def total_count(found: int, skip: int, take: int, count: Callable[[], Awaitable[int]]) -> int:
    """The number of rows over all pages when this one holds `found`; counted only where that doesn't tell."""
    # A page that isn't full is the last one, unless it starts behind the end.
    return skip + found if found < take and (found or not skip) else await count()
