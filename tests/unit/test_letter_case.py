"""Text search in any letter case."""

# ruff: noqa: RUF001

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.letter_case import pattern_in_any_case


def finds(phrase: str, text: str) -> bool:
    return re.search(pattern_in_any_case(phrase), text, re.IGNORECASE) is not None


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("STRASSE", "Hauptstraße 5", True),
        ("straße", "HAUPTSTRASSE 5", True),
        ("GROẞ", "gross", True),
        ("istanbul", "İSTANBUL", True),
        ("İstanbul", "istanbul", True),
        ("i\u0307stanbul", "İstanbul", True),
        ("IŞIK", "ışık", True),
        ("fin", "ﬁnal", True),
        ("ﬃ", "OFFICE", True),
        ("ΟΔΟΣ", "οδος", True),
        ("ᾳ", "ΑΙ", True),
        (".", "a", False),
        ("[a-z]*", "[A-Z]*", True),
        ("[a-z]*", "abc", False),
        ("Sßß", "Sßß", True),
        ("SSSSS", "ßsß", True),
        ("ſßßßßßßßßßßs", "SßßßßßßßßßßS", True),
        ("sßs", "sss", False),
        ("Sßßs", "sßßr", False),
        ("ss", "s", False),
        ("straße", "strase", False),
        ("e", "é", False),
        ("o", "ö", False),
    ],
)
def test_text_is_found_literally_in_any_case(phrase: str, text: str, found: bool) -> None:
    assert finds(phrase, text) is found


@given(
    st.text(alphabet="sSßẞfiıİIﬁﬃﬂl\u0307ʼnŉjǰ\u030cαιᾳςσΣéÉ.*[]^-\\ 😀xK\u212a", min_size=1, max_size=12),
    st.sampled_from([str.upper, str.lower, str.title, str.casefold, str.swapcase]),
)
def test_letter_case_hides_no_text(phrase: str, change: Callable[[str], str]) -> None:
    assert finds(phrase, f"before {phrase} after")
    if len(phrase) <= 4:
        assert finds(change(phrase), phrase)
        assert finds(phrase, change(phrase))


def test_pattern_spells_out_cases_that_engines_lack() -> None:
    assert set("\u03b8\u03d1\u0398") <= set(pattern_in_any_case("\u03b8"))
    assert not re.search(pattern_in_any_case("\u4e2d"), "XNone", re.IGNORECASE)
    assert finds("\u0131", "\u0130")
    assert not finds("asse", "a\u00df\u0307e")
    # A letter with an expansion of three characters, across the middle of five.
    assert finds("\u1fb6\u0390", "\u1fb7\u0308\u0301")


def test_runs_are_expanded_up_to_64_and_texts_up_to_256_characters() -> None:
    for length, is_whole in ((64, True), (65, False)):
        rest = "a" * (length - 5)
        assert finds("sssss" + rest, "sss\u00df" + rest) is is_whole
    for length, is_expanded in ((256, True), (257, False)):
        rest = "a" * (length - 1)
        assert finds("\u00df" + rest, "ss" + rest) is is_expanded


def test_long_text_is_found() -> None:
    for long in ("ß" * 256, "ß" * 257, "ffi" * 341, "ß" * 64, "sß" * 128):
        assert finds(long, long)
        assert finds(long, long.lower())


def test_turkish_i_letters_have_the_same_pattern() -> None:
    """PCRE doesn't map one to the other by itself."""
    assert len({pattern_in_any_case(letter) for letter in ("i", "I", "\u0130", "\u0131")}) == 1
