"""Moderation rules as the settings of a store hold them."""

from __future__ import annotations

from domain.moderation_rules import ModerationRule, RuleKind, RuleOutcome
from domain.ratings import hundredths
from storage.database import Document


def rule_from(document: Document) -> ModerationRule:
    """The rule in a document, which has the names of the interface."""
    below, above = document.get("below"), document.get("above")
    return ModerationRule(
        document["id"],
        RuleKind(document["kind"]),
        RuleOutcome(document["outcome"]),
        words=tuple(document.get("words") or ()),
        languages=tuple(document.get("languages") or ()),
        below=None if below is None else hundredths(below),
        above=None if above is None else hundredths(above),
        publish_after_hours=document.get("publishAfterHours"),
    )
