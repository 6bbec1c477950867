"""Purchases, and the reviews that they verify."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from domain.orders import Purchase


class VerifiableReview(NamedTuple):
    """A review, the purchase that verifies it, and the mark that it has; None where that isn't known."""

    id: str
    purchase: Purchase
    is_verified: bool | None


def to_mark(reviews: Collection[VerifiableReview], made: Collection[Purchase]) -> list[VerifiableReview]:
    """The reviews whose mark is another than these purchases say, with the mark that they ought to have."""
    marks = ((review, review.purchase in made) for review in reviews)
    return [review._replace(is_verified=mark) for review, mark in marks if mark is not review.is_verified]
