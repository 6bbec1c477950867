"""Ratings: the tallies that they are computed from, and the formulas."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from domain.timestamps import milliseconds

HIGHEST_RATING = 5

STARS: Final = range(1, HIGHEST_RATING + 1)
"""The numbers of stars that a rating can have: the rating rounded to a whole number, halves up."""

Histogram = tuple[int, ...]
"""The number of ratings for each of STARS, in order."""

NO_RATINGS: Final[Histogram] = (0,) * len(STARS)

Z = Decimal("1.64485")
"""Quantile of the normal distribution for the Wilson interval: 95% one-sided."""

_PRECISION: Final = Context(prec=40)
_TWENTY_DECIMALS: Final = Decimal("1e-20")
_TWO_DECIMALS: Final = Decimal("0.01")

Hundredths = int
"""A rating (100 to 500) or a sum of ratings, in hundredths to be exact. Outside of the domain it is a number with two
decimals; MongoDB stores it in `ratingHundredths` and `sumHundredths`."""

_SCALE = 100


class RatingMethod(StrEnum):
    """The formula of a rating value."""

    AVERAGE = "average"
    WILSON = "wilson"


class Entity(NamedTuple):
    """The reviewed object: any type, any id."""

    type: str
    id: str


def ids_by_type(entities: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The ids of these objects by their types."""
    ids: dict[str, set[str]] = {}
    for type, id in entities:
        ids.setdefault(type, set()).add(id)
    return ids


class TallyKey(NamedTuple):
    """The key of a rating: an object in a store, or without a store."""

    entity: Entity
    store_id: str | None


@dataclass(frozen=True, slots=True)
class RatingTally:
    """The number of approved reviews, the sum of their ratings, and their histogram."""

    count: int = 0
    sum: Hundredths = 0
    histogram: Histogram | None = NO_RATINGS
    """None if it is unknown, as in a tally by a version without histograms."""

    def __add__(self, other: "RatingTally") -> "RatingTally":
        return RatingTally(
            self.count + other.count, self.sum + other.sum, _sum_of_histograms(self.histogram, other.histogram)
        )

    def __neg__(self) -> "RatingTally":
        return RatingTally(-self.count, -self.sum, self.histogram and tuple(-each for each in self.histogram))

    def __sub__(self, other: "RatingTally") -> "RatingTally":
        return self + -other

    @classmethod
    def stored(cls, count: int, sum_of_ratings: Hundredths, histogram: Iterable[int] | None) -> "RatingTally":
        """A tally from its stored fields. A histogram that doesn't add up to `count` is dropped: a version without
        histograms has written the tally since."""
        numbers = tuple(histogram or ())
        return cls(count, sum_of_ratings, numbers if numbers and sum(numbers) == count else None)

    def after(self, change: "RatingTally") -> "RatingTally":
        """The stored tally after a change. An unknown histogram is known again when no review is left."""
        after = self + change
        return after if after.count else RatingTally(0, after.sum)

    @classmethod
    def of(cls, ratings: Iterable[Hundredths]) -> "RatingTally":
        """The tally of these ratings."""
        counted = list(ratings)
        in_stars = [*map(stars, counted)]
        return cls(len(counted), sum(counted), tuple(map(in_stars.count, STARS)))


def add_change(changes: dict[TallyKey, RatingTally], key: TallyKey, change: RatingTally) -> None:
    """Add the change of a rating to the accumulated changes."""
    changes[key] = changes[key] + change if key in changes else change


class ChangedTally(NamedTuple):
    """A tally after a change. Between two of one rating, the higher `revision` is the later."""

    tally: RatingTally
    revision: int


def next_revision(before: int | None, at: datetime) -> int:
    """The revision of a change at that moment, greater than the one before (None: unknown).

    Milliseconds since 1970, but at least one more than before: it grows whatever clocks say, also over restored data
    (a hybrid logical clock without its own counter, Kulkarni et al. 2014).
    """
    return max((before or 0) + 1, milliseconds(at))


def rating_value(tally: RatingTally, method: RatingMethod) -> float:
    """The rating of an object, 0 to 5 with two decimals; 0 without reviews.

    Halves are rounded up, as with money: 4.125 is 4.13.
    """
    if tally.count <= 0:
        return 0.0
    match method:
        case RatingMethod.AVERAGE:
            return (2 * tally.sum + tally.count) // (2 * tally.count) / _SCALE
        case RatingMethod.WILSON:
            return _wilson_value(tally.count, tally.sum)


def stars(rating: Hundredths) -> int:
    """The stars of a rating, halves rounded up."""
    return (rating + _SCALE // 2) // _SCALE


def lowest_with(stars: int) -> Hundredths:
    """The lowest rating with this number of stars."""
    return stars * _SCALE - _SCALE // 2


def highest_with(stars: int) -> Hundredths:
    """The highest rating with this number of stars."""
    return min(lowest_with(stars + 1) - 1, HIGHEST_RATING * _SCALE)


def histogram_by_stars(tally: RatingTally) -> dict[str, int] | None:
    """The histogram in the form of the interface; None if unknown."""
    if tally.histogram is None:
        return None
    return {str(number): count for number, count in zip(STARS, tally.histogram, strict=True)}


def hundredths(rating: float) -> Hundredths:
    """A number with at most two decimals, in hundredths."""
    return round(rating * _SCALE)


def rating_number(rating: Hundredths) -> int | float:
    """A rating as a number: an int if it is whole."""
    whole, rest = divmod(rating, _SCALE)
    return rating / _SCALE if rest else whole


def lowest_from(bound: float) -> Hundredths:
    """The lowest rating that is not below this bound, which may be any number."""
    return math.ceil(_in_hundredths(bound))


def highest_to(bound: float) -> Hundredths:
    """The highest rating that is not above this bound, which may be any number."""
    return math.floor(_in_hundredths(bound))


def _in_hundredths(bound: float) -> float:
    # Six decimals are more than a rating has, and few enough to round away that 1.1 · 100 isn't 110.
    return round(max(0.0, min(bound, HIGHEST_RATING + 1.0)) * _SCALE, 6)


def wilson_lower_bound(tally: RatingTally) -> Decimal:
    """Lower bound of the Wilson score interval (Wilson 1927) on the share p = sum / (5 · count), 0 to 1.

    With few reviews the bound stays far below p, so one enthusiast can't put an object on top. Computed to 40 digits.
    """
    with localcontext(_PRECISION):
        n = Decimal(tally.count)
        p = tally.sum / (_SCALE * HIGHEST_RATING * n)
        z2 = Z * Z
        # A damaged sum can exceed 5 · count, which would make the radicand negative.
        margin = Z * (max(Decimal(0), p * (1 - p) + z2 / (4 * n)) / n).sqrt()
        return max(Decimal(0), (p + z2 / (2 * n) - margin) / (1 + z2 / n))


@lru_cache(maxsize=4_096)
def _wilson_value(count: int, sum_of_ratings: Hundredths) -> float:
    """The rating value by Wilson, cached: most objects have few reviews, and few reviews have few possible sums."""
    value = wilson_lower_bound(RatingTally(count, sum_of_ratings)) * HIGHEST_RATING
    # The last of the 40 digits are inexact; at twenty decimals an exact half is a half again.
    return float(value.quantize(_TWENTY_DECIMALS).quantize(_TWO_DECIMALS, ROUND_HALF_UP))


def _sum_of_histograms(one: Histogram | None, other: Histogram | None) -> Histogram | None:
    if one is None or other is None:
        return None
    return tuple([a + b for a, b in zip(one, other, strict=True)])
