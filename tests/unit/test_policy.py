"""The policy of a store in sentences, and the statistics of decisions that it is measured by."""

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.moderation_rules import ModerationRule, RuleKind, RuleOutcome
from domain.policy import (
    MOST_COUNTED,
    Check,
    Decisions,
    Proof,
    Writers,
    decision_sentences,
    policy_of,
    rejects_low_more,
)
from domain.ratings import STARS, stars
from domain.reviews import ReviewStatus
from domain.reviews_facts import ReasonCode
from domain.stores import StoreSettings
from plaudit.tools.policy_report import ReportOptions, report_of, write_csv
from storage.policy import DecisionReport

OPEN = StoreSettings(reviews_enabled=True, anonymous_reviews_allowed=True, purchase_required=False)
APPROVED, REJECTED, NEW = ReviewStatus.APPROVED, ReviewStatus.REJECTED, ReviewStatus.NEW


@pytest.mark.parametrize(
    ("rating", "number"), [(100, 1), (149, 1), (150, 2), (249, 2), (250, 3), (349, 3), (350, 4), (450, 5), (500, 5)]
)
def test_rating_is_rounded_to_stars(rating: int, number: int) -> None:
    assert stars(rating) == number


@pytest.mark.parametrize(
    ("settings", "writers", "start"),
    [
        (StoreSettings(), Writers.NOBODY, "Reviews are not accepted"),
        (replace(OPEN, reviews_enabled=False), Writers.NOBODY, "Reviews are not accepted"),
        (replace(OPEN, purchase_required=True), Writers.CUSTOMERS, "Only customers who bought"),
        (StoreSettings(reviews_enabled=True), Writers.CUSTOMERS, "Only customers who bought"),
        (replace(OPEN, anonymous_reviews_allowed=False), Writers.REGISTERED, "Customers with an account"),
        (OPEN, Writers.EVERYBODY, "Everybody can write"),
    ],
)
def test_policy_states_who_may_write(settings: StoreSettings, writers: Writers, start: str) -> None:
    policy = policy_of(settings)
    assert policy.writers is writers
    assert next(policy.sentences()).startswith(start)
    assert policy.purchase_required is settings.purchase_required
    assert policy.purchase_proofs == ((Proof.ORDER, Proof.REVIEW_LINK) if settings.purchase_required else ())


def test_policy_mentions_purchases_only_if_reviews_are_accepted() -> None:
    assert not any("purchase is" in each.lower() for each in policy_of(StoreSettings()).sentences())
    assert any(
        "purchase is proven by an order" in each
        for each in policy_of(replace(OPEN, purchase_required=True)).sentences()
    )
    assert any("purchase is not required" in each for each in policy_of(OPEN).sentences())


def test_policy_follows_the_other_settings() -> None:
    policy = policy_of(OPEN)
    assert (policy.one_review_per_customer, policy.edits_are_checked) == (False, True)
    sentences = " ".join(policy.sentences())
    assert "one review of a product" not in sentences
    assert "changes is checked again" in sentences
    assert "spam, offensive, personal-data, off-topic, illegal, fake, duplicate, other." in sentences
    assert "never rejected because of its rating" in sentences
    other = policy_of(replace(OPEN, one_review_per_customer=True, edits_keep_status=True))
    assert (other.one_review_per_customer, other.edits_are_checked) == (True, False)
    assert "one review of a product" in " ".join(other.sentences())
    assert "changes stays published" in " ".join(other.sentences())


def test_sentences_of_a_policy() -> None:
    settings = replace(OPEN, reviews_enabled=False, one_review_per_customer=True)
    assert list(policy_of(settings).sentences()) == [
        "Reviews are not accepted at present.",
        "A review whose author is known to have bought the product from an order is marked as verified.",
        "A review is published once it is approved: by a moderator, by a rule named here, or by a program that has "
        "checked its text.",
        "Reviews are rejected for these reasons: spam, offensive, personal-data, off-topic, illegal, fake, duplicate, "
        "other.",
        "A review is never rejected because of its rating: favourable and critical ones are treated alike.",
        "A customer can write one review of a product.",
        "A published review that its author changes is checked again before it is shown.",
        "A review whose author received something in return is marked.",
    ]


