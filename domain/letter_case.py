"""Case-insensitive search for texts, also where the cases of a letter differ in length: ß, ss, SS."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

_CASES_END: Final = 0x20000
"""Exclusive upper bound of the code points of letters with cases."""

_MOST_FOLDED: Final = 3
"""Maximum number of letters that a single character folds to."""

_MOST_ENUMERATED: Final = 4
"""Maximum number of letters whose spellings are enumerated: few, so that patterns stay short."""

_LONGEST_RUN: Final = 32
"""Maximum number of letters of a run that is expanded as a whole: its pattern grows with the square of its length."""

_LONGEST_WITH_RUNS: Final = 64
"""Maximum number of characters of a text whose runs are expanded as a whole."""

_LONGEST_EXPANDED: Final = 256
"""Maximum number of characters of a text that is expanded: PCRE compiles at most 64 KiB, too little for 768 ß."""

_DOT: Final = "\u0307"
"""The combining dot above that İ keeps in lower case."""

_DOTLESS: Final = "\u0131"
"""The small dotless i, whose capital is I."""


def pattern_in_any_case(text: str) -> str:
    """A regular expression, for Python and PCRE with case ignored, that finds a text literally in any Unicode case:
    STRASSE finds Straße, and i every Turkish i, dotted or not, in any language.

    In a text of more than 64 characters, a run like sssss matches only some of its spellings; a text of more than 256
    matches only spellings of the same length.
    """
    if len(text) > _LONGEST_EXPANDED:
        return re.escape(text)
    folded, pieces, at = _folded(text), [], 0
    most = _LONGEST_RUN if len(text) <= _LONGEST_WITH_RUNS else _MOST_ENUMERATED
    while at < len(folded):
        end = _end(folded, at, most)
        pieces.append(_pattern(folded[at:end]))
        at = end
    pattern = "".join(pieces)
    return pattern if most == _LONGEST_RUN else f"(?:{re.escape(text)}|{pattern})"


def _pattern(folded: str) -> str:
    """The pattern of a run of letters with joint spellings. A long run is split into halves, or around each character
    that can span the middle."""
    if len(folded) <= _MOST_ENUMERATED:
        ways = list(_spellings(folded))
    else:
        middle = len(folded) // 2
        ways = [_pattern(folded[:middle]) + _pattern(folded[middle:])]
        for start in range(middle - _MOST_FOLDED + 1, middle):
            for end in range(middle + 1, start + _MOST_FOLDED + 1):
                if folded[start:end] in _cases():
                    ways.append(
                        _pattern(folded[:start]) + _class_of_several(folded[start:end]) + _pattern(folded[end:])
                    )
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _folded(text: str) -> str:
    return text.casefold().replace("i" + _DOT, "i").replace(_DOTLESS, "i")


@cache
def _cases() -> Mapping[str, str]:
    """All characters that fold to a text other than themselves, by that text."""
    cases: dict[str, str] = {}
    for character in map(chr, range(_CASES_END)):
        folded = _folded(character)
        if folded != character:
            cases[folded] = cases.get(folded, "") + character
    return cases


def _end(folded: str, at: int, most: int) -> int:
    """The end of the run from `at` on whose letters have joint spellings, after about `most` letters at the latest."""
    end, start = at + 1, at
    while start < end < at + most:
        lengths = (size for size in range(2, _MOST_FOLDED + 1) if folded[start : start + size] in _cases())
        end = max([end, *(start + size for size in lengths)])
        start += 1
    return end


def _spellings(folded: str) -> Iterator[str]:
    """The patterns of all spellings of folded letters."""
    if not folded:
        yield ""
    for size in range(1, min(_MOST_FOLDED, len(folded)) + 1):
        head = folded[:size]
        if size == 1 or head in _cases():
            written = _class_of_letter(head) if size == 1 else _class_of_several(head)
            yield from (written + rest for rest in _spellings(folded[size:]))


def _class_of_several(letters: str) -> str:
    """The pattern of the single characters that fold to several letters."""
    return f"[{_cases()[letters]}]{_optional_dot(letters)}"


def _class_of_letter(letter: str) -> str:
    if letter == "i":
        return f"[i{_cases()[letter]}]{_optional_dot(letter)}"
    # Every engine knows the cases of ASCII; of other letters it may know fewer than Python.
    return re.escape(letter) if letter.isascii() else f"[{letter}{_cases().get(letter, '')}]"


def _optional_dot(letters: str) -> str:
    return f"{_DOT}?" if letters.endswith("i") else ""
