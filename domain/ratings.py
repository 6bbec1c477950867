"""Ratings: what they are computed from and how."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

HIGHEST_RATING = 5
LOWEST_RATING = 1

Z = 1.64485
"""Quantile of the normal distribution for the Wilson interval: 95% one-sided."""


class RatingMethod(StrEnum):
    """The formula of a rating value."""

    AVERAGE = "average"
    WILSON = "wilson"


class Entity(NamedTuple):
    """The object that is reviewed: any type, any id."""

    type: str
    id: str


class TallyKey(NamedTuple):
    """One rating: an object in a store, or without one."""

    entity: Entity
    store_id: str | None


@dataclass(frozen=True, slots=True)
class RatingTally:
    """The number of approved reviews, and the sum of their ratings in hundredths."""

    count: int = 0
    sum_hundredths: int = 0

    def __add__(self, other: RatingTally) -> RatingTally:
        return RatingTally(self.count + other.count, self.sum_hundredths + other.sum_hundredths)

    def __neg__(self) -> RatingTally:
        return RatingTally(-self.count, -self.sum_hundredths)

    def __sub__(self, other: RatingTally) -> RatingTally:
        return self + -other

    @classmethod
    def of(cls, ratings_hundredths: Iterable[int]) -> RatingTally:
        """The tally of these ratings, each in hundredths (100 to 500)."""
        ratings = list(ratings_hundredths)
        return cls(len(ratings), sum(ratings))


def rating_value(tally: RatingTally, method: RatingMethod) -> float:
    """The rating of an object, 0 to 5 with two decimals; 0 when nothing was counted."""
    if tally.count <= 0:
        return 0.0
    match method:
        case RatingMethod.AVERAGE:
            return round(tally.sum_hundredths / (100 * tally.count), 2)
        case RatingMethod.WILSON:
            return round(wilson_lower_bound(tally) * HIGHEST_RATING, 2)


def rating_number(hundredths: int) -> int | float:
    """A rating in hundredths as a number: whole where it is whole."""
    whole, rest = divmod(hundredths, 100)
    return hundredths / 100 if rest else whole


def wilson_lower_bound(tally: RatingTally) -> float:
    """Lower bound of the Wilson score interval (Wilson 1927) on the share p = sum / (5 · count), 0 to 1.

    With few reviews the bound stays far below p, so one enthusiast can't put an object on top.
    """
    n = tally.count
    p = tally.sum_hundredths / (100 * HIGHEST_RATING * n)
    z2 = Z * Z
    margin = Z * math.sqrt((p * (1 - p) + z2 / (4 * n)) / n)
    return max(0.0, (p + z2 / (2 * n) - margin) / (1 + z2 / n))