def test_policy_names_the_rules_in_force() -> None:
    rules = (
        ModerationRule("a", RuleKind.LINKS, RuleOutcome.HOLD),
        ModerationRule("b", RuleKind.STARS, RuleOutcome.HOLD, below=300, publish_after_hours=48),
        ModerationRule("c", RuleKind.WORDS, RuleOutcome.FLAG, words=("cheap",)),
        ModerationRule("d", RuleKind.STARS, RuleOutcome.FLAG, below=200, publish_after_hours=1),
    )
    policy = policy_of(replace(OPEN, moderation_rules=rules))
    assert policy.checked_by == (Check.MODERATOR, Check.RULES), "rules on stars publish in the end"
    assert policy_of(replace(OPEN, moderation_rules=(rules[0], rules[2]))).checked_by == (Check.MODERATOR,)
    others = [*policy_of(OPEN).sentences()]
    assert [each for each in policy.sentences() if each not in others] == [
        "A review with a web address waits for a moderator.",
        "A review with fewer than 3 stars waits for a moderator, and is published after 48 hours at the latest unless "
        "a moderator decides on it before or something other than its stars holds it back.",
        "A review with certain words is marked for a moderator.",
        "A review with fewer than 2 stars is marked for a moderator, and is published after an hour at the latest "
        "unless a moderator decides on it before or something other than its stars holds it back.",
    ]
    approving = ModerationRule("d", RuleKind.VERIFIED, RuleOutcome.APPROVE)
    by_rule = policy_of(replace(OPEN, moderation_rules=(approving,)))
    assert by_rule.checked_by == (Check.MODERATOR, Check.RULES)
    assert "is published without a check by a moderator." in " ".join(by_rule.sentences())


@pytest.mark.parametrize(("outcome", "is_held"), [("hold", True), ("flag", False), ("approve", False)])
def test_policy_mentions_rules_that_hold_edits_back(outcome: str, *, is_held: bool) -> None:
    rules = (ModerationRule("a", RuleKind.LINKS, RuleOutcome(outcome)),)
    keeping = policy_of(replace(OPEN, edits_keep_status=True, moderation_rules=rules))
    sentences = [each for each in keeping.sentences() if "its author changes" in each]
    held = ", unless a rule named here makes it wait for a moderator" if is_held else ""
    assert sentences == [f"A published review that its author changes stays published{held}."]
    checking = policy_of(replace(OPEN, moderation_rules=rules))
    assert [each for each in checking.sentences() if "is checked again before it is shown" in each]


def a_rule(kind: str, outcome: str, **more: Any) -> ModerationRule:
    return ModerationRule(f"{kind} {outcome}", RuleKind(kind), RuleOutcome(outcome), **more)


def test_policy_admits_that_a_rule_publishes_everything_unchecked() -> None:
    always = a_rule("always", "approve")
    unchecked = policy_of(replace(OPEN, moderation_rules=(always, a_rule("verified", "approve"))))
    assert (unchecked.checks_reviews, unchecked.edits_are_checked) == (False, False)
    assert "Every review is published without a check by a moderator." in unchecked.sentences()
    assert "A published review that its author changes stays published." in unchecked.sentences()
    for outcome in ("hold", "flag"):
        checked = policy_of(replace(OPEN, moderation_rules=(always, a_rule("links", outcome))))
        assert (checked.checks_reviews, checked.edits_are_checked) == (True, True)
        kept = "Every review is published without a check by a moderator, unless a rule named here keeps it for one."
        assert kept in checked.sentences()
    assert policy_of(replace(OPEN, moderation_rules=(a_rule("always", "hold"),))).checks_reviews


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        (a_rule("verified", "hold"), "A review that is not verified waits"),
        (a_rule("verified", "approve"), "A verified review is published"),
        (a_rule("languages", "hold", languages=("en", "de")), "A review in another language than en or de waits"),
        (a_rule("languages", "approve", languages=("en",)), "A review in en is published"),
        (a_rule("stars", "flag", below=250, above=450, publish_after_hours=2), "A review with fewer than 2.5 or more"),
        (a_rule("stars", "approve", above=400), "A review with more than 4 stars is published"),
    ],
)
def test_policy_says_which_reviews_a_rule_is_about(rule: ModerationRule, start: str) -> None:
    assert [each for each in policy_of(replace(OPEN, moderation_rules=(rule,))).sentences() if each.startswith(start)]


