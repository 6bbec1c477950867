"""The review policy of a store in sentences, and statistics of decisions on reviews to measure it by.

EU: Directive 2005/29/EC (UCPD), Article 7(6), requires traders to state whether and how they ensure that reviews are by
buyers. US: 16 CFR 465 prohibits suppressing reviews because of their rating.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import exp, lgamma
from typing import Final

from domain.moderation_rules import ModerationRule, RuleKind, RuleOutcome
from domain.quantities import quantity
from domain.ratings import STARS, Hundredths
from domain.reviews import ReviewStatus
from domain.reviews_facts import ReasonCode
from domain.stores import StoreSettings

MOST_COUNTED: Final = 200_000
"""The maximum number of decisions that the policy of a store counts, those about its newest reviews: MongoDB reads each
of these reviews, for about a second in total."""


class Writers(StrEnum):
    """The people who may write reviews in a store."""

    NOBODY = "nobody"
    CUSTOMERS = "customers"
    REGISTERED = "registered"
    EVERYBODY = "everybody"


class Proof(StrEnum):
    """A proof of a purchase."""

    ORDER = "order"
    REVIEW_LINK = "review-link"


class Check(StrEnum):
    """The party that decides on a review."""

    MODERATOR = "moderator"
    RULES = "rules"


@dataclass(slots=True)
class Decisions:
    """Counts of reviews by the decisions on them."""

    by_stars: dict[ReviewStatus, dict[int, int]] = field(
        default_factory=lambda: {status: dict.fromkeys(STARS, 0) for status in ReviewStatus}
    )
    """Number of reviews by status and stars."""
    by_reason: dict[ReasonCode | None, int] = field(default_factory=dict)
    """Number of rejected reviews by reason; None: no reason given."""

    def add(self, status: ReviewStatus, stars: int, reason: ReasonCode | None = None, count: int = 1) -> None:
        """Add `count` reviews."""
        self.by_stars[status][stars] += count
        if status is ReviewStatus.REJECTED:
            self.by_reason[reason] = self.by_reason.get(reason, 0) + count

    def count(self, status: ReviewStatus, stars: Iterable[int]) -> int:
        """The number of reviews with these stars in a status."""
        return sum(self.by_stars[status][each] for each in stars)

    def total(self, status: ReviewStatus) -> int:
        """The number of reviews in a status."""
        return sum(self.by_stars[status].values())

    @property
    def submitted(self) -> int:
        """The number of all reviews."""
        return sum(map(self.total, ReviewStatus))

    def rejected_share(self, stars: Iterable[int]) -> float | None:
        """The rejected share of the decided reviews with these stars; None if none was decided."""
        chosen = tuple(stars)
        rejected = self.count(ReviewStatus.REJECTED, chosen)
        decided = rejected + self.count(ReviewStatus.APPROVED, chosen)
        return rejected / decided if decided else None


LOW_STARS: Final = (1, 2)
HIGH_STARS: Final = (4, 5)
_TELLING: Final = 1.96
"""Quantile of the normal distribution, two-sided at 5%: chance exceeds it once in twenty times."""
_ONE_SIDED: Final = 0.025
_FEWEST_EXPECTED: Final = 5
"""Counts from which on the normal distribution stands for the exact one (W. G. Cochran, Biometrics 10, 1954)."""


def rejects_low_more(decisions: Decisions) -> bool:
    """True if reviews with few stars are rejected significantly more often than those with many.

    Two-proportion z-test with pooled variance, two-sided at 5%; Fisher's exact test if a count of less than 5 is to be
    expected.
    """
    low_rejected = decisions.count(ReviewStatus.REJECTED, LOW_STARS)
    high_rejected = decisions.count(ReviewStatus.REJECTED, HIGH_STARS)
    low = low_rejected + decisions.count(ReviewStatus.APPROVED, LOW_STARS)
    high = high_rejected + decisions.count(ReviewStatus.APPROVED, HIGH_STARS)
    if not low or not high:
        return False
    pooled = (low_rejected + high_rejected) / (low + high)
    if min(low, high) * min(pooled, 1 - pooled) < _FEWEST_EXPECTED:
        # Rounded, since a probability of exactly 1/40 is computed as a little more.
        return round(_chance_of_more(low_rejected, low, high_rejected, high), 9) <= _ONE_SIDED
    variance = pooled * (1 - pooled) * (1 / low + 1 / high)
    difference = low_rejected / low - high_rejected / high
    return difference > 0 and difference**2 > _TELLING**2 * variance


def _chance_of_more(first: int, of_first: int, second: int, of_second: int) -> float:
    """The probability that at least `first` of all hits fall into the first group, if chance alone distributes them:
    the tail of the hypergeometric distribution."""
    hits = first + second
    distributions = _log_combinations(of_first + of_second, hits)
    return sum(
        exp(_log_combinations(of_first, each) + _log_combinations(of_second, hits - each) - distributions)
        for each in range(first, min(of_first, hits) + 1)
    )


def _log_combinations(all: int, chosen: int) -> float:
    return lgamma(all + 1) - lgamma(chosen + 1) - lgamma(all - chosen + 1)


@dataclass(frozen=True, slots=True)
class Policy:
    """The review policy of a store."""

    writers: Writers
    purchase_proofs: tuple[Proof, ...]
    checked_by: tuple[Check, ...]
    rules: tuple[ModerationRule, ...]
    checks_reviews: bool
    """False if a rule publishes every review, and none keeps any for a moderator."""
    one_review_per_customer: bool
    keeps_edits: bool
    """True if a review keeps its status when its author edits it."""

    @property
    def purchase_required(self) -> bool:
        """True if reviews are accepted only with a proof of purchase."""
        return bool(self.purchase_proofs)

    @property
    def edits_are_checked(self) -> bool:
        """True if a published review that its author edits is checked again before it is shown."""
        return self.checks_reviews and not self.keeps_edits

    def sentences(self) -> Iterator[str]:
        """The policy in plain English, one sentence per point."""
        yield _WRITERS[self.writers]
        if self.writers is not Writers.NOBODY:
            yield _PURCHASE_REQUIRED if self.purchase_required else _PURCHASE_NOT_REQUIRED
        yield _VERIFIED
        yield _CHECKED
        yield from (_rule_sentence(rule, is_overruled=_objects(self.rules)) for rule in self.rules)
        yield _REASONS
        yield _NEVER_BY_STARS
        if self.one_review_per_customer:
            yield "A customer can write one review of a product."
        yield self._edits_sentence()
        yield "A review whose author received something in return is marked."

    def _edits_sentence(self) -> str:
        if self.edits_are_checked:
            return _EDITS_CHECKED
        holds = any(rule.outcome is RuleOutcome.HOLD for rule in self.rules)
        return _EDITS_HELD if holds else _EDITS_PUBLISHED


def policy_of(settings: StoreSettings) -> Policy:
    """The policy that follows from a store's settings, including its moderation rules."""
    rules = settings.moderation_rules
    is_approved_by_rule = any(
        rule.outcome is RuleOutcome.APPROVE or rule.publish_after_hours is not None for rule in rules
    )
    return Policy(
        writers=_writers(settings),
        purchase_proofs=tuple(Proof) if settings.purchase_required else (),
        checked_by=(Check.MODERATOR, Check.RULES) if is_approved_by_rule else (Check.MODERATOR,),
        rules=rules,
        checks_reviews=_objects(rules) or not any(rule.kind is RuleKind.ALWAYS for rule in rules),
        one_review_per_customer=settings.one_review_per_customer,
        keeps_edits=settings.edits_keep_status,
    )


