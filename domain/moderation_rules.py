"""Moderation rules of a store: the rules that fire for a review, and their effect. They never reject."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from domain.moderation_rules_text import (
    CONTACTS,
    LINKS,
    REPETITIONS,
    Detector,
    WordLists,
    normalised,
    searched,
    text_key,
)
from domain.ratings import Hundredths
from domain.reviews import Review, ReviewIdentity, ReviewStatus
from domain.reviews_facts import BY_RULE, BY_VERDICT, REJECTED_BEFORE

MOST_RULES: Final = 50
MOST_WORDS: Final = 1_000
LONGEST_WORD: Final = 128
MOST_CHARACTERS: Final = 200_000  # per store; each takes about 200 bytes of memory
LONGEST_RULE_ID: Final = 64
MOST_PUBLISH_HOURS: Final = 336
MOST_PIECES, LONGEST_PIECE = 5, 128


class RuleKind(StrEnum):
    """The criterion of a rule."""

    WORDS = "words"
    LINKS = "links"
    CONTACT = "contact"
    REPEATED = "repeated"
    DUPLICATE = "duplicate"
    LANGUAGES = "languages"
    VERIFIED = "verified"
    STARS = "stars"
    ALWAYS = "always"


class RuleOutcome(StrEnum):
    """The effect of a rule that fires."""

    APPROVE = "approve"
    HOLD = "hold"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class ModerationRule:
    """A rule of a store. A rule of stars fires for ratings below `below` or above `above`."""

    id: str
    kind: RuleKind
    outcome: RuleOutcome
    words: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    """The welcome languages, as BCP 47 tags."""
    below: Hundredths | None = None
    above: Hundredths | None = None
    publish_after_hours: int | None = None
    """Hours after which a review that only rules of stars hold or flag is approved."""

    @property
    def subject(self) -> str:
        """The name under which the rule moderates."""
        return f"{BY_RULE}{self.id}"


class RuleInput(NamedTuple):
    """The part of a review that rules check."""

    texts: tuple[str | None, ...]
    """All that its author writes for others to read."""
    rating: Hundredths
    language: str | None = None
    is_verified: bool = False
    is_duplicate: bool = False
    """True if another review by the same author, or of the same object, in its store has the same text."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The result of moderation rules for a review."""

    fired: tuple[ModerationRule, ...] = ()
    """The rules that fired, in their order."""
    verdicts: tuple[str, ...] = ()
    """The flags of classifiers that object to exactly this text."""
    was_rejected: bool = False
    """True if it was rejected before its author edited it: only a moderator can approve it."""

    @property
    def objections(self) -> tuple[ModerationRule, ...]:
        """The rules that hold or flag the review."""
        return tuple([rule for rule in self.fired if rule.outcome is not RuleOutcome.APPROVE])

    @property
    def flags(self) -> tuple[str, ...]:
        """The ids of the objecting rules, the flags of classifiers, and REJECTED_BEFORE if it was rejected."""
        before = (REJECTED_BEFORE,) if self.was_rejected else ()
        return (*(rule.id for rule in self.objections), *self.verdicts, *before)

    @property
    def is_held(self) -> bool:
        """True if a moderator has to see the review."""
        return self.was_rejected or any(rule.outcome is RuleOutcome.HOLD for rule in self.fired)

    @property
    def approval(self) -> ModerationRule | None:
        """The rule that approves the review; None if it waits for a moderator."""
        is_free = not self.objections and not self.verdicts and not self.was_rejected
        return self.fired[0] if self.fired and is_free else None

    @property
    def outcome(self) -> RuleOutcome | None:
        """The winning outcome: a hold over a flag over an approval; None if no rule fired."""
        outcomes = [rule.outcome for rule in self.fired]
        return next(
            (each for each in (RuleOutcome.HOLD, RuleOutcome.FLAG, RuleOutcome.APPROVE) if each in outcomes), None
        )

    @property
    def status(self) -> ReviewStatus:
        """The status that a new review takes."""
        return ReviewStatus.APPROVED if self.approval else ReviewStatus.NEW

    @property
    def planned_approval(self) -> tuple[timedelta, ModerationRule] | None:
        """The time after which it is approved, and the rule that sets it; None unless rules of stars alone object."""
        rules = self.objections
        if not rules or self.verdicts or self.was_rejected or not all(rule.publish_after_hours for rule in rules):
            return None
        last = max(rules, key=lambda rule: rule.publish_after_hours or 0)
        return timedelta(hours=last.publish_after_hours or 0), last


NO_RULING: Final = Ruling()


_DETECTORS: Final[Mapping[RuleKind, Detector]] = {
    RuleKind.LINKS: LINKS,
    RuleKind.CONTACT: CONTACTS,
    RuleKind.REPEATED: REPETITIONS,
}
_MOST_FOUND: Final = 100


class RuleSet:
    """The rules of a store, compiled to be applied to many reviews."""

    def __init__(self, rules: Sequence[ModerationRule]) -> None:
        kinds = {rule.kind for rule in rules}
        self.looks_for_duplicates = RuleKind.DUPLICATE in kinds
        self.looks_at_languages = RuleKind.LANGUAGES in kinds
        self._words = WordLists({rule.id: rule.words for rule in rules if rule.kind is RuleKind.WORDS})
        self._detectors = {kind: detector for kind, detector in _DETECTORS.items() if kind in kinds}
        self._reads_text = bool(self._detectors) or RuleKind.WORDS in kinds
        self._checks = [(rule, _check(rule)) for rule in rules]

    def judge(self, review: RuleInput) -> Ruling:
        """The rules that fire for a review."""
        text = searched(review.texts) if self._reads_text else ""
        found = {kind for kind, detector in self._detectors.items() if detector.finds(text)}
        lists = self._words.found_in(text)
        fired = tuple([rule for rule, fires in self._checks if fires(review, found, lists)])
        return Ruling(fired) if fired else NO_RULING

    def evidence(self, review: RuleInput) -> dict[str, tuple[str, ...]]:
        """The rules that fire for a review, by id, each with the pieces of the normalised text that trigger it."""
        text = searched(review.texts)
        words = self._words.words_in(text)

        def pieces(rule: ModerationRule) -> Iterable[str]:
            detector = _DETECTORS.get(rule.kind)
            return islice(detector.pieces(text), _MOST_FOUND) if detector else words.get(rule.id, ())

        return {
            rule.id: tuple(islice(dict.fromkeys(piece[:LONGEST_PIECE] for piece in pieces(rule)), MOST_PIECES))
            for rule in self.judge(review).fired
        }


