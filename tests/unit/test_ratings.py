from datetime import UTC, datetime
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.ratings import (
    STARS,
    RatingMethod,
    RatingTally,
    Z,
    _wilson_value,
    highest_to,
    highest_with,
    histogram_by_stars,
    hundredths,
    ids_by_type,
    lowest_from,
    lowest_with,
    next_revision,
    rating_number,
    rating_value,
    stars,
    wilson_lower_bound,
)
from tests.support.ratings import average, histogram, wilson

UNKNOWN = RatingTally(3, 1_200, None)
AT = datetime(2026, 3, 14, 9, 26, 53, 589_999, UTC)

ratings = st.integers(min_value=100, max_value=500)


@given(st.lists(ratings), st.lists(ratings))
def test_tally_of_a_union_is_the_sum_of_tallies(a: list[int], b: list[int]) -> None:
    assert RatingTally.of(a + b) == RatingTally.of(a) + RatingTally.of(b)


@given(st.lists(ratings), st.lists(ratings))
def test_adding_and_removing_ratings_changes_nothing(a: list[int], b: list[int]) -> None:
    assert RatingTally.of(a) + RatingTally.of(b) - RatingTally.of(b) == RatingTally.of(a)


@pytest.mark.parametrize(
    ("rating", "number"),
    [(100, 1), (149, 1), (150, 2), (249, 2), (250, 3), (349, 3), (350, 4), (449, 4), (450, 5), (500, 5)],
)
def test_stars_are_rounded_half_up(rating: int, number: int) -> None:
    assert (stars(rating), type(stars(rating))) == (number, int)
    assert lowest_with(number) <= rating <= highest_with(number)


def test_bounds_of_each_number_of_stars() -> None:
    bounds = [(lowest_with(number), highest_with(number)) for number in STARS]
    assert repr(bounds) == "[(50, 149), (150, 249), (250, 349), (350, 449), (450, 500)]"


@given(st.lists(ratings))
def test_histogram_counts_ratings_by_stars(a: list[int]) -> None:
    tally = RatingTally.of(a)
    assert histogram_by_stars(tally) == histogram(rating_number(rating) for rating in a)
    assert sum(tally.histogram or ()) == tally.count


def test_tallies_with_other_stars_differ() -> None:
    # The number and the sum are equal, but the difference between the tallies is not empty.
    assert RatingTally.of([300, 500]) - RatingTally.of([400, 400]) != RatingTally()


def test_unknown_histogram_stays_unknown_until_no_review_is_left() -> None:
    one, rest = RatingTally.of([400]), RatingTally.of([500, 300])
    assert UNKNOWN.after(one) == RatingTally(4, 1_600, None)
    assert UNKNOWN.after(-one) == RatingTally(2, 800, None)
    assert UNKNOWN.after(-one).after(-rest) == RatingTally()
    assert UNKNOWN.after(-one).after(-rest).after(one) == one
    assert (-UNKNOWN).histogram is None
    assert (one + UNKNOWN).histogram is None
    assert histogram_by_stars(UNKNOWN) is None


def test_remaining_sum_is_kept_without_reviews() -> None:
    assert UNKNOWN.after(-RatingTally(3, 1_100)) == RatingTally(0, 100)


def test_histogram_of_wrong_length_is_an_error() -> None:
    short = RatingTally(1, 100, (1,))
    with pytest.raises(ValueError, match="argument"):
        histogram_by_stars(short)
    with pytest.raises(ValueError, match="argument"):
        short + RatingTally()


def test_stored_histogram_with_a_wrong_total_is_unknown() -> None:
    one = RatingTally.of([400])
    assert RatingTally.stored(1, 400, [0, 0, 0, 1, 0]) == one
    assert RatingTally.stored(2, 800, [0, 0, 0, 1, 0]) == RatingTally(2, 800, None)
    assert RatingTally.stored(1, 400, None) == RatingTally(1, 400, None)
    assert RatingTally.stored(0, 0, [0] * 5) == RatingTally()
    assert RatingTally.stored(0, 0, None).histogram is None


@given(st.lists(ratings), st.lists(ratings))
def test_known_tally_changes_by_the_difference(a: list[int], b: list[int]) -> None:
    assert RatingTally.of(a).after(RatingTally.of(b)) == RatingTally.of(a + b)
    assert RatingTally.of(a + b).after(-RatingTally.of(b)) == RatingTally.of(a)


@given(st.lists(ratings, min_size=1))
def test_average_lies_between_the_extremes(a: list[int]) -> None:
    assert round(min(a) / 100, 2) <= rating_value(RatingTally.of(a), RatingMethod.AVERAGE) <= round(max(a) / 100, 2)


@given(st.lists(ratings, min_size=1))
def test_wilson_is_more_careful_than_the_average(a: list[int]) -> None:
    tally = RatingTally.of(a)
    assert 0 <= rating_value(tally, RatingMethod.WILSON) <= rating_value(tally, RatingMethod.AVERAGE)


@pytest.mark.parametrize("total", [1_300, 1_000_000, -500])
def test_impossible_sum_has_a_lower_bound(total: int) -> None:
    share = Decimal(total) / 1_000
    with localcontext() as context:
        context.prec = 60
        middle = (share + Z * Z / 4) / (1 + Z * Z / 2)
    assert wilson_lower_bound(RatingTally(2, total)) == pytest.approx(max(Decimal(0), middle), abs=Decimal("1e-30"))