def decision_sentences(decisions: Decisions) -> Iterator[str]:
    """The decisions counted: one sentence for each number of stars with any, most stars first, and one if these may not
    be all."""
    approved = decisions.by_stars[ReviewStatus.APPROVED]
    rejected = decisions.by_stars[ReviewStatus.REJECTED]
    for stars in reversed(STARS):
        if approved[stars] or rejected[stars]:
            yield f"With {quantity(stars, 'star')}: {approved[stars]} published, {rejected[stars]} rejected."
    if sum(approved.values()) + sum(rejected.values()) >= MOST_COUNTED:
        yield f"These are the newest {MOST_COUNTED:,} reviews with a decision."


def _writers(settings: StoreSettings) -> Writers:
    if not settings.reviews_enabled:
        return Writers.NOBODY
    if settings.purchase_required:
        return Writers.CUSTOMERS
    return Writers.EVERYBODY if settings.anonymous_reviews_allowed else Writers.REGISTERED


def _objects(rules: Iterable[ModerationRule]) -> bool:
    """True if one of these rules keeps reviews for a moderator."""
    return any(rule.outcome is not RuleOutcome.APPROVE for rule in rules)


def _rule_sentence(rule: ModerationRule, *, is_overruled: bool) -> str:
    """The effect of a rule; `is_overruled`: other rules may keep what it approves for a moderator."""
    after = rule.publish_after_hours
    hours = f"{after} hours" if after != 1 else "an hour"
    later = f", and is published after {hours} at the latest unless {_UNLESS}" if after else ""
    if rule.outcome is RuleOutcome.APPROVE and is_overruled:
        later = _OVERRULED
    return f"{_reviews_of(rule)} {_RULE_ACTIONS[rule.outcome]}{later}."


