"""Numbers of things in English sentences."""

import pytest

from domain.quantities import listed, quantity


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0 reviews"), (1, "1 review"), (2, "2 reviews"), (11, "11 reviews"), (1_234_567, "1,234,567 reviews")],
)
def test_noun_agrees_with_number(number: int, expected: str) -> None:
    assert quantity(number, "review") == expected


def test_irregular_plural_is_given() -> None:
    assert (quantity(1, "entry", "entries"), quantity(3, "entry", "entries")) == ("1 entry", "3 entries")


@pytest.mark.parametrize(
    ("names", "expected"),
    [("", ""), ("a", "a"), ("abc", "a, b, c"), ("abcd", "a, b, c and 1 more"), ("abcdef", "a, b, c and 3 more")],
)
def test_long_lists_of_names_end_with_the_number_of_the_others(names: str, expected: str) -> None:
    assert listed(names, 3) == expected
