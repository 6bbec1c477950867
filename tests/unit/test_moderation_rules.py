"""Moderation rules: which fire for a review, and with which effect."""

import itertools
import resource
import tracemalloc
import unicodedata
from datetime import UTC, datetime, timedelta
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis.strategies import integers, lists, sampled_from, text, tuples
from pydantic import ValidationError

from domain.moderation_rules import (
    MOST_CHARACTERS,
    NO_RULING,
    ModerationRule,
    RuleInput,
    RuleKind,
    RuleOutcome,
    RuleSet,
    Ruling,
    are_too_long,
    faults,
    is_duplicate,
    language_of_stranger,
    rule_input,
    text_keys,
    trial_rulings,
)
from domain.moderation_rules_compiled import RuleSets, rule_set
from domain.moderation_rules_text import (
    CONTACTS,
    LINKS,
    REPETITIONS,
    Detector,
    WordLists,
    normalised,
    searched,
    text_hash,
    text_key,
)
from domain.ratings import Entity
from domain.reviews import Review, ReviewIdentity, ReviewStatus
from domain.reviews_facts import Facts
from messaging.moderation_rules import MODERATION_RULES, shown_rule
from storage.moderation_rules import rule_from

APPROVE, HOLD, FLAG = RuleOutcome.APPROVE, RuleOutcome.HOLD, RuleOutcome.FLAG


def wide(plain: str) -> str:
    """The same text in full-width characters."""
    return "".join(each if each == " " else chr(ord(each) + 0xFEE0) for each in plain)


def rule(id: str, kind: RuleKind, outcome: RuleOutcome = FLAG, **fields: Any) -> ModerationRule:
    return ModerationRule(id, kind, outcome, **fields)


def fired(one: ModerationRule, *texts: str, **facts: Any) -> bool:
    ruling = RuleSet((one,)).judge(RuleInput(texts, **{"rating": 400, **facts}))
    assert ruling.fired in ((), (one,))
    return bool(ruling.fired)


@pytest.mark.parametrize(
    ("word", "content", "is_found"),
    [
        ("spam", "This is SPAM!", True),
        ("spam", "spam", True),
        ("spam", "spammer", False),
        ("spam", "antispam", False),
        ("spam", "spam2", False),
        ("spam", "anti-spam", True),
        ("spam", "_spam_", True),
        ("Straße", "in der STRASSE", True),
        (wide("spam"), "spam", True),
        ("spam", wide("spam"), True),
        ("cafe\u0301", "im Café", True),
        ("cafe", "cafe\u0301s", False),
        ("spam", "sp\u200bam", True),
        ("spam", "sp\u00adam", True),
        *(("spam", f"sp{each}am", True) for each in "\u034f\u061c\u180e\u202e\u2066\u206f\u3164\U000e0061\U000e0100"),
        ("spam", "sp\u0008am", True),
        ("spam", "sp\u009fäm", False),
        ("spam", "é sp\u009fam", True),
        ("iyi", "\u0130Y\u0130!", True),
        ("\u0130y\u0130", "iyi", True),
        ("s\u0131k", "sik", False),
        ("buy now", "Buy\n  NOW, please", True),
        ("buy now", "buy nowhere", False),
        ("buy now", "buy-now", False),
        ("c++", "I write c++.", True),
        ("c++", "c++x", True),
        ("#ad", "bad#ad", True),
        ("f*ck", "what the F*CK", True),
        ("广告", "这是广告吗", True),
        ("スパム", "これはスパムです", True),
        ("spam", "これはspamです", True),
        ("สแปม", "นี่คือสแปมครับ", True),
        ("스팸", "스팸메일", False),
        ("नमक", "नमकीन", False),
        ("हिन्द", "हिन्दी", False),
    ],
)
def test_words(word: str, content: str, is_found: bool) -> None:
    words = rule("w", RuleKind.WORDS, words=("other", word))
    assert fired(words, content) is is_found
    assert fired(words, "Nothing", content) is is_found


def test_phrase_does_not_span_texts() -> None:
    buy_now = rule("w", RuleKind.WORDS, words=("buy now",))
    assert not fired(buy_now, "buy", "now")


def test_several_lists_at_once() -> None:
    lists = WordLists({"a": ("x", "X", "y z"), "b": ("x",), "c": ("\u200b",), "d": ()})
    assert lists.found_in("x") == {"a", "b"}
    assert lists.found_in("y z") == {"a"}
    assert lists.found_in("z y") == set()
    assert lists.found_in("x y z") == {"a", "b"}
    assert WordLists({}).found_in("x") == set()
    phrases = WordLists({"a": ("buy now",), "b": ("now or never",)})
    assert phrases.found_in("buy now or never") == {"a", "b"}