def test_lower_bound_has_forty_digits() -> None:
    assert len(wilson_lower_bound(RatingTally.of([300, 400])).as_tuple().digits) == 40


@given(st.lists(ratings, min_size=1), st.integers(min_value=2, max_value=50))
def test_wilson_grows_with_evidence(a: list[int], times: int) -> None:
    once, often = RatingTally.of(a), RatingTally.of(a * times)
    assert rating_value(once, RatingMethod.WILSON) <= rating_value(often, RatingMethod.WILSON)


@pytest.mark.parametrize(
    ("hundredths", "average", "wilson"),
    [
        ([300, 400], 3.5, 1.09),
        ([100, 100, 500], 2.33, 0.69),
        ([500], 5.0, 1.35),
        ([100] * 3, 1.0, 0.16),
        ([500] * 100, 5.0, 4.87),
        # Halves: 33/8 is 4.125, 21/8 is 2.625, and 201/200 is 1.005 with the nearest float below it.
        ([400] * 7 + [500], 4.13, 2.67),
        ([200] * 3 + [300] * 5, 2.63, 1.34),
        ([100, 101], 1.01, 0.12),
    ],
)
def test_known_values(hundredths: list[int], average: float, wilson: float) -> None:
    tally = RatingTally.of(hundredths)
    assert rating_value(tally, RatingMethod.AVERAGE) == average
    assert rating_value(tally, RatingMethod.WILSON) == wilson
    assert float(5 * wilson_lower_bound(tally)) == pytest.approx(wilson, abs=0.005)


@given(st.lists(ratings, min_size=1))
def test_values_match_decimals_rounded_half_up(a: list[int]) -> None:
    numbers = [rating_number(rating) for rating in a]
    assert rating_value(RatingTally.of(a), RatingMethod.AVERAGE) == average(numbers)
    assert rating_value(RatingTally.of(a), RatingMethod.WILSON) == wilson(numbers)


@given(st.integers(100, 499), st.integers(1, 10**6))
def test_half_a_hundredth_is_rounded_up(lower: int, half: int) -> None:
    tally = RatingTally(2 * half, (2 * lower + 1) * half)
    assert rating_value(tally, RatingMethod.AVERAGE) == (lower + 1) / 100
    assert rating_value(tally - RatingTally(0, 1), RatingMethod.AVERAGE) == lower / 100


def test_lower_bound_of_half_a_hundredth_is_rounded_up() -> None:
    # (p - x)² = z² · x · (1 - x) / n holds exactly for x = 0.625, which is 3.125 of 5.
    assert rating_value(RatingTally(61_440, 19_298_691), RatingMethod.WILSON) == 3.13
    assert _wilson_value.__wrapped__(61_440, 19_298_691) == 3.13, "computed, not cached"


def test_rating_without_reviews_is_zero() -> None:
    assert {rating_value(RatingTally(), method) for method in RatingMethod} == {0.0}


@given(st.lists(ratings, min_size=1))
def test_wilson_bound_matches_its_definition(a: list[int]) -> None:
    # Computed from the definition of the interval instead of its formula: |p - x| = z * sqrt(x * (1 - x) / n), solved
    # for x.
    n, p = len(a), sum(a) / 500 / len(a)
    low, high = 0.0, p
    for _ in range(100):
        middle = (low + high) / 2
        too_far = (p - middle) ** 2 > 1.64485**2 * middle * (1 - middle) / n
        low, high = (middle, high) if too_far else (low, middle)
    assert abs(rating_value(RatingTally.of(a), RatingMethod.WILSON) - 5 * low) <= 0.0051


def test_whole_ratings_are_integers() -> None:
    assert [(rating_number(h), type(rating_number(h))) for h in (500, 350)] == [(5, int), (3.5, float)]


@given(ratings)
def test_rating_number_round_trips(rating: int) -> None:
    assert hundredths(rating_number(rating)) == rating


@given(ratings)
def test_rating_equals_its_own_bounds(rating: int) -> None:
    assert lowest_from(rating / 100) == highest_to(rating / 100) == rating


@pytest.mark.parametrize(
    ("bound", "lowest", "highest"),
    [
        (3.000000004, 300, 300),
        (3.001, 301, 300),
        (3.999, 400, 399),
        (1.1, 110, 110),
        (-1e300, 0, 0),
        (5.5, 550, 550),
        (1e300, 600, 600),
    ],
)
def test_bounds_are_rounded_to_ratings(bound: float, lowest: int, highest: int) -> None:
    assert (lowest_from(bound), highest_to(bound)) == (lowest, highest)


def test_revision_is_the_time_in_milliseconds() -> None:
    assert next_revision(None, AT) == next_revision(0, AT) == next_revision(1_773_480_413_588, AT) == 1_773_480_413_589


@given(st.one_of(st.none(), st.integers(min_value=0, max_value=2**52)), st.datetimes(timezones=st.just(UTC)))
def test_revisions_increase_even_if_the_clock_goes_back(before: int | None, at: datetime) -> None:
    assert next_revision(before, at) > (before or 0)


def test_ids_are_grouped_by_type() -> None:
    objects = [("Product", "a"), ("Product", "b"), ("Store", "a"), ("Product", "a")]
    assert ids_by_type(objects) == {"Product": {"a", "b"}, "Store": {"a"}}
