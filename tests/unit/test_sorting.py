from enum import StrEnum

import pytest

from domain.sorting import Direction, UnknownSortError, parse_direction, parse_sort


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
        ("rating-descending;createdDate: Ascending", [(Field.RATING, Direction.DESC), (Field.CREATED, Direction.ASC)]),
        ("rating:descend;createddate-", [(Field.RATING, Direction.DESC), (Field.CREATED, Direction.ASC)]),
    ],
)
def test_sort_expressions(expression: str, expected: list[tuple[Field, Direction]]) -> None:
    assert parse_sort(expression, Field) == expected


@pytest.mark.parametrize(
    "expression", ["price", "rating:up", "rating:asc:x", "$where", ":desc", "-rating", "rating desc", "rating-xdesc"]
)
def test_unknown_fields_and_directions_are_refused(expression: str) -> None:
    with pytest.raises(UnknownSortError):
        parse_sort(expression, Field)


@pytest.mark.parametrize(
    ("word", "direction"),
    [("Ascending", Direction.ASC), (" desc ", Direction.DESC), ("", None), ("as", None), ("xdesc", None)],
)
def test_words_for_directions(word: str, direction: Direction | None) -> None:
    assert parse_direction(word) is direction


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("price", "Unknown sort field 'price'. Fields: createdDate, rating."),
        ("rating;Price :asc", "Unknown sort field 'Price'. Fields: createdDate, rating."),
        (":asc", "Unknown sort field ''. Fields: createdDate, rating."),
        ("rating:up", "Unknown sort direction in 'rating:up'. Use `field:asc` or `field:desc`."),
        ("x" * 65, f"Unknown sort field '{'x' * 64}'. Fields: createdDate, rating."),
        ("rating:" + "y" * 65, f"Unknown sort direction in 'rating:{'y' * 57}'. Use `field:asc` or `field:desc`."),
    ],
)
def test_error_names_the_known_fields_and_directions(expression: str, message: str) -> None:
    with pytest.raises(UnknownSortError) as refused:
        parse_sort(expression, Field)
    assert str(refused.value) == message