@pytest.mark.parametrize("letter", ["a", "a ", "中", "é"])
def test_nested_words_need_no_memory_for_each_position(letter: str) -> None:
    lists = WordLists({"nested": [letter * count for count in range(1, 129 // len(letter))], "other": ["other"]})
    content = normalised(letter * 20_000)
    tracemalloc.start()
    try:
        found = lists.found_in(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == (set() if letter in "aé" else {"nested"})
    assert peak < 16 * 1024 * 1024


def test_marks_of_a_character_are_limited() -> None:
    heavy = "e" + "\u0316" * 20 + "\u0301" * 10_000
    assert normalised(f"{heavy} {heavy[:25]} je\u0301") == f"{normalised(heavy[:31])} {normalised(heavy[:25])} jé"


@given(text(max_size=60))
def test_normalising_is_idempotent(content: str) -> None:
    assert normalised(normalised(content)) == normalised(content)


@given(text(alphabet=[chr(code) for code in range(128)], max_size=60))
def test_fast_path_for_ascii_gives_the_same_result(content: str) -> None:
    # A letter beyond ASCII, which stays unchanged, forces the slow path for the whole text.
    assert normalised(f"{content} é") == f"{normalised(content)} é".strip()


def test_match_ends_at_the_end_of_the_title() -> None:
    content = searched((" ", "www.spam.com", "Anna"))
    assert content.startswith("\0")
    assert {*LINKS.pieces(content)} == {"www.spam.com"}, "matched by two patterns"


@given(text(alphabet="aé ß\u0301\uff58好", max_size=30))
def test_unicode_form_makes_no_difference(content: str) -> None:
    assert normalised(unicodedata.normalize("NFD", content)) == normalised(content)
    assert normalised(content.upper()) == normalised(content)


@pytest.mark.parametrize(
    ("content", "is_found"),
    [
        ("see https://example.org", True),
        ("ftp://example", True),
        ("://", False),
        ("www.example", True),
        ("awww.cute", False),
        ("buy at Example.COM", True),
        ("example.com.", True),
        ("example.com/x", True),
        ("example.community", False),
        ("example.com-pany", False),
        ("bit.ly/2abc", True),
        ("bücher.de", True),
        ("shop.xn--p1ai", True),
        ("example。com", True),
        ("It works well.It is good.", False),
        ("buy at shop.dk", True),
        ("магазин.рф", True),
        ("Bueno.Es muy bueno.", False),
        ("Good... de facto", False),
        ("3.5/5", False),
        ("and/or", False),
        ("Sharp pictures. Great!", False),
    ],
)
def test_links(content: str, is_found: bool) -> None:
    assert fired(rule("l", RuleKind.LINKS), content) is is_found


@pytest.mark.parametrize(
    ("content", "is_found"),
    [
        ("write to anna@example.org", True),
        ("anna.b+x@mail.example.co.uk!", True),
        ("anna (at) example (dot) org", True),
        ("anna[at]example.org", True),
        ("anna [ at ] example [ dot ] org", True),
        ("at 5 @ home", False),
        ("@anna", False),
        ("look (at) me", False),
        ("call +49 170 1234567", True),
        ("call +491701234567", True),
        ("WhatsApp+491701234567", True),
        ("Tel.0170/1234567", True),
        ("fax.+49 170 1234567", True),
        ("0170/1234567", True),
        ("(555) 123-4567", True),
        ("555-123-4567", True),
        ("555-1234", True),
        (wide("202 555 0143"), True),
        ("1234567890", True),
        ("123456789012", True),
        ("123456789", False),
        ("1.1234567890", False),
        ("5+1234567890", False),
        ("a1234567890", False),
        ("1234567890123", False),
        ("on 2024-01-15", False),
        ("on 15.01.2024 12", False),
        ("costs 1,234,567.89", False),
        ("1 2 3 4 5 6 7 8", False),
        ("model 12-34", False),
        ("5 stars of 5", False),
    ],
)
def test_contact(content: str, is_found: bool) -> None:
    assert fired(rule("c", RuleKind.CONTACT), content) is is_found


@pytest.mark.parametrize(
    ("content", "is_found"),
    [
        ("sooooo good", True),
        ("soooo good", False),
        ("SoOoOo good", True),
        ("aaaaa", True),
        ("zzzzz", True),
        ("ёёёёё", True),
        ("ёёёё", False),
        ("好好好好好", True),
        ("!" * 10, True),
        ("!" * 9, False),
        ("…" * 4, True),
        ("…" * 3, False),
        ("100000000000000", False),
        ("good good good good", True),
        ("good good good", False),
        ("good, Good! GOOD... good?", True),
        ("good goods good good good", False),
        ("a b a b a b a b", False),
    ],
)
def test_repetition(content: str, is_found: bool) -> None:
    assert fired(rule("r", RuleKind.REPEATED), content) is is_found


@pytest.mark.parametrize("number", range(12))
def test_fourfold_word_is_found_at_any_position(number: int) -> None:
    before = [f"word{n}" for n in range(number)]
    assert REPETITIONS.finds(" ".join([*before, *["good"] * 4, "after"]))
    assert not REPETITIONS.finds(" ".join([*before, *["good"] * 3, "after"]))


@pytest.mark.parametrize(
    ("kind", "content", "pieces"),
    [
        (RuleKind.LINKS, "See (Shop.Example.COM), or www.x.example and https://y.org/?a now.",
         ("https://y.org/?a", "www.x.example", "(shop.example.com),")),
        (RuleKind.CONTACT, "Anna@example.org or anna (at) example (dot) org, +49 170 1234567!",
         ("anna@example.org", "(at) example (dot) org,", "+49 170 1234567")),
        (RuleKind.REPEATED, "Sooooo good good Good good", ("ooooo", "good good good good")),
        (RuleKind.REPEATED, "好好好好好 ……………", ("." * 10, "好好好好好")),
        (RuleKind.REPEATED, "Schön, schön schön schön", ("schön schön schön schön",)),
        (RuleKind.WORDS, "A SCAM, a scam: buy now", ("scam", "buy now")),
        (RuleKind.ALWAYS, "Sharp.", ()),
        (RuleKind.LINKS, " ".join(f"a{n}.com" for n in range(9)), ("a0.com", "a1.com", "a2.com", "a3.com", "a4.com")),
        (RuleKind.LINKS, "a.com/" * 1_000, (("a.com/" * 1_000)[:128],)),
    ],
)  # fmt: skip
def test_evidence_of_a_rule(kind: RuleKind, content: str, pieces: tuple[str, ...]) -> None:
    words = ("buy now", "Scam", "scam", "cam") if kind is RuleKind.WORDS else ()
    rules = RuleSet((rule("r", kind, words=words), rule("silent", RuleKind.VERIFIED, APPROVE)))
    assert rules.evidence(RuleInput(("a title", content), 400)) == {"r": pieces}


@pytest.mark.parametrize("word", ["good", "schön"])
def test_repeated_words_are_counted_in_each_field_alone(word: str) -> None:
    rules, words = RuleSet((rule("r", RuleKind.REPEATED),)), [" ".join([word] * count) for count in range(5)]
    apart = RuleInput((f"{words[3]}!", words[3], words[3]), 400)
    assert rules.evidence(apart) == {}
    for index, _ in enumerate(apart.texts):
        texts = (*apart.texts[:index], words[4], *apart.texts[index + 1 :])
        assert rules.evidence(apart._replace(texts=texts)) == {"r": (words[4],)}


@pytest.mark.parametrize(
    "review",
    [
        RuleInput(("See shop.com", "Sharp.", "Ann"), 400),
        RuleInput(("A title", "See shop.com", "Ann"), 400),
        RuleInput(("A title", "Sharp.", "See shop.com"), 400),
    ],
    ids=["title", "text", "name"],
)
def test_evidence_is_searched_in_all_that_an_author_writes(review: RuleInput) -> None:
    assert RuleSet((rule("r", RuleKind.LINKS),)).evidence(review) == {"r": ("shop.com",)}


def test_only_the_first_hundred_matches_are_evidence() -> None:
    rules = RuleSet((rule("r", RuleKind.LINKS),))
    texts = [" ".join(["a.com"] * count + ["b.com"]) for count in (99, 100)]
    found = [rules.evidence(RuleInput((each,), 400))["r"] for each in texts]
    assert found == [("a.com", "b.com"), ("a.com",)]


PIECES = (
    *("a", "no ", "no, ", "so ", "aaaa", "b", "!", "..........", "好好好好", "好", " ", "\0", "\n", "ü", "é é é "),
    *("://", "http://a", "www.", "x", ".com", ".de ", "\u3002", "@", "a@b.c", "a (at) b.com", "at] ", "at )", "dot)"),
    *("+49 170 ", "1234567", "(0170) ", "12/12/2020", "99 ", "\u0661\u0662\u0663\u0664\u0665\u0666\u0667"),
)


@pytest.mark.parametrize("detector", [LINKS, CONTACTS, REPETITIONS], ids=["links", "contacts", "repetitions"])
@given(lists(sampled_from(PIECES), max_size=12))
def test_detector_finds_a_match_exactly_where_there_are_pieces(detector: Detector, pieces: list[str]) -> None:
    content = searched(("".join(pieces), "no no"))
    assert detector.finds(content) is bool(list(detector.pieces(content)))


@example("", "a@a@a@a")
@given(text(alphabet="a.b@/ 0123好 !w", max_size=40), text(alphabet="a.@ w", max_size=9))
def test_fired_text_rules_have_evidence(content: str, name: str) -> None:
    kinds = (RuleKind.LINKS, RuleKind.CONTACT, RuleKind.REPEATED)
    rules = RuleSet((*(rule(kind, kind) for kind in kinds), rule("w", RuleKind.WORDS, words=("a", "b a"))))
    review = RuleInput((content, name), 400)
    found = rules.evidence(review)
    assert [*found] == [each.id for each in rules.judge(review).fired]
    whole = searched((content, name))
    # Repeated words are joined by blanks in the evidence, whatever separates them in the text.
    assert all(any(all(word in whole for word in piece.split()) for piece in pieces) for pieces in found.values())


@pytest.mark.parametrize("more", [0, 1])
def test_words_of_all_rules_together_are_limited(more: int) -> None:
    half = "w" * (MOST_CHARACTERS // 2)
    rules = [rule(str(n), RuleKind.WORDS, words=(half, "w" * (n * more))) for n in range(2)]
    assert are_too_long(rules) is bool(more)


def test_words_of_a_store_take_little_memory() -> None:
    """Even with ever different letters; the total number of characters of a store is limited."""
    signs = itertools.cycle(map(chr, range(0x4E00, 0x9FFF)))
    words = ["".join(itertools.islice(signs, 124)) for _ in range(MOST_CHARACTERS // 124)]
    rules = [{"id": str(n), "kind": "words", "outcome": "hold", "words": words[n::40]} for n in range(40)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    compiled = RuleSet([fields.rule() for fields in MODERATION_RULES.validate_python(rules, strict=False)])
    assert compiled.judge(RuleInput((f"say {words[0]}!",), 400)).flags == ("0",)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024  # KiB; usual structures: 300 MiB
    rules[0]["words"] = [*words[::40], "y" * 128, "z" * 128]
    with pytest.raises(ValidationError, match="All words together may have at most 200,000 characters"):
        MODERATION_RULES.validate_python(rules, strict=False)


def test_ligature_of_a_formula_is_not_expanded() -> None:
    assert normalised("\ufdfa" * 20_000) == "\ufdfa" * 20_000
    assert normalised("\u00c9 \ufdfa SPAM") == "\u00e9 \ufdfa spam"
    phrase = rule("w", RuleKind.WORDS, words=("محمد \ufdfa",))
    assert fired(phrase, "قال محمد \ufdfa هذا")
    assert not fired(phrase, "قال محمد هذا")
    longest = max(len(unicodedata.normalize("NFKC", chr(code))) for code in range(0x110000) if chr(code) != "\ufdfa")
    assert longest == 8


@pytest.mark.parametrize("mark", ["\u0301", "\u0338"])
def test_thirty_marks_count_at_any_position(mark: str) -> None:
    words = "spam " * 20
    for before in ("", "e", words + "e"):
        text = normalised(before + mark * 100 + "x")
        # A letter composed with its first mark keeps one separate mark fewer.
        marked = unicodedata.normalize("NFD", text)
        assert marked.count(mark) == 30
        assert marked.startswith(words if before else mark) or before == "e"


@pytest.mark.parametrize("count", [29, 30, 31, 32, 45, 59, 60, 61])
def test_word_with_many_marks_is_normalised_alike_at_any_position(count: int) -> None:
    word = "q" + "\u0301" * count
    shown = "q" + "\u0301" * min(count, 30)
    assert {normalised("x" * start + word + end) for start in range(70) for end in ("", "y")} == {
        "x" * start + shown + end for start in range(70) for end in ("", "y")
    }
    assert normalised("\u0301" * count) == "\u0301" * min(count, 30)


def test_rules_know_whether_they_need_languages() -> None:
    assert RuleSet((rule("l", RuleKind.LANGUAGES, languages=("en",)),)).looks_at_languages is True
    assert RuleSet((rule("l", RuleKind.LINKS),)).looks_at_languages is False


@pytest.mark.parametrize("marks", ["\u0301", "\u0301\u0327", "\u0301\uff9e", "\u0f73\u0301", "\u0301\u034f\u0327"])
def test_only_a_few_of_many_marks_at_a_letter_count(marks: str) -> None:
    # Sorting all of them into canonical order would take seconds.
    assert 1 < len(normalised("e" + marks * 5_000 + "x")) < 100
    assert normalised("e" + marks * 5) == normalised(unicodedata.normalize("NFD", "e" + marks * 5))
    assert normalised("e" + marks * 5_000 + " Spam").endswith(" spam")


@pytest.mark.parametrize(
    "bit", ["a.", "a@", "1 ", "a-", "a!", "w.", "1-", "a(at)", "(at", "a ", "好", "+ ", "@a.", "at) a(at"]
)
def test_hostile_texts_are_searched_in_linear_time(bit: str) -> None:
    content = bit * (20_000 // len(bit))
    began = process_time()
    for detector in (LINKS, CONTACTS, REPETITIONS):
        assert detector.finds(content) is any(detector.pieces(content))
    assert process_time() - began < 2  # at quadratic cost it would take a hundred times as long


@pytest.mark.parametrize(
    ("outcome", "known", "unknown"), [(APPROVE, True, False), (HOLD, False, True), (FLAG, False, True)]
)
def test_verified_purchases(outcome: RuleOutcome, known: bool, unknown: bool) -> None:
    verified = rule("v", RuleKind.VERIFIED, outcome)
    assert fired(verified, is_verified=True) is known
    assert fired(verified, is_verified=False) is unknown


@pytest.mark.parametrize(
    ("language", "is_welcome"),
    [
        *[("en", True), ("EN", True), ("en-US", True), ("en_GB", True), ("en-Latn-GB", True), ("pt-BR", True)],
        *[("pt", False), ("de", False), ("de-EN", False)],
        *[("zh-Hant", True), ("zh_hant_TW", True), ("zh", False), ("zh-Hans", False), ("zh-Hantx", False)],
    ],
)
def test_languages(language: str, is_welcome: bool) -> None:
    languages = ("en", "PT_br", "zh-Hant")
    assert fired(rule("l", RuleKind.LANGUAGES, APPROVE, languages=languages), language=language) is is_welcome
    assert fired(rule("l", RuleKind.LANGUAGES, FLAG, languages=languages), language=language) is not is_welcome


@pytest.mark.parametrize(
    ("named", "detected", "expected"),
    [("en-US", "en", "en-US"), ("en", "en", "en"), ("en", "ru", "ru"), ("en", None, None), (None, "ru", "ru")],
)
def test_language_given_by_stranger_must_be_a_form_of_the_detected_one(
    named: str | None, detected: str | None, expected: str | None
) -> None:
    assert language_of_stranger(named, detected) == expected


@pytest.mark.parametrize("outcome", RuleOutcome)
@pytest.mark.parametrize("language", [None, ""])
def test_unknown_language_fires_no_rule(language: str | None, outcome: RuleOutcome) -> None:
    assert not fired(rule("l", RuleKind.LANGUAGES, outcome, languages=("en",)), language=language)


@pytest.mark.parametrize(
    ("below", "above", "rating", "expected"),
    [
        (300, None, 299, True),
        (300, None, 300, False),
        (None, 400, 400, False),
        (None, 400, 401, True),
        (200, 400, 300, False),
        (200, 400, 100, True),
        (200, 400, 500, True),
    ],
)
def test_stars(below: int | None, above: int | None, rating: int, expected: bool) -> None:
    assert fired(rule("s", RuleKind.STARS, below=below, above=above), rating=rating) is expected


def test_duplicates_and_always() -> None:
    assert fired(rule("d", RuleKind.DUPLICATE), is_duplicate=True)
    assert not fired(rule("d", RuleKind.DUPLICATE))
    assert fired(rule("a", RuleKind.ALWAYS))
    assert RuleSet((rule("d", RuleKind.DUPLICATE),)).looks_for_duplicates
    assert not RuleSet((rule("a", RuleKind.ALWAYS),)).looks_for_duplicates
    assert RuleSet(()).judge(RuleInput(("x",), 100)) is NO_RULING


def stars(id: str, hours: int) -> ModerationRule:
    return rule(id, RuleKind.STARS, HOLD, below=300, publish_after_hours=hours)


A, B = rule("a", RuleKind.ALWAYS, APPROVE), rule("b", RuleKind.ALWAYS, APPROVE)
H, F = rule("h", RuleKind.LINKS, HOLD), rule("f", RuleKind.LINKS, FLAG)


@pytest.mark.parametrize(
    ("rules", "flags", "outcome", "approved_by"),
    [
        ((), (), None, None),
        ((A,), (), APPROVE, A),
        ((B, A), (), APPROVE, B),
        ((A, F), ("f",), FLAG, None),
        ((F, A), ("f",), FLAG, None),
        ((A, H), ("h",), HOLD, None),
        ((F, H), ("f", "h"), HOLD, None),
        ((H, F, A), ("h", "f"), HOLD, None),
        ((F,), ("f",), FLAG, None),
    ],
)
def test_precedence(
    rules: tuple[ModerationRule, ...],
    flags: tuple[str, ...],
    outcome: RuleOutcome | None,
    approved_by: ModerationRule | None,
) -> None:
    ruling = Ruling(rules)
    assert (ruling.flags, ruling.outcome, ruling.approval) == (flags, outcome, approved_by)
    assert ruling.is_held is (outcome is HOLD)
    assert ruling.status is (ReviewStatus.APPROVED if approved_by else ReviewStatus.NEW)


@pytest.mark.parametrize(
    ("rules", "hours", "by"),
    [
        ((), None, None),
        ((A,), None, None),
        ((stars("s", 5),), 5, "s"),
        ((A, stars("s", 5)), 5, "s"),
        ((stars("s", 5), stars("t", 9)), 9, "t"),
        ((stars("s", 9), stars("t", 5)), 9, "s"),
        ((stars("s", 5), H), None, None),
        ((stars("s", 5), F), None, None),
        ((H,), None, None),
    ],
)
def test_planned_approval(rules: tuple[ModerationRule, ...], hours: int | None, by: str | None) -> None:
    planned = Ruling(rules).planned_approval
    assert planned == (hours and (timedelta(hours=hours), next(r for r in rules if r.id == by)))


@given(lists(tuples(sampled_from(RuleOutcome), integers(0, 3)), max_size=6))
def test_any_hold_wins_over_any_flag_over_any_approval(outcomes_given: list[tuple[RuleOutcome, int]]) -> None:
    rules = tuple(rule(str(n), RuleKind.ALWAYS, outcome) for n, (outcome, _) in enumerate(outcomes_given))
    ruling, outcomes = RuleSet(rules).judge(RuleInput(("x",), 100)), {outcome for outcome, _ in outcomes_given}
    assert ruling.is_held is (HOLD in outcomes)
    assert (ruling.status is ReviewStatus.APPROVED) is (outcomes == {APPROVE})
    assert ruling.flags == tuple(each.id for each in rules if each.outcome is not APPROVE)


def test_rules_are_compiled_once() -> None:
    assert rule_set((rule("a", RuleKind.ALWAYS),)) is rule_set((rule("a", RuleKind.ALWAYS),))


def test_compiled_rules_are_cached_up_to_a_total_of_characters() -> None:
    sets, few = RuleSets(most=90_000), [(rule(str(n), RuleKind.WORDS, words=("scam",)),) for n in range(80)]
    large = (rule("l", RuleKind.WORDS, words=tuple(f"{n:09}" for n in range(2_000))),)
    compiled = [sets.of(each) for each in few]
    assert [sets.of(each) for each in few] == compiled
    first = sets.of(large)
    # Some of the least recently used were evicted, and evict others when they return.
    assert [sets.of(each) is old for each, old in zip(few[40:], compiled[40:], strict=True)] == [True] * 40
    assert sets.of(few[0]) is not compiled[0]
    assert sets.of(large) is first
    # Each set counts once, and by 1,000 characters besides its words; the one used least recently goes first.
    sets = RuleSets(most=3 * 1_004)
    compiled = [sets.of(each) for each in few[:3]]
    assert [sets.of(each) for each in (few[0], few[2], few[1])] == [compiled[0], compiled[2], compiled[1]]
    more = sets.of(few[3])
    kept = [sets.of(few[3]) is more, sets.of(few[1]) is compiled[1], sets.of(few[2]) is compiled[2]]
    assert (kept, sets.of(few[0]) is compiled[0]) == ([True] * 3, False)
    assert sets.of(few[3]) is not more, "the first one has evicted it in turn"
    # A rule set larger than the whole cache is cached alone.
    alone = RuleSets(most=10)
    assert alone.of(large) is (first := alone.of(large))
    assert alone.of(few[0]) is alone.of(few[0])
    assert alone.of(large) is not first


def test_hashes_and_keys_of_texts() -> None:
    # Computed independently: printf 'Sharp\nGood' | sha256sum, and printf '\nGood' | sha256sum.
    assert text_hash("Sharp", "Good") == "a38c409f5e2b25e1b8e8aa62e6e3fd266e820d6b4ac2c05e13b91f03385b5274"
    assert (
        text_hash(None, "Good")
        == text_hash("", "Good")
        == "1d9a5eb57ff77c92c6658677aea11c8089b73c8af4963aa4f9521a70924cdf95"
    )
    ann = ReviewIdentity(Entity("Product", "camera"), "s", "ann")
    assert text_keys(ann, "Good  pictures") == text_keys(ann, "GOOD pictures")
    assert len({*text_keys(ann, "x"), *text_keys(ann._replace(user_id="bob"), "x")}) == 3
    assert text_keys(ann._replace(user_id=None), "x") == text_keys(ann, "x")[1:]
    assert len({text_key(("s", "a"), "x"), text_key(("s", "b"), "x"), text_key(("s", None), "x")}) == 3
    assert text_key(("s", "a"), "x") != text_key(("s", "a"), "y")


def test_stored_text_keys_are_stable() -> None:
    # Computed independently: printf "'s'\n'author'\n'ann'\ngood pictures" | b2sum -l 128, and so on.
    ann = ReviewIdentity(Entity("Product", "camera"), "s", "ann")
    assert text_keys(ann, "Good pictures") == ("c861b8028053620442292157e9f78878", "fce087624e26dd79dcddd9ff9a5245bc")
    assert text_key(("s", None), "-") == "38d72fba276019ebc7aa3b8c892478e9"


def test_lone_surrogate_has_a_hash_and_a_key() -> None:
    # Computed independently: printf '\n\xed\xa0\x80' | sha256sum, and printf "'s'\n\xed\xa0\x80" | b2sum -l 128.
    half = "\ud800"
    assert text_hash(None, half) == "aa6ea272b4673547afb1f36be6353889c0f17af524e1ea647d6a5b5431b71407"
    assert text_key(("s",), half) == "33688a8336ea194fd7edf2950ea41984"


@pytest.mark.parametrize(
    ("holders", "is_known"),
    [({}, False), ({"a": "r"}, False), ({"b": "q"}, True), ({"a": "r", "b": "q"}, True), ({"c": "q"}, False)],
)
def test_text_that_another_review_had_first_is_a_duplicate(holders: dict[str, str], is_known: bool) -> None:
    assert is_duplicate("r", ("a", "b"), holders) is is_known


def a_review(id: str, text: str, author: str | None = "ann", object: str = "camera", **fields: Any) -> Review:
    at = datetime(2026, 3, 14, tzinfo=UTC)
    return Review(id, Entity("Product", object), None, "s", author, None, "Title", text, 450, at, at, **fields)


def test_rule_input_of_a_review() -> None:
    review = a_review("r", "Good", facts=Facts(True, False, None, "de"))
    expected = RuleInput(("Title", "Good", None), 450, "de", is_verified=True, is_duplicate=False)
    assert rule_input(review) == expected
    review.user_name = "Anna"
    assert rule_input(review) == expected._replace(texts=("Title", "Good", "Anna"))
    review.user_name = None
    assert rule_input(review, is_duplicate=True) == rule_input(review)._replace(is_duplicate=True)
    assert not rule_input(a_review("r", "Good", facts=Facts(incentivized=True))).is_verified


def test_trial_looks_for_duplicates_in_order_of_its_reviews() -> None:
    reviews = [
        a_review("first", "Good pictures"),
        a_review("first", "Good  pictures"),
        a_review("of-the-object", "good pictures", "bob"),
        a_review("of-the-author", "GOOD pictures", "ann", "lens"),
        a_review("elsewhere", "Good pictures", "eve", "tripod"),
        a_review("nobody", "Good pictures", None),
        a_review("other", "Bad pictures"),
    ]
    rulings = list(trial_rulings(RuleSet((rule("d", RuleKind.DUPLICATE),)), reviews))
    assert [review for review, _ in rulings] == reviews
    assert [review.id for review, ruling in rulings if ruling.flags] == ["of-the-object", "of-the-author", "nobody"]
    (always,) = trial_rulings(RuleSet((A,)), reviews[:1])
    assert always == (reviews[0], Ruling((A,)))


GOOD: list[dict[str, Any]] = [
    {"id": "w", "kind": "words", "outcome": "hold", "words": ["spam", "buy now"]},
    {"id": "l", "kind": "languages", "outcome": "flag", "languages": ["en", "pt-BR"]},
    {"id": "s", "kind": "stars", "outcome": "hold", "below": 2.5, "above": 4, "publishAfterHours": 336},
    {"id": "f", "kind": "stars", "outcome": "flag", "below": 3, "publishAfterHours": 24},
    {"id": "t", "kind": "stars", "outcome": "approve", "above": 4},
    *({"id": kind, "kind": kind, "outcome": "flag"} for kind in ("links", "contact", "repeated", "duplicate")),
    *({"id": kind, "kind": kind, "outcome": "approve"} for kind in ("verified", "always")),
]


_ONLY_WORDS = "`words` is required for the kind words, and only allowed for it"
_ONLY_LANGUAGES = "`languages` is required for the kind languages, and only allowed for it"
_ONLY_STARS = "`below` or `above` is required for the kind stars, and only allowed for it"
_ONLY_HOLDS = "`publishAfterHours` (1 to 336) is required for a hold or flag by stars, and only allowed for it"


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (rule("verdict:ai", RuleKind.LINKS), "`id` must not begin with verdict:, as the flags of classifiers do"),
        (rule("rejected-before", RuleKind.LINKS), "`id` must not be rejected-before, which is a reserved flag"),
        (rule("r", RuleKind.WORDS), _ONLY_WORDS),
        (rule("r", RuleKind.LINKS, words=("x",)), _ONLY_WORDS),
        (rule("r", RuleKind.LANGUAGES), _ONLY_LANGUAGES),
        (rule("r", RuleKind.LINKS, languages=("en",)), _ONLY_LANGUAGES),
        (rule("r", RuleKind.STARS, APPROVE), _ONLY_STARS),
        (rule("r", RuleKind.LINKS, below=200), _ONLY_STARS),
        (rule("r", RuleKind.STARS, HOLD, above=400), _ONLY_HOLDS),
        (rule("r", RuleKind.STARS, FLAG, below=200), _ONLY_HOLDS),
        (rule("r", RuleKind.LINKS, HOLD, publish_after_hours=5), _ONLY_HOLDS),
    ],
)
def test_faults_of_a_rule(wrong: ModerationRule, fault: str) -> None:
    assert list(faults(wrong)) == [fault]


def test_rules_round_trip_through_request_storage_and_response() -> None:
    read = [each.rule() for each in MODERATION_RULES.validate_python(GOOD, strict=False)]
    assert [shown_rule(each) for each in read] == GOOD
    assert [rule_from(document) for document in GOOD] == read
    assert not any(list(faults(each)) for each in read)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "words"},
        {"kind": "words", "words": []},
        {"kind": "words", "words": ["\u200b"]},
        {"kind": "words", "words": ["x" * 129]},
        {"kind": "words", "words": ["x"] * 1_001},
        {"kind": "links", "words": ["x"]},
        {"kind": "languages"},
        {"kind": "languages", "languages": ["not a language"]},
        {"kind": "links", "languages": ["en"]},
        {"kind": "stars"},
        {"kind": "stars", "below": 0},
        {"kind": "links", "below": 2},
        {"kind": "links", "above": 2},
        {"kind": "stars", "outcome": "hold", "below": 2},
        {"kind": "stars", "outcome": "hold", "below": 2, "publishAfterHours": 0},
        {"kind": "stars", "outcome": "hold", "below": 2, "publishAfterHours": 337},
        {"kind": "stars", "outcome": "flag", "below": 2},
        {"kind": "stars", "outcome": "approve", "above": 4, "publishAfterHours": 5},
        {"kind": "links", "outcome": "hold", "publishAfterHours": 5},
        {"kind": "links", "outcome": "reject"},
        {"kind": "mood"},
        {"kind": "links", "id": " "},
        {"kind": "links", "id": "x" * 65},
        {"kind": "links", "since": 5},
    ],
)
def test_invalid_rules_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MODERATION_RULES.validate_python([{"id": "r", "outcome": "flag", **wrong}], strict=False)


def test_store_has_at_most_fifty_rules_with_unique_ids() -> None:
    rules = [{"id": str(n), "kind": "always", "outcome": "flag"} for n in range(51)]
    assert len(MODERATION_RULES.validate_python(rules[:50], strict=False)) == 50
    for wrong in (rules, [rules[0], rules[0]]):
        with pytest.raises(ValidationError):
            MODERATION_RULES.validate_python(wrong, strict=False)