@pytest.mark.parametrize("kind", RuleKind)
def test_policy_has_a_sentence_for_each_kind_of_rule(kind: RuleKind) -> None:
    rule = ModerationRule("a", kind, RuleOutcome.HOLD, languages=("en",), below=200)
    assert len({*policy_of(replace(OPEN, moderation_rules=(rule,))).sentences()} - {*policy_of(OPEN).sentences()}) == 1


def test_decisions_are_counted_by_status_stars_and_reason() -> None:
    decisions = Decisions()
    decisions.add(APPROVED, 5, count=3)
    decisions.add(REJECTED, 1, ReasonCode.SPAM)
    decisions.add(REJECTED, 1, ReasonCode.SPAM)
    decisions.add(REJECTED, 5)
    decisions.add(NEW, 2, ReasonCode.FAKE)
    assert [decisions.total(each) for each in (NEW, APPROVED, REJECTED)] == [1, 3, 3]
    assert decisions.submitted == 7
    assert decisions.by_reason == {ReasonCode.SPAM: 2, None: 1}
    assert decisions.rejected_share([5]) == 1 / 4
    assert decisions.rejected_share([1, 5]) == 1 / 2
    assert decisions.rejected_share([2, 3]) is None
    assert list(decision_sentences(decisions)) == [
        "With 5 stars: 3 published, 1 rejected.",
        "With 1 star: 0 published, 2 rejected.",
    ]
    decisions.add(APPROVED, 5, count=MOST_COUNTED - 6)
    assert list(decision_sentences(decisions))[2:] == ["These are the newest 200,000 reviews with a decision."]


def decisions_with(*numbers: tuple[int, int]) -> Decisions:
    """Decisions with these counts of approved and rejected reviews, by stars from 1."""
    decisions = Decisions()
    for number, (approved, rejected) in enumerate(numbers, 1):
        decisions.add(APPROVED, number, count=approved)
        decisions.add(REJECTED, number, count=rejected)
    return decisions


