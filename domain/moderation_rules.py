"""Moderation rules of a store: which rules fire for a review, and what follows from them. They never reject."""

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
MOST_CHARACTERS: Final = 200_000  # of a store; some 200 bytes of memory each
LONGEST_RULE_ID: Final = 64
MOST_PUBLISH_HOURS: Final = 336
MOST_PIECES, LONGEST_PIECE = 5, 128


class RuleKind(StrEnum):
    """The thing that a rule looks for."""

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
    """The wish of a rule that fires."""

    APPROVE = "approve"
    HOLD = "hold"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class ModerationRule:
    """A rule of a store.

    `words` are those of a rule of words, `languages` the welcome ones, as BCP 47 tags. A rule of stars fires below or
    above so many hundredths. `publish_after_hours`: a review that rules of stars alone hold is approved after that.
    """

    id: str
    kind: RuleKind
    outcome: RuleOutcome
    words: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    below: Hundredths | None = None
    above: Hundredths | None = None
    publish_after_hours: int | None = None

    @property
    def subject(self) -> str:
        """The name under which it moderates."""
        return f"{BY_RULE}{self.id}"


class JudgedReview(NamedTuple):
    """The part of a review that rules look at.

    `is_duplicate`: another review of the same author, or of the same object, in its store has the same text.
    """

    title: str | None
    text: str
    rating: Hundredths
    language: str | None = None
    is_verified: bool = False
    is_duplicate: bool = False
    user_name: str | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """The rules that fired for a review, in their order, and the flags of classifiers that object to its very text.
    What was rejected before they made it another one is a moderator's to approve."""

    fired: tuple[ModerationRule, ...] = ()
    verdicts: tuple[str, ...] = ()
    was_rejected: bool = False

    @property
    def objections(self) -> tuple[ModerationRule, ...]:
        """The rules that hold it back or flag it."""
        return tuple([rule for rule in self.fired if rule.outcome is not RuleOutcome.APPROVE])

    @property
    def flags(self) -> tuple[str, ...]:
        """The ids of those rules, the flags of classifiers, and that it was rejected."""
        before = (REJECTED_BEFORE,) if self.was_rejected else ()
        return (*(rule.id for rule in self.objections), *self.verdicts, *before)

    @property
    def is_held(self) -> bool:
        """True if a moderator has to see it."""
        return self.was_rejected or any(rule.outcome is RuleOutcome.HOLD for rule in self.fired)

    @property
    def approval(self) -> ModerationRule | None:
        """The rule that approves it; None where it waits for a moderator."""
        is_free = not self.objections and not self.verdicts and not self.was_rejected
        return self.fired[0] if self.fired and is_free else None

    @property
    def outcome(self) -> RuleOutcome | None:
        """The outcome that wins: any hold over any flag over any approval; None where no rule fired."""
        outcomes = [rule.outcome for rule in self.fired]
        return next(
            (each for each in (RuleOutcome.HOLD, RuleOutcome.FLAG, RuleOutcome.APPROVE) if each in outcomes), None
        )

    @property
    def status(self) -> ReviewStatus:
        """The status that it takes."""
        return ReviewStatus.APPROVED if self.approval else ReviewStatus.NEW

    @property
    def publication(self) -> tuple[timedelta, ModerationRule] | None:
        """The time after which it is approved, and the rule that says so: where rules of stars alone object."""
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
    """The rules of a store, ready to be applied to many reviews."""

    def __init__(self, rules: Sequence[ModerationRule]) -> None:
        kinds = {rule.kind for rule in rules}
        self.looks_for_duplicates = RuleKind.DUPLICATE in kinds
        self.looks_at_languages = RuleKind.LANGUAGES in kinds
        self._words = WordLists({rule.id: rule.words for rule in rules if rule.kind is RuleKind.WORDS})
        self._detectors = {kind: detector for kind, detector in _DETECTORS.items() if kind in kinds}
        self._reads_text = bool(self._detectors) or RuleKind.WORDS in kinds
        self._checks = [(rule, _check(rule)) for rule in rules]

    def judge(self, review: JudgedReview) -> Ruling:
        """The rules that fire for a review."""
        text = searched(review.title, review.text, review.user_name) if self._reads_text else ""
        found = {kind for kind, detector in self._detectors.items() if detector.finds(text)}
        lists = self._words.found_in(text)
        fired = tuple([rule for rule, fires in self._checks if fires(review, found, lists)])
        return Ruling(fired) if fired else NO_RULING

    def evidence(self, review: JudgedReview) -> dict[str, tuple[str, ...]]:
        """The rules that fire for a review, by id, each with the pieces of the normalised text for which it does."""
        text = searched(review.title, review.text, review.user_name)
        words = self._words.words_in(text)

        def pieces(rule: ModerationRule) -> Iterable[str]:
            detector = _DETECTORS.get(rule.kind)
            return islice(detector.pieces(text), _MOST_FOUND) if detector else words.get(rule.id, ())

        return {
            rule.id: tuple(islice(dict.fromkeys(piece[:LONGEST_PIECE] for piece in pieces(rule)), MOST_PIECES))
            for rule in self.judge(review).fired
        }


