"""Verdicts of classifiers: they apply only to the text that they name, and never override a rule that holds."""

from datetime import UTC, datetime
from typing import Any

import pytest

from domain.commands import Outcome
from domain.delivery import RecordPosition
from domain.moderation_rules import RuleOutcome
from domain.ratings import Entity, RatingTally, TallyKey
from domain.reviews import ReviewStatus
from domain.reviews_moderated import ModeratedReview
from domain.verdicts import MOST_SOURCES, Verdict, VerdictResult, apply_verdicts
from messaging.verdicts import MODERATION_VERDICT, verdict_value
from storage.reviews.documents import moderated_fields

NEW, APPROVED, REJECTED = ReviewStatus.NEW, ReviewStatus.APPROVED, ReviewStatus.REJECTED
APPLIED, UNCHANGED = VerdictResult(Outcome.APPLIED), VerdictResult(Outcome.UNCHANGED)
AT = datetime(2026, 3, 14, tzinfo=UTC)
REVIEW = ModeratedReview(Entity("Product", "p"), "s", 400, NEW, text_hash="a" * 64)


def verdict(outcome: str, offset: int = 0, source: str = "ai", **fields: Any) -> Verdict:
    about = {"review_id": "r", "text_hash": "a" * 64, "position": RecordPosition(0, offset, offset), "at": AT}
    return Verdict(**{**about, "source": source, "outcome": RuleOutcome(outcome), **fields})


def after(review: ModeratedReview, *verdicts: Verdict) -> tuple[ModeratedReview, list[VerdictResult], int]:
    applied = apply_verdicts(verdicts, {"r": review})
    (tally,) = applied.tallies.values() or (RatingTally(),)
    return applied.reviews.get("r", review), list(applied.results), tally.count


@pytest.mark.parametrize(
    ("status", "held", "flags", "is_approved"),
    [
        (NEW, False, (), True),
        (NEW, False, ("links",), True),
        (NEW, True, ("words",), False),
        (NEW, False, ("verdict:other",), False),
        (NEW, False, ("verdict:ai",), True),
        (APPROVED, False, (), False),
        (REJECTED, False, (), False),
    ],
)
def test_approval(status: ReviewStatus, held: bool, flags: tuple[str, ...], is_approved: bool) -> None:
    before = REVIEW._replace(status=status, is_held=held, flags=flags, moderator="eve", reason="x")
    review, (result,), count = after(before, verdict("approve"))
    assert (result.is_approved, count) == (is_approved, int(is_approved))
    assert review.status is (APPROVED if is_approved else status)
    assert review.flags == tuple(flag for flag in flags if flag != "verdict:ai")
    decided = ("verdict:ai", None, AT) if is_approved else ("eve", "x", None)
    assert (review.moderator, review.reason, review.modified) == decided
    assert result.outcome is (Outcome.APPLIED if is_approved else Outcome.UNCHANGED)


@pytest.mark.parametrize("outcome", ["hold", "flag"])
@pytest.mark.parametrize("status", ReviewStatus)
def test_objection_keeps_the_status(status: ReviewStatus, outcome: str) -> None:
    before = REVIEW._replace(status=status, flags=("links",))
    review, results, count = after(before, verdict(outcome), verdict(outcome, 1), verdict("approve", 2, "other"))
    assert (review.status, review.flags, count) == (status, ("links", "verdict:ai"), 0)
    assert results == [APPLIED, UNCHANGED, UNCHANGED]


def test_same_source_can_withdraw_its_objection() -> None:
    review, results, count = after(REVIEW, verdict("hold"), verdict("approve", 1))
    assert (review.status, review.flags, count) == (APPROVED, (), 1)
    assert results == [APPLIED, VerdictResult(Outcome.APPLIED, is_approved=True)]
    held, results, _ = after(REVIEW._replace(is_held=True), verdict("hold"), verdict("approve", 1))
    assert (held.status, held.flags, results) == (NEW, (), [APPLIED, APPLIED])


@pytest.mark.parametrize("outcome", RuleOutcome)
def test_verdict_about_another_text_changes_nothing(outcome: str) -> None:
    review, results, count = after(REVIEW, verdict(outcome, text_hash="b" * 64))
    assert (review.status, review.flags, results, count) == (NEW, (), [UNCHANGED], 0)
    # The redelivered verdict changes nothing either, even if the review has that text by then.
    assert after(review._replace(text_hash="b" * 64), verdict(outcome, text_hash="b" * 64))[1] == [UNCHANGED]


def test_record_counts_once() -> None:
    review, _, _ = after(REVIEW, verdict("approve", 5))
    again, results, count = after(review._replace(status=NEW), verdict("approve", 5), verdict("flag", 4))
    assert (again.status, again.flags, results, count) == (NEW, (), [UNCHANGED, UNCHANGED], 0)


def test_missing_review_and_tallies_of_several() -> None:
    assert apply_verdicts([verdict("approve")], {}) == ({}, [VerdictResult(Outcome.NOT_FOUND)], {})
    reviews = {"r": REVIEW, "q": REVIEW._replace(rating=200)}
    applied = apply_verdicts(
        [verdict("flag", review_id="gone"), verdict("approve"), verdict("approve", 1, review_id="q")], reviews
    )
    assert [result.outcome for result in applied.results] == [Outcome.NOT_FOUND, Outcome.APPLIED, Outcome.APPLIED]
    assert applied.tallies == {TallyKey(Entity("Product", "p"), "s"): RatingTally.of([200, 400])}


def test_flags_are_bounded() -> None:
    flags = tuple(f"verdict:{n}" for n in range(MOST_SOURCES))
    assert after(REVIEW._replace(flags=flags), verdict("flag"))[0].flags == flags
    assert len(after(REVIEW._replace(flags=flags[1:]), verdict("flag"))[0].flags) == MOST_SOURCES


def test_empty_marks_are_not_stored() -> None:
    # Planned approvals distinguish empty marks from missing ones.
    assert moderated_fields(REVIEW).keys().isdisjoint({"seen", "verdictsSeen", "flags"})
    flagged, _, _ = after(REVIEW, verdict("flag", 7))
    fields = moderated_fields(flagged)
    assert (fields["verdictsSeen"], fields["flags"], "seen" in fields) == ({"0": [7, 7]}, ["verdict:ai"], False)
    again, _, _ = after(flagged, verdict("approve", 8))
    assert moderated_fields(again)["flags"] == []


def test_message_round_trips() -> None:
    value = {"reviewId": "r", "textHash": "A" * 64, "source": "ai", "verdict": "flag", "labels": ["spam"], "score": 0.5}
    position = RecordPosition(1, 2, 3)
    read = MODERATION_VERDICT.validate_python(value, strict=False).about(position, "t")
    assert (read.position, read.trace, read.subject) == (position, "t", "verdict:ai")
    assert verdict_value(read) == {**value, "textHash": "a" * 64}
