from enum import StrEnum

import pytest

from domain.sorting import Direction, UnknownSortError, parse_sort


class Field(StrEnum):
    CREATED = "createdDate"
    RATING = "rating"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", []),
        ("rating", [(Field.RATING, Direction.ASC)]),
        ("createdDate:desc", [(Field.CREATED, Direction.DESC)]),
        (" CreatedDate:DESC ; rating:asc;", [(Field.CREATED, Direction.DESC), (Field.RATING, Direction.ASC)]),
        ("rating:desc;rating:asc", [(Field.RATING, Direction.DESC)]),
    ],
)
def test_expressions(expression: str, expected: list[tuple[Field, Direction]]) -> None:
    assert parse_sort(expression, Field) == expected


@pytest.mark.parametrize("expression", ["price", "rating:up", "rating:asc:x", "$where", ":desc"])
def test_unknown_ones_are_named(expression: str) -> None:
    with pytest.raises(UnknownSortError):
        parse_sort(expression, Field)
