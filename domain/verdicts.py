"""Verdicts of external classifiers on the text of a review. They approve or flag, and never reject."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from domain.commands import Outcome
from domain.delivery import RecordPosition
from domain.moderation_rules import RuleOutcome
from domain.ratings import RatingTally, TallyKey, add_change
from domain.reviews import ReviewStatus, counted
from domain.reviews_facts import BY_VERDICT, verdict_flags
from domain.reviews_moderated import ModeratedReview

MOST_SOURCES: Final = 50
"""Maximum number of sources that can flag one review."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on the text with this hash. `labels` and `score` are the classifier's own, for the audit log."""

    review_id: str
    text_hash: str
    source: str
    outcome: RuleOutcome
    position: RecordPosition
    at: datetime
    labels: tuple[str, ...] = ()
    score: float | None = None
    trace: str = ""

    @property
    def subject(self) -> str:
        """The name under which the classifier moderates, and its flag."""
        return f"{BY_VERDICT}{self.source}"


class VerdictResult(NamedTuple):
    """The result of one verdict; `is_approved` is true if it approved its review."""

    outcome: Outcome
    is_approved: bool = False


class AppliedVerdicts(NamedTuple):
    """The reviews that applied verdicts, by id, one result for each verdict, and changes of tallies."""

    reviews: Mapping[str, ModeratedReview]
    results: Sequence[VerdictResult]
    tallies: Mapping[TallyKey, RatingTally]


def apply_verdicts(verdicts: Iterable[Verdict], reviews: Mapping[str, ModeratedReview]) -> AppliedVerdicts:
    """Apply verdicts in order. A review that isn't among `reviews` has been deleted."""
    present, touched = dict(reviews), dict[str, ModeratedReview]()
    results: list[VerdictResult] = []
    tallies: dict[TallyKey, RatingTally] = {}
    for verdict in verdicts:
        review = present.get(verdict.review_id)
        if review is None:
            results.append(VerdictResult(Outcome.NOT_FOUND))
            continue
        if review.verdicts.covers(verdict.position):
            results.append(VerdictResult(Outcome.UNCHANGED))
            continue
        after = _apply_verdict(review, verdict)
        is_same = (after.status, after.flags) == (review.status, review.flags)
        is_approved = after.status is not review.status
        results.append(VerdictResult(Outcome.UNCHANGED if is_same else Outcome.APPLIED, is_approved))
        if is_approved:
            add_change(tallies, review.key, counted(after.status, after.rating))
        after = after._replace(verdicts=review.verdicts.after(verdict.position))
        present[verdict.review_id] = touched[verdict.review_id] = after
    return AppliedVerdicts(touched, results, tallies)


def _apply_verdict(review: ModeratedReview, verdict: Verdict) -> ModeratedReview:
    """The review after a verdict; a verdict on another text changes nothing."""
    if verdict.text_hash != review.text_hash:
        return review
    others = tuple(flag for flag in review.flags if flag != verdict.subject)
    if verdict.outcome is not RuleOutcome.APPROVE:
        if verdict.subject in review.flags or len(verdict_flags(others)) >= MOST_SOURCES:
            return review
        return review._replace(flags=(*others, verdict.subject))
    after = review._replace(flags=others)
    if review.status is not ReviewStatus.NEW or review.is_held or verdict_flags(others):
        return after
    return after._replace(status=ReviewStatus.APPROVED, modified=verdict.at, moderator=verdict.subject, reason=None)