_Check = Callable[[JudgedReview, Collection[RuleKind], Collection[str]], bool]
"""True if a rule fires: for a review, the kinds of detectors that found something, and the lists with a word of it."""


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
            below, above = rule.below or 0, math.inf if rule.above is None else rule.above
            return lambda review, found, lists: not below <= review.rating <= above
        case RuleKind.ALWAYS:
            return lambda review, found, lists: True
        case _:
            return lambda review, found, lists: rule.kind in found


def _is_welcome(tags: Collection[str], language: str) -> bool:
    """True if a language, or one that it is a form of, is among these: the lookup of RFC 4647, 3.4."""
    tag = _tag(language)
    while tag and tag not in tags:
        tag = tag.rpartition("-")[0]
    return bool(tag)


def language_of_stranger(named: str | None, detected: str | None) -> str | None:
    """The language by which a review is judged that comes from a page: nobody vouches for the one that its author
    names, so it counts only as a form of the one that is detected."""
    return named if named and detected and _is_welcome((_tag(detected),), named) else detected


def _tag(language: str) -> str:
    return language.lower().replace("_", "-")


def text_keys(identity: ReviewIdentity, text: str) -> tuple[str, ...]:
    """The keys of a review's text: one as its author's, if it has one, and one as that of a review of its object."""
    text = normalised(text)
    of_object = text_key((identity.store_id, "object", *identity.entity), text)
    if identity.user_id is None:
        return (of_object,)
    return (text_key((identity.store_id, "author", identity.user_id), text), of_object)


def is_duplicate(review_id: str, keys: Iterable[str], holders: Mapping[str, str]) -> bool:
    """True if another review was the first with one of these keys of a text."""
    return any(holders.get(key, review_id) != review_id for key in keys)


def judged(review: Review, *, is_duplicate: bool = False) -> JudgedReview:
    """The part of a review that rules look at."""
    facts = review.facts
    about = (review.title, review.text, review.rating, facts.language, facts.verified_purchase)
    return JudgedReview(*about, is_duplicate, review.user_name)


def tried(rules: RuleSet, reviews: Iterable[Review]) -> Iterator[tuple[Review, Ruling]]:
    """The rulings about reviews as if they came in this order; duplicates are looked for among them alone."""
    holders: dict[str, str] = {}
    for review in reviews:
        keys = text_keys(review.identity, review.text) if rules.looks_for_duplicates else ()
        for key in keys:
            holders.setdefault(key, review.id)
        yield review, rules.judge(judged(review, is_duplicate=is_duplicate(review.id, keys, holders)))


def are_too_long(rules: Iterable[ModerationRule]) -> bool:
    """True if words have more than MOST_CHARACTERS together."""
    return sum(len(word) for rule in rules for word in rule.words) > MOST_CHARACTERS


def faults(rule: ModerationRule) -> Iterable[str]:
    """The sentences about what is wrong with a rule; none for a good one."""
    if rule.id.startswith(BY_VERDICT):
        yield f"`id` must not begin with {BY_VERDICT}, as the flags of classifiers do"
    if rule.id == REJECTED_BEFORE:
        yield f"`id` must not be {REJECTED_BEFORE}, which is a flag of its own"
    if (rule.kind is RuleKind.WORDS) != bool(rule.words):
        yield "`words` belongs to the kind words, which needs it"
    if (rule.kind is RuleKind.LANGUAGES) != bool(rule.languages):
        yield "`languages` belongs to the kind languages, which needs it"
    if (rule.kind is RuleKind.STARS) != (rule.below is not None or rule.above is not None):
        yield "`below` and `above` belong to the kind stars, which needs one of them"
    # A flag keeps a new review waiting as a hold does, and few stars are no reason to wait for ever.
    waits_by_stars = rule.kind is RuleKind.STARS and rule.outcome is not RuleOutcome.APPROVE
    if waits_by_stars != (rule.publish_after_hours is not None):
        yield f"`publishAfterHours` (1 to {MOST_PUBLISH_HOURS}) belongs to a hold or flag by stars, which needs it"
