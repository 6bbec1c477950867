"""Planned approvals that are due."""

from datetime import UTC, datetime

import pytest

from domain.planned_approvals import PlannedApproval, approve_planned
from domain.ratings import Entity, RatingTally
from domain.reviews import ReviewStatus
from domain.reviews_moderated import ModeratedReview

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DUE = PlannedApproval("a", NOW, "rule:low")
REVIEW = ModeratedReview(Entity("Product", "p"), "s", 150, ReviewStatus.NEW, flags=("low",), is_held=True, reason="x")


def test_new_reviews_are_approved_and_counted() -> None:
    approved = approve_planned([DUE, DUE._replace(review_id="b")], {"a": REVIEW, "b": REVIEW._replace(rating=100)}, NOW)
    after = REVIEW._replace(status=ReviewStatus.APPROVED, modified=NOW, moderator="rule:low", reason=None)
    assert approved.reviews == {"a": after, "b": after._replace(rating=100)}
    assert approved.tallies == {REVIEW.key: RatingTally.of([150, 100])}


@pytest.mark.parametrize("status", [ReviewStatus.APPROVED, ReviewStatus.REJECTED, None])
def test_decided_reviews_stay_unchanged(status: ReviewStatus | None) -> None:
    present = {} if status is None else {"a": REVIEW._replace(status=status)}
    approved = approve_planned([DUE, DUE._replace(review_id="b")], {**present, "b": REVIEW}, NOW)
    assert (set(approved.reviews), approved.tallies) == ({"b"}, {REVIEW.key: RatingTally.of([150])})
