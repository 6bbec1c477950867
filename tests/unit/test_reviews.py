"""Statuses of reviews: their words, where actions lead, and what counts."""

import pytest

from domain.ratings import RatingTally
from domain.reviews import ModerationAction, ReviewStatus, counted, review_status, status_after


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
def test_where_an_action_leads(before: ReviewStatus, action: ModerationAction, status: ReviewStatus | None) -> None:
    assert status_after(before, action) is status


@pytest.mark.parametrize("status", [*ReviewStatus, None])
def test_only_what_is_approved_counts(status: ReviewStatus | None) -> None:
    assert counted(status, 425) == (
        RatingTally(1, 425, (0, 0, 0, 1, 0)) if status is ReviewStatus.APPROVED else RatingTally()
    )


def test_statuses_have_the_names_and_numbers_of_the_interface() -> None:
    assert [(int(status), status.label) for status in ReviewStatus] == [(0, "New"), (1, "Approved"), (2, "Rejected")]


@pytest.mark.parametrize("status", ReviewStatus)
def test_words_for_a_status(status: ReviewStatus) -> None:
    words = (status.label, status.label.upper(), f" {status.label.lower()} ", str(status.value))
    assert {review_status(word) for word in (*words, status.value, float(status.value), status)} == {status}


@pytest.mark.parametrize("word", ["", " ", "Newer", "3", "-1", "1.0", 3, 0.5, float("nan"), True, False, None, [], {}])
def test_words_that_are_no_status(word: object) -> None:
    assert review_status(word) is None
