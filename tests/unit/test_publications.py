"""Planned approvals whose time has come."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from domain.publications import Publication, publish
from domain.ratings import Entity, RatingTally
from domain.reviews import ReviewStatus
from domain.verdicts import VerdictReview

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DUE = Publication("a", NOW, "rule:low")
REVIEW = VerdictReview(Entity("Product", "p"), "s", 150, ReviewStatus.NEW, "hash", ("low",), is_held=True, reason="x")


def test_new_reviews_are_approved_and_counted() -> None:
    published = publish([DUE, DUE._replace(review_id="b")], {"a": REVIEW, "b": replace(REVIEW, rating=100)}, NOW)
    after = replace(REVIEW, status=ReviewStatus.APPROVED, modified=NOW, moderator="rule:low", reason=None)
    assert published.reviews == {"a": after, "b": replace(after, rating=100)}
    assert published.tallies == {REVIEW.key: RatingTally.of([150, 100])}


@pytest.mark.parametrize("status", [ReviewStatus.APPROVED, ReviewStatus.REJECTED, None])
def test_others_stay_as_they_are(status: ReviewStatus | None) -> None:
    present = {} if status is None else {"a": replace(REVIEW, status=status)}
    published = publish([DUE, DUE._replace(review_id="b")], {**present, "b": REVIEW}, NOW)
    assert (set(published.reviews), published.tallies) == ({"b"}, {REVIEW.key: RatingTally.of([150])})
