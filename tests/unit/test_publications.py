"""Planned approvals whose time has come."""

from datetime import UTC, datetime

import pytest

from domain.moderation import ModeratedReview
from domain.publications import Publication, publish
from domain.ratings import Entity, RatingTally
from domain.reviews import ReviewStatus

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DUE = Publication("a", NOW, "rule:low")
REVIEW = ModeratedReview(Entity("Product", "p"), "s", 150, ReviewStatus.NEW, flags=("low",), is_held=True, reason="x")


def test_new_reviews_are_approved_and_counted() -> None:
    published = publish([DUE, DUE._replace(review_id="b")], {"a": REVIEW, "b": REVIEW._replace(rating=100)}, NOW)
    after = REVIEW._replace(status=ReviewStatus.APPROVED, modified=NOW, moderator="rule:low", reason=None)
    assert published.reviews == {"a": after, "b": after._replace(rating=100)}
    assert published.tallies == {REVIEW.key: RatingTally.of([150, 100])}


@pytest.mark.parametrize("status", [ReviewStatus.APPROVED, ReviewStatus.REJECTED, None])
def test_others_stay_as_they_are(status: ReviewStatus | None) -> None:
    present = {} if status is None else {"a": REVIEW._replace(status=status)}
    published = publish([DUE, DUE._replace(review_id="b")], {**present, "b": REVIEW}, NOW)
    assert (set(published.reviews), published.tallies) == ({"b"}, {REVIEW.key: RatingTally.of([150])})
