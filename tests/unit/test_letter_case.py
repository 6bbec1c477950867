"""Texts in any letter case."""

# ruff: noqa: RUF001

from __future__ import annotations

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
def test_a_text_is_found_literally_and_in_any_case(phrase: str, text: str, found: bool) -> None:
    assert finds(phrase, text) is found


@given(
    st.text(alphabet="sSßẞfiıİIﬁﬃﬂl\u0307ʼnŉjǰ\u030cαιᾳςσΣéÉ.*[]^-\\ 😀xK\u212a", min_size=1, max_size=12),
    st.sampled_from([str.upper, str.lower, str.title, str.casefold, str.swapcase]),
)
def test_no_letter_case_hides_a_text(phrase: str, change: Callable[[str], str]) -> None:
    assert finds(phrase, f"before {phrase} after")
    if len(phrase) <= 4:
        assert finds(change(phrase), phrase)
        assert finds(phrase, change(phrase))


def test_a_long_text_is_found() -> None:
    for long in ("ß" * 256, "ß" * 257, "ffi" * 341, "ß" * 64, "sß" * 128):
        assert finds(long, long)
        assert finds(long, long.lower())