@pytest.mark.parametrize(
    ("numbers", "is_more"),
    [
        ([(50, 50), (50, 50), (0, 0), (95, 5), (95, 5)], True),
        ([(95, 5), (95, 5), (0, 0), (50, 50), (50, 50)], False),
        ([(9, 1), (9, 1), (0, 99), (9, 1), (9, 1)], False),
        ([(0, 1), (0, 0), (0, 0), (1, 0), (0, 0)], False),
        ([(0, 9), (0, 9), (0, 0), (0, 0), (0, 0)], False),
        ([(0, 0), (0, 0), (0, 0), (9, 9), (0, 0)], False),
        ([(9, 0), (9, 0), (0, 0), (9, 0), (9, 0)], False),
        # 20 of 100 against 10 of 100: z = 1.98; 19 against 10: z = 1.81.
        ([(80, 20), (0, 0), (0, 0), (90, 10), (0, 0)], True),
        ([(81, 19), (0, 0), (0, 0), (90, 10), (0, 0)], False),
        # 14 of 100 against 14 of 200: z = 1.965.
        ([(86, 14), (0, 0), (0, 0), (186, 14), (0, 0)], True),
        # Fisher's exact test: 2 of 2 against 0 of 2: p = 1/6; 3 of 3 against 0 of 4: 1/35; 4 of 4: 1/70.
        ([(0, 2), (0, 0), (0, 0), (2, 0), (0, 0)], False),
        ([(0, 3), (0, 0), (0, 0), (4, 0), (0, 0)], False),
        ([(0, 4), (0, 0), (0, 0), (4, 0), (0, 0)], True),
        # One of all: 1 of 1 against 0 of 38: 1/39; against 0 of 39: 1/40.
        ([(0, 1), (0, 0), (0, 0), (38, 0), (0, 0)], False),
        ([(0, 1), (0, 0), (0, 0), (39, 0), (0, 0)], True),
        # 1 approved of 3,000 against 6 of 3,000: p = 0.06; against 8: 0.02.
        ([(1, 2_999), (0, 0), (0, 0), (6, 2_994), (0, 0)], False),
        ([(1, 2_999), (0, 0), (0, 0), (8, 2_992), (0, 0)], True),
    ],
)
def test_low_stars_rejected_more_often(numbers: list[tuple[int, int]], is_more: bool) -> None:
    assert rejects_low_more(decisions_with(*numbers)) is is_more


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=5, max_size=5))
def test_at_most_one_of_two_groups_is_rejected_more_often(numbers: list[tuple[int, int]]) -> None:
    mirrored = decisions_with(*reversed(numbers))
    assert not (rejects_low_more(decisions_with(*numbers)) and rejects_low_more(mirrored))


def test_report_of_decisions() -> None:
    found = DecisionReport(decisions_with((1, 3), (0, 0), (1, 0), (0, 0), (4, 0)))
    found.decisions.add(NEW, 5)
    found.seconds.extend([10, 1, 100])
    found.damaged = 2
    report = report_of(ReportOptions("s"), found)
    assert (report["storeId"], report["since"], report["until"]) == ("s", None, None)
    assert [report[name] for name in ("submitted", "approved", "rejected", "waiting")] == [10, 6, 3, 1]
    assert [each["stars"] for each in report["byStars"]] == list(STARS)
    assert report["byStars"][0] == {
        "stars": 1, "submitted": 4, "approved": 1, "rejected": 3, "waiting": 0, "rejectedShare": 0.75,
    }  # fmt: skip
    assert [each["rejectedShare"] for each in report["byStars"][1:]] == [None, 0, None, 0]
    assert (report["byStars"][4]["waiting"], report["byStars"][4]["submitted"]) == (1, 5)
    assert report["rejectedByReason"] == {"none": 3}
    assert (report["medianSecondsToDecision"], report["damaged"]) == (10, 2)
    assert (report["rejectedShareOfLowStars"], report["rejectedShareOfHighStars"]) == (0.75, 0)
    out = io.StringIO()
    write_csv(report, out)
    rows = list(csv.reader(io.StringIO(out.getvalue())))
    assert {len(row) for row in rows} == {3}
    assert ["rejected", "1 stars", "3"] in rows
    assert ["damaged", "", "2"] in rows
    assert ["rejected", "none", "3"] in rows
    assert ["lowStarsRejectedMoreOften", "", str(report["lowStarsRejectedMoreOften"]).lower()] in rows


def test_figures_of_a_report_cover_every_status() -> None:
    found = DecisionReport()
    for status in ReviewStatus:
        found.decisions.add(status, 3)
    out = io.StringIO()
    write_csv(report_of(ReportOptions(), found), out)
    rows = csv.reader(io.StringIO(out.getvalue()))
    figures = {figure: int(value) for figure, of, value in rows if of == "3 stars" and figure != "rejectedShare"}
    assert figures.pop("submitted") == sum(figures.values()) == len(ReviewStatus)


def test_report_without_decisions() -> None:
    report = report_of(ReportOptions(), DecisionReport())
    assert (report["submitted"], report["medianSecondsToDecision"], report["rejectedShareOfLowStars"]) == (
        0,
        None,
        None,
    )
    assert report["lowStarsRejectedMoreOften"] is False
