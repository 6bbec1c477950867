"""Trials of moderation rules: the given reviews, and the effect of rules on them."""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from pydantic import AliasChoices, Field
from typing_extensions import TypedDict

from domain.moderation_rules import RuleOutcome, Ruling
from domain.ratings import Entity, hundredths
from domain.reviews import Review
from domain.reviews_facts import Facts
from domain.timestamps import EPOCH
from messaging.moderation_rules import ModerationRules
from messaging.schemas import MAX_ITEMS, ClosedMessage, Message, Name, OptionalId, Rating, ReviewText, Title


class TriedReview(Message):
    """The part of a submission that rules examine. `verifiedPurchase` and `language` are taken as given."""

    id: OptionalId = None
    user_id: OptionalId = None
    user_name: Name | None = None
    entity_id: Annotated[
        OptionalId, Field(validation_alias=AliasChoices("EntityId", "entityId"), serialization_alias="EntityId")
    ] = None
    entity_type: Annotated[
        OptionalId, Field(validation_alias=AliasChoices("EntityType", "entityType"), serialization_alias="EntityType")
    ] = None
    title: Title | None = None
    review: ReviewText
    rating: Rating
    verified_purchase: bool = False
    language: Annotated[str | None, Field(max_length=35)] = None

    def as_review(self, index: int, store_id: str | None) -> Review:
        """The review that would be stored; `index` is its place in the trial."""
        return Review(
            id=self.id or f"/{index}",
            entity=Entity(self.entity_type or "", self.entity_id or ""),
            entity_name=None,
            store_id=store_id,
            user_id=self.user_id,
            user_name=self.user_name,
            title=self.title,
            text=self.review,
            rating=hundredths(self.rating),
            created=EPOCH,
            modified=EPOCH,
            facts=Facts(self.verified_purchase, language=self.language),
        )


class RuleTrial(ClosedMessage):
    """Reviews to try rules on; without `rules`, those of the store are tried."""

    reviews: Annotated[list[TriedReview], Field(min_length=1, max_length=MAX_ITEMS)]
    rules: ModerationRules | None = None


class TriedRow(TypedDict):
    """The effect of rules on a review: the rules that fired, the winning outcome, and the resulting status."""

    id: str
    fired: list[str]
    outcome: RuleOutcome | None
    reviewStatus: str
    flags: list[str]
    approvedBy: str | None
    publishAfterHours: int | None


class TrialSummary(TypedDict):
    """Numbers of reviews: in total, by outcome, and by rule that fired."""

    reviews: int
    approved: int
    held: int
    flagged: int
    untouched: int
    rules: dict[str, int]


class TrialResult(TypedDict):
    """The results of a trial, in the order of the reviews."""

    results: list[TriedRow]
    summary: TrialSummary


def tried_row(review: Review, ruling: Ruling) -> TriedRow:
    """The effect of a ruling on a review."""
    planned = ruling.planned_approval
    return {
        "id": review.id,
        "fired": [rule.id for rule in ruling.fired],
        "outcome": ruling.outcome,
        "reviewStatus": ruling.status.label,
        "flags": list(ruling.flags),
        "approvedBy": ruling.approval.id if ruling.approval else None,
        "publishAfterHours": planned[1].publish_after_hours if planned else None,
    }


class TrialCounts:
    """Counts the rows of a trial one by one."""

    def __init__(self) -> None:
        self._outcomes: Counter[RuleOutcome | None] = Counter()
        self._rules: Counter[str] = Counter()

    def add(self, row: TriedRow) -> None:
        """Count a row."""
        self._outcomes[row["outcome"]] += 1
        self._rules.update(row["fired"])

    def summary(self) -> TrialSummary:
        """The numbers so far."""
        return {
            "reviews": self._outcomes.total(),
            "approved": self._outcomes[RuleOutcome.APPROVE],
            "held": self._outcomes[RuleOutcome.HOLD],
            "flagged": self._outcomes[RuleOutcome.FLAG],
            "untouched": self._outcomes[None],
            "rules": dict(self._rules.most_common()),
        }


def trial_summary(rows: Iterable[TriedRow]) -> TrialSummary:
    """The numbers of a trial."""
    counts = TrialCounts()
    for row in rows:
        counts.add(row)
    return counts.summary()