def _reviews_of(rule: ModerationRule) -> str:
    """The reviews that a rule fires for, as the subject of a sentence."""
    is_approval = rule.outcome is RuleOutcome.APPROVE
    match rule.kind:
        case RuleKind.LANGUAGES:
            languages = " or ".join(rule.languages)
            return f"A review in {languages}" if is_approval else f"A review in another language than {languages}"
        case RuleKind.VERIFIED:
            return "A verified review" if is_approval else "A review that is not verified"
        case RuleKind.STARS:
            few = [] if rule.below is None else [f"fewer than {_number(rule.below)}"]
            many = [] if rule.above is None else [f"more than {_number(rule.above)}"]
            return f"A review with {' or '.join([*few, *many])} stars"
        case _:
            return _REVIEWS_OF[rule.kind]


def _number(rating: Hundredths) -> str:
    return f"{rating / 100:g}"


_WRITERS: Final[Mapping[Writers, str]] = {
    Writers.NOBODY: "Reviews are not accepted at present.",
    Writers.CUSTOMERS: "Only customers who bought the reviewed product can write a review.",
    Writers.REGISTERED: "Customers with an account can write a review.",
    Writers.EVERYBODY: "Everybody can write a review, also without an account.",
}
_RULE_ACTIONS: Final[Mapping[RuleOutcome, str]] = {
    RuleOutcome.APPROVE: "is published without a check by a moderator",
    RuleOutcome.HOLD: "waits for a moderator",
    RuleOutcome.FLAG: "is marked for a moderator",
}
_REVIEWS_OF: Final[Mapping[RuleKind, str]] = {
    RuleKind.WORDS: "A review with certain words",
    RuleKind.LINKS: "A review with a web address",
    RuleKind.CONTACT: "A review with an e-mail address or a phone number",
    RuleKind.REPEATED: "A review that repeats characters or words many times",
    RuleKind.DUPLICATE: "A review with the text of another one",
    RuleKind.ALWAYS: "Every review",
}
_OVERRULED: Final = ", unless a rule named here keeps it for one"
_UNLESS: Final = "a moderator decides on it before or something other than its stars holds it back"
_PURCHASE_REQUIRED: Final = (
    "The purchase is proven by an order of the shop that contains the product, or by the signed link in a "
    "mail about it; a review without proof is not accepted."
)
_PURCHASE_NOT_REQUIRED: Final = (
    "A purchase is not required, so a review may be written by somebody who has not bought the product."
)
_VERIFIED: Final = "A review whose author is known to have bought the product from an order is marked as verified."
# Settings don't mention classifiers: anyone who may publish verdicts can run one.
_CHECKED: Final = (
    "A review is published once it is approved: by a moderator, by a rule named here, or by a program that has checked "
    "its text."
)
_REASONS: Final = f"Reviews are rejected for these reasons: {', '.join(ReasonCode)}."
_NEVER_BY_STARS: Final = (
    "A review is never rejected because of its rating: favourable and critical ones are treated alike."
)
_EDITS_CHECKED: Final = "A published review that its author changes is checked again before it is shown."
_EDITS_PUBLISHED: Final = "A published review that its author changes stays published."
_EDITS_HELD: Final = (
    "A published review that its author changes stays published, unless a rule named here makes it wait for a "
    "moderator."
)
