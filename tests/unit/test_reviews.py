"""Reviews: identity and content, statuses and their names, results of actions, and what counts for ratings."""

from datetime import UTC, datetime

import pytest

from api.reviews.rows import StatusCounts
from domain.ratings import Entity, RatingTally
from domain.reviews import (
    Content,
    ModerationAction,
    Review,
    ReviewIdentity,
    ReviewStatus,
    counted,
    review_status,
    status_after,
)
from domain.reviews_facts import ReviewImage
from plaudit.cli.reviews import StatusName

NEXT = len(ReviewStatus)
"""The number of no status."""


def test_identity_and_content_of_a_review() -> None:
    camera, at = Entity("Product", "camera"), datetime(2026, 3, 14, tzinfo=UTC)
    images = (ReviewImage("i1", is_hidden=True), ReviewImage("i2"))
    review = Review("r", camera, "Camera", "s", "anna", "Anna", "Title", "Good", 450, at, at, images=images)
    assert review.identity == ReviewIdentity(camera, "s", "anna")
    assert review.content == Content("Good", 450, "Title", "Anna", "Camera", ("i1", "i2"))


@pytest.mark.parametrize(
    ("action", "status"),
    [
        (ModerationAction.APPROVE, ReviewStatus.APPROVED),
        (ModerationAction.REJECT, ReviewStatus.REJECTED),
        (ModerationAction.RESET, ReviewStatus.NEW),
        (ModerationAction.DELETE, None),
    ],
)
@pytest.mark.parametrize("before", ReviewStatus)
def test_status_after_an_action(before: ReviewStatus, action: ModerationAction, status: ReviewStatus | None) -> None:
    assert status_after(before, action) is status
    assert status_after(before, ModerationAction.RESTORE) is before


@pytest.mark.parametrize("status", [*ReviewStatus, None])
def test_only_approved_reviews_count(status: ReviewStatus | None) -> None:
    assert counted(status, 425) == (
        RatingTally(1, 425, (0, 0, 0, 1, 0)) if status is ReviewStatus.APPROVED else RatingTally()
    )


def test_statuses_have_the_names_and_numbers_of_the_api() -> None:
    assert [(int(status), status.label) for status in ReviewStatus] == [(0, "New"), (1, "Approved"), (2, "Rejected")]
    assert [*StatusName] == [*StatusCounts.__annotations__] == [status.label for status in ReviewStatus]


@pytest.mark.parametrize("status", ReviewStatus)
def test_names_and_numbers_of_a_status(status: ReviewStatus) -> None:
    words = (status.label, status.label.upper(), f" {status.label.lower()} ", str(status.value))
    assert {review_status(word) for word in (*words, status.value, float(status.value), status)} == {status}


@pytest.mark.parametrize(
    "word", ["", " ", "Newer", str(NEXT), "-1", "1.0", NEXT, 0.5, float("nan"), True, False, None, [], {}]
)
def test_words_that_are_no_status(word: object) -> None:
    assert review_status(word) is None
