"""Planned approvals of reviews that were held back for their few stars alone."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from domain.ratings import RatingTally, TallyKey, add_change
from domain.reviews import ReviewStatus, counted
from domain.reviews_moderated import ModeratedReview


class PlannedApproval(NamedTuple):
    """A review that a rule approves at some time, unless somebody decides or its author edits it before."""

    review_id: str
    at: datetime
    rule: str
    """The name under which the rule moderates."""


class ApprovedReviews(NamedTuple):
    """The approved reviews by id, and changes of tallies."""

    reviews: Mapping[str, ModeratedReview]
    tallies: Mapping[TallyKey, RatingTally]


def approve_planned(
    due: Iterable[PlannedApproval], reviews: Mapping[str, ModeratedReview], now: datetime
) -> ApprovedReviews:
    """Approve the due reviews that are still New; a review that isn't among `reviews` has been deleted."""
    approved: dict[str, ModeratedReview] = {}
    tallies: dict[TallyKey, RatingTally] = {}
    for each in due:
        review = reviews.get(each.review_id)
        if review is None or review.status is not ReviewStatus.NEW:
            continue
        after = review._replace(status=ReviewStatus.APPROVED, modified=now, moderator=each.rule, reason=None)
        approved[each.review_id] = after
        add_change(tallies, after.key, counted(after.status, after.rating))
    return ApprovedReviews(approved, tallies)