_Check = Callable[[RuleInput, Collection[RuleKind], Collection[str]], bool]
"""Returns True if a rule fires, for a review, the kinds of detectors that matched, and the word lists that matched."""


def _check(rule: ModerationRule) -> _Check:
    is_approval = rule.outcome is RuleOutcome.APPROVE
    match rule.kind:
        case RuleKind.WORDS:
            return lambda review, found, lists: rule.id in lists
        case RuleKind.DUPLICATE:
            return lambda review, found, lists: review.is_duplicate
        case RuleKind.LANGUAGES:
            tags = frozenset(map(_tag, rule.languages))
            return lambda review, found, lists: (
                bool(review.language) and _is_welcome(tags, review.language or "") is is_approval
            )
        case RuleKind.VERIFIED:
            return lambda review, found, lists: review.is_verified is is_approval
        case RuleKind.STARS:
            below = rule.below or 0
            above = math.inf if rule.above is None else rule.above
            return lambda review, found, lists: not below <= review.rating <= above
        case RuleKind.ALWAYS:
            return lambda review, found, lists: True
        case RuleKind.LINKS | RuleKind.CONTACT | RuleKind.REPEATED:
            return lambda review, found, lists: rule.kind in found


def _is_welcome(tags: Collection[str], language: str) -> bool:
    """True if a language, or a less specific tag of it, is among these: the lookup of RFC 4647, 3.4."""
    tag = _tag(language)
    while tag and tag not in tags:
        tag = tag.rpartition("-")[0]
    return bool(tag)


def language_of_stranger(named: str | None, detected: str | None) -> str | None:
    """The language by which rules judge a review from a public page. Nobody vouches for the language that its author
    names, so it counts only as a variant of the detected one."""
    return named if named and detected and _is_welcome((_tag(detected),), named) else detected


def _tag(language: str) -> str:
    return language.lower().replace("_", "-")


def text_keys(identity: ReviewIdentity, text: str) -> tuple[str, ...]:
    """The keys of a review's text: one for the author, if there is one, and one for the object."""
    text = normalised(text)
    of_object = text_key((identity.store_id, "object", *identity.entity), text)
    if identity.user_id is None:
        return (of_object,)
    return (text_key((identity.store_id, "author", identity.user_id), text), of_object)


def is_duplicate(review_id: str, keys: Iterable[str], holders: Mapping[str, str]) -> bool:
    """True if another review was the first with one of these text keys."""
    return any(holders.get(key, review_id) != review_id for key in keys)


def rule_input(review: Review, *, is_duplicate: bool = False) -> RuleInput:
    """The part of a review that rules check."""
    facts = review.facts
    texts = (review.title, review.text, review.user_name)
    return RuleInput(texts, review.rating, facts.language, facts.verified_purchase, is_duplicate)


def trial_rulings(rules: RuleSet, reviews: Iterable[Review]) -> Iterator[tuple[Review, Ruling]]:
    """The rulings about reviews as if submitted in this order; only duplicates among them are found."""
    holders: dict[str, str] = {}
    for review in reviews:
        keys = text_keys(review.identity, review.text) if rules.looks_for_duplicates else ()
        for key in keys:
            holders.setdefault(key, review.id)
        yield review, rules.judge(rule_input(review, is_duplicate=is_duplicate(review.id, keys, holders)))


def are_too_long(rules: Iterable[ModerationRule]) -> bool:
    """True if the words of all rules together have more than MOST_CHARACTERS."""
    return sum(len(word) for rule in rules for word in rule.words) > MOST_CHARACTERS


def faults(rule: ModerationRule) -> Iterable[str]:
    """One sentence for each fault of a rule; none for a valid rule."""
    if rule.id.startswith(BY_VERDICT):
        yield f"`id` must not begin with {BY_VERDICT}, as the flags of classifiers do"
    if rule.id == REJECTED_BEFORE:
        yield f"`id` must not be {REJECTED_BEFORE}, which is a reserved flag"
    if (rule.kind is RuleKind.WORDS) != bool(rule.words):
        yield "`words` is required for the kind words, and only allowed for it"
    if (rule.kind is RuleKind.LANGUAGES) != bool(rule.languages):
        yield "`languages` is required for the kind languages, and only allowed for it"
    if (rule.kind is RuleKind.STARS) != (rule.below is not None or rule.above is not None):
        yield "`below` or `above` is required for the kind stars, and only allowed for it"
    # A flagged new review waits just like a held one, and few stars are no reason to wait forever.
    waits_by_stars = rule.kind is RuleKind.STARS and rule.outcome is not RuleOutcome.APPROVE
    if waits_by_stars != (rule.publish_after_hours is not None):
        yield (
            f"`publishAfterHours` (1 to {MOST_PUBLISH_HOURS}) is required for a hold or flag by stars, and "
            "only allowed for it"
        )
