"""Moderation rules in the settings of a store."""

from collections.abc import Sequence
from typing import Annotated, Final, NotRequired, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from domain.moderation_rules import (
    LONGEST_RULE_ID,
    LONGEST_WORD,
    MOST_CHARACTERS,
    MOST_PUBLISH_HOURS,
    MOST_RULES,
    MOST_WORDS,
    ModerationRule,
    RuleKind,
    RuleOutcome,
    are_too_long,
    faults,
)
from domain.moderation_rules_text import normalised
from domain.ratings import hundredths, rating_number
from messaging.schemas import HIDDEN_INPUT, AtMost, ClosedMessage, LanguageTag, NoNull, NotBlank, Rating, ShownRating


def _check_readable(word: str) -> str:
    if not normalised(word):
        raise PydanticCustomError("blank", "Must not be blank")
    return word


Word = Annotated[NoNull, Field(max_length=LONGEST_WORD), AfterValidator(_check_readable)]


class ModerationRuleFields(ClosedMessage):
    """A rule for the reviews of a store: when it fires, and the outcome."""

    id: Annotated[NoNull, Field(max_length=LONGEST_RULE_ID), NotBlank]
    kind: RuleKind
    outcome: RuleOutcome
    words: Annotated[
        Annotated[tuple[Word, ...], AtMost(MOST_WORDS)],
        Field(description="Words and phrases; letter case and variant forms of characters are ignored"),
    ] = ()
    languages: Annotated[
        Annotated[tuple[LanguageTag, ...], AtMost(100)],
        Field(description="Accepted languages: `approve` fires for these, `hold` and `flag` for all others"),
    ] = ()
    below: Annotated[Rating | None, Field(description="Fires for ratings below this")] = None
    above: Annotated[Rating | None, Field(description="Fires for ratings above this")] = None
    publish_after_hours: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_PUBLISH_HOURS,
            description="Hours after which a review that is held only for its rating is approved",
        ),
    ] = None

    @model_validator(mode="after")
    def _check_faults(self) -> "ModerationRuleFields":
        for fault in faults(self.rule()):
            raise PydanticCustomError("invalid_rule", "{fault}", {"fault": fault})
        return self

    def rule(self) -> ModerationRule:
        """The rule as a domain value."""
        return ModerationRule(
            self.id,
            self.kind,
            self.outcome,
            words=self.words,
            languages=self.languages,
            below=None if self.below is None else hundredths(self.below),
            above=None if self.above is None else hundredths(self.above),
            publish_after_hours=self.publish_after_hours,
        )


Rules = TypeVar("Rules", bound=Sequence[ModerationRuleFields])


def _check_together(rules: Rules) -> Rules:
    ids = [rule.id for rule in rules]
    if len(set(ids)) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise PydanticCustomError("duplicate_rule", "Two rules have the same `id`: {id}", {"id": twice})
    if are_too_long(rule.rule() for rule in rules):
        raise PydanticCustomError("too_long", f"All words together may have at most {MOST_CHARACTERS:,} characters")
    return rules


ModerationRules = Annotated[tuple[ModerationRuleFields, ...], AtMost(MOST_RULES), AfterValidator(_check_together)]
MODERATION_RULES: Final[TypeAdapter[list[ModerationRuleFields]]] = TypeAdapter(
    Annotated[list[ModerationRuleFields], Field(max_length=MOST_RULES), AfterValidator(_check_together)],
    config=HIDDEN_INPUT,
)


class ShownRule(TypedDict):
    """A rule as it is shown: only the fields that are set."""

    id: str
    kind: RuleKind
    outcome: RuleOutcome
    words: NotRequired[list[str]]
    languages: NotRequired[list[str]]
    below: NotRequired[ShownRating]
    above: NotRequired[ShownRating]
    publishAfterHours: NotRequired[int]


def shown_rule(rule: ModerationRule) -> ShownRule:
    """A rule by the field names of the API."""
    shown: ShownRule = {"id": rule.id, "kind": rule.kind, "outcome": rule.outcome}
    if rule.words:
        shown["words"] = list(rule.words)
    if rule.languages:
        shown["languages"] = list(rule.languages)
    if rule.below is not None:
        shown["below"] = rating_number(rule.below)
    if rule.above is not None:
        shown["above"] = rating_number(rule.above)
    if rule.publish_after_hours is not None:
        shown["publishAfterHours"] = rule.publish_after_hours
    return shown
