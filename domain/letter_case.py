"""Texts in any letter case, also where the cases of a letter differ in length, as those of ß do: ss, SS."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

_LAST: Final = 0x20000
"""No letter behind it has cases."""

_LONGEST: Final = 3
"""Letters that a single one can become."""

_AT_ONCE: Final = 4
"""Letters whose ways to be written are told one by one: few, so that a pattern stays short."""

_RUN: Final = 32
"""Letters whose ways are told at all, as a whole: the pattern of a run grows with the square of its length."""

_SHORT: Final = 64
"""Characters of a text whose runs are told as a whole."""

_MOST: Final = 256
"""Characters of a text; PCRE compiles no pattern of more than 64 KiB, which one of three times as many ß would have."""

_DOT: Final = "\u0307"
"""The dot that İ has above it once it is small."""

_DOTLESS: Final = "\u0131"
"""The small letter without a dot, whose capital is I."""


def pattern_in_any_case(text: str) -> str:
    """The regular expression, of Python and PCRE, to be used without regard to letter case, that finds a text literally
    and in any case by Unicode: STRASSE finds Straße, and i each i of Turkish, dotted or not, whatever the language.
    One of more than 64 characters is found in some of the ways of a run like sssss, and one of more than 256 in the
    cases that have as many letters."""
    if len(text) > _MOST:
        return re.escape(text)
    folded, pieces, at = _folded(text), [], 0
    most = _RUN if len(text) <= _SHORT else _AT_ONCE
    while at < len(folded):
        end = _end(folded, at, most)
        pieces.append(_pattern(folded[at:end]))
        at = end
    pattern = "".join(pieces)
    return pattern if most == _RUN else f"(?:{re.escape(text)}|{pattern})"


def _pattern(folded: str) -> str:
    """The pattern of letters that have ways to be written in common: of many in two halves, or with one that is written
    across the middle."""
    if len(folded) <= _AT_ONCE:
        ways = list(_ways(folded))
    else:
        middle = len(folded) // 2
        ways = [_pattern(folded[:middle]) + _pattern(folded[middle:])]
        for start in range(middle - _LONGEST + 1, middle):
            for end in range(middle + 1, start + _LONGEST + 1):
                if folded[start:end] in _cases():
                    ways.append(_pattern(folded[:start]) + _across(folded[start:end]) + _pattern(folded[end:]))
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _folded(text: str) -> str:
    return text.casefold().replace("i" + _DOT, "i").replace(_DOTLESS, "i")


@cache
def _cases() -> Mapping[str, str]:
    """The characters that fold to a text, beside itself."""
    cases: dict[str, str] = {}
    for character in map(chr, range(_LAST)):
        folded = _folded(character)
        if folded != character:
            cases[folded] = cases.get(folded, "") + character
    return cases


def _end(folded: str, at: int, most: int) -> int:
    """The end of the letters from `at` on that have ways to be written in common, about so many."""
    end, start = at + 1, at
    while start < end < at + most:
        lengths = (size for size in range(2, _LONGEST + 1) if folded[start : start + size] in _cases())
        end = max(end, *(start + size for size in lengths), end)
        start += 1
    return end


def _ways(folded: str) -> Iterator[str]:
    """The patterns of the ways in which folded letters can be written."""
    if not folded:
        yield ""
    for size in range(1, min(_LONGEST, len(folded)) + 1):
        head = folded[:size]
        if size == 1 or head in _cases():
            written = _letter(head) if size == 1 else _across(head)
            yield from (written + rest for rest in _ways(folded[size:]))


def _across(letters: str) -> str:
    """The characters that are several letters."""
    return f"[{_cases()[letters]}]{_dot_behind(letters)}"


def _letter(letter: str) -> str:
    if letter == "i":
        return f"[i{_cases()[letter]}]{_dot_behind(letter)}"
    # Those of ASCII every engine knows, and it may know others less well than Python.
    return re.escape(letter) if letter.isascii() else f"[{letter}{_cases().get(letter, '')}]"


def _dot_behind(letters: str) -> str:
    return f"{_DOT}?" if letters.endswith("i") else ""
