"""Fields of requests for lists: moments, `take` and `skip`; and the number of rows over all pages."""

import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.web.cursors import MAX_CURSOR_LENGTH
from api.web.problems import invalid_at
from domain.timestamps import first_millisecond, moment_in
from messaging.schemas import EMPTY_IS_MISSING, MOMENT_MESSAGE

T = TypeVar("T")

DEFAULT_TAKE: Final = 20
MAX_TAKE: Final = 1_000
MAX_SKIP: Final = 2**31 - 1

_LOST_PLUS: Final = re.compile(r":[0-9.]+ [0-9]{2}:?[0-9]{2}$")
"""Matches a time with an offset whose plus sign was not encoded."""


def moment(value: object) -> datetime:
    """A moment in ISO 8601. Raises PydanticCustomError."""
    try:
        if not isinstance(value, str):
            raise TypeError
        return moment_in(value)
    except (TypeError, ValueError, OverflowError):
        is_cut = isinstance(value, str) and _LOST_PLUS.search(value)
        hint = ". In a query, + is a space: write %2B" if is_cut else ""
        raise PydanticCustomError("date_time", f"{MOMENT_MESSAGE}{hint}") from None


Moment = Annotated[datetime, PlainValidator(moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Since = Annotated[Moment, AfterValidator(first_millisecond)]
"""The earliest moment to look for, rounded up to the milliseconds that are stored."""
OptionalMoment = Annotated[Moment | None, EMPTY_IS_MISSING]
OptionalSince = Annotated[Since | None, EMPTY_IS_MISSING]


def _null_as(missing: int, *, most: int) -> BeforeValidator:
    """A validator that reads null as `missing`."""
    number = Annotated[int, Field(ge=0, le=most)]
    return BeforeValidator(lambda value: missing if value is None else value, json_schema_input_type=number | None)


Take = Annotated[
    int,
    Field(ge=0, le=MAX_TAKE),
    _null_as(DEFAULT_TAKE, most=MAX_TAKE),
    Field(description="Maximum number of results; 0: only the count"),
]
Skip = Annotated[
    int,
    Field(ge=0, le=MAX_SKIP),
    _null_as(0, most=MAX_SKIP),
    Field(description="Number of results to skip"),
]
After = Annotated[
    Annotated[str, Field(max_length=MAX_CURSOR_LENGTH)] | None,
    Field(description="The `next` of the previous page, instead of `skip`: equally fast at any depth"),
]
WithTotal = Annotated[bool, Field(description="false: omit `totalCount`, which makes the request faster")]


def check_no_skip(skip: int) -> None:
    """Raise ProblemError for a page that begins after a cursor, and skips rows as well."""
    if skip:
        raise invalid_at("/skip", "contradicts", "Omit it: with `after` the page begins where the previous one ended")


def the_one_given(field: tuple[str, T | None], other: tuple[str, T | None]) -> T | None:
    """The value of two synonymous fields of a request, or of a field and a parameter of the same name; None if both are
    empty. Raises ProblemError if they differ."""
    if field[1] and other[1] and field[1] != other[1]:
        what = "The body has this" if field[0] == other[0] else f"This is another name of `{field[0]}`,"
        raise invalid_at(f"/{other[0]}", "contradicts", f"{what} with a different value: send only one of them")
    return field[1] or other[1] or None


async def total_count(
    found: int | None, skip: int, take: int, count: Callable[[], Awaitable[int]], *, after: object = None
) -> int:
    """The number of rows over all pages, if this one has `found` (None: not known yet), and begins `after` a cursor or
    at `skip`; counted only if it can't be derived."""
    # A page that isn't full is the last one, unless it starts beyond the end.
    if found is not None and after is None and found < take and (found or not skip):
        return skip + found
    return await count()
