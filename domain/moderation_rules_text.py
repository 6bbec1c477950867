"""Normalisation and search of review texts for moderation rules, in time linear in the length of the text."""

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b, sha256
from itertools import groupby, takewhile
from operator import eq
from typing import Final, NamedTuple
from unicodedata import category, combining, normalize

from ahocorasick_rs import AhoCorasick, Implementation

from domain.invisible import IGNORABLE

_SEPARATOR: Final = "\0"
"""Separator of title, text and name: no review contains it, and no phrase matches across it."""
_SEPARATE_WORD: Final = f" {_SEPARATOR} "

_CONTROLS: Final = (*range(0x01, 0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0))
"""Control characters other than whitespace."""
_INVISIBLE: Final = dict.fromkeys([*_CONTROLS, *IGNORABLE])
_LONG_LIGATURE: Final = "\ufdfa"
"""A ligature that NFKC expands to 18 characters, where all others yield at most 8. It is left as it is."""
_MOST_MARKS: Final = 30
"""Maximum number of combining marks of a letter, as in Unicode's stream-safe format: no language uses as many, and
canonical ordering takes time quadratic in their number."""
_DOT: Final = "\u0307"
_DOTTED: Final = re.compile(f"i{_DOT}+")
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""

# Each expression begins with a literal, so that the search for it is fast, and has no unbounded repetition.
_LINKS: Final = (
    re.compile(r"://(?<=\w://)\w"),
    re.compile(r"www\.(?<!\wwww\.)\w"),
    re.compile(
        r"\.(?<=[^\W_]\.)(?:xn--\w|[a-z]{2,6}/\w|(?:com|net|org|info|biz|shop|online|store|site|xyz|club|top|app|dev|edu"
        r"|gov|eu|de|fr|uk|nl|pl|ru|cn|jp|br|ch|ca|au|kr|tr|cz|gr|hu|ro|sk|ua|io|tv|cc"
        # A full stop may precede a word or an abbreviation: not at, be, es, ie, is, it, lt, lv, me, no, rs, se.
        r"|bg|dk|fi|hk|mx|nz|pt|sg|tw|рф)(?![\w-]))"
    ),
)
_DOMAIN: Final = r"\w[\w-]{0,62}(?:(?:\.| ?[\[(] ?dot ?[\])] ?)[\w-]{1,63}){1,8}"
_ADDRESSES: Final = (
    re.compile(rf"@(?<=[\w+-]@){_DOMAIN}"),
    re.compile(rf"at ?[\])] ?(?<=[(\[ ]at[)\] ]){_DOMAIN}"),
    re.compile(rf"at ?[\])] {_DOMAIN}"),
)
_PLAIN_ADDRESSES: Final = _ADDRESSES[:1]
_NUMBER: Final = re.compile(
    # After a letter, a plus sign or the full stop of an abbreviation must precede: WhatsApp+49, Tel.0170.
    r"(?:(?<![\w.,/+-])|(?<=[^\W\d_]\.)|(?<=[^\W\d_])(?=\+))(?:\+ ?)?(?:\( ?)?"
    r"\d(?:[ ()./-]{0,3}\d){6,14}(?![\w/-]|[.,]\d)"
)
_DATES: Final = re.compile(r"(?:\d{4}([-./])\d{1,2}\1\d{1,2}|\d{1,2}([-./])\d{1,2}\2\d{4})(?: \d{1,2})?")
_GROUPED: Final = re.compile(r"\d{3}[-. ]\d{4}|\(?\d{2,5}\)?[-./ ]{1,3}\d{2,5}(?:[-. ]\d{2,5})+")
_CHARACTERS: Final = re.compile(r"([^\W\d_])\1{4}|([^\w\s])\2{9}")
_MOST_SAME_WORDS: Final = 3
_EDGE: Final = "\0"
"""Marks a place where words can begin and end. _SEPARATOR becomes three of them, which no word matches across."""

_PUNCTUATION: Final = str.maketrans(dict.fromkeys(string.punctuation, " "))
_ASCII_PUNCTUATION: Final = bytes.maketrans(string.punctuation.encode(), b" " * len(string.punctuation))

# _CHARACTERS for ASCII, which is nearly all of most texts: the automaton is twenty times as fast as the expression.
_RUNS: Final = AhoCorasick([sign * 5 for sign in string.ascii_lowercase] + [sign * 10 for sign in string.punctuation])
_DIGITS: Final = string.digits.encode()

_FEWEST_DIGITS: Final = 7
_FEWEST_PLAIN, _MOST_PLAIN = 10, 12
"""Digits of a phone number without separators: fewer are often a price or an article number, more are a barcode."""


def normalised(text: str) -> str:
    """The text for comparisons: NFKC, case-folded, without invisible characters, with whitespace as single spaces."""
    if text.isascii():
        if text.isprintable() and "  " not in text:
            return text.lower().strip()
        return " ".join(text.translate(_INVISIBLE).lower().split())
    seen = _with_few_marks(text.translate(_INVISIBLE))
    folded = _LONG_LIGATURE.join(map(_folded, seen.split(_LONG_LIGATURE))) if _LONG_LIGATURE in seen else _folded(seen)
    return " ".join(folded.split())


def _folded(text: str) -> str:
    folded = normalize("NFKC", text).casefold()
    # Case folding of İ leaves a combining dot above the i, which has its own.
    return normalize("NFKC", _DOTTED.sub("i", folded) if _DOT in folded else folded)


def _with_few_marks(text: str) -> str:
    """The text with at most _MOST_MARKS combining marks per letter."""
    # Any longer run of marks has one of these places.
    places = range(_MOST_MARKS, len(text), _MOST_MARKS + 1)
    if not any(_is_mark(text[at]) and _is_in_long_run(text, at) for at in places):
        return text
    kept, marks = [], 0
    for character in text:
        marks = marks + 1 if _is_mark(character) else 0
        if marks <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def _is_in_long_run(text: str, at: int) -> bool:
    """True if the mark at this place is one of more than _MOST_MARKS in a row."""
    before = takewhile(_is_mark, reversed(text[at - _MOST_MARKS : at]))
    after = takewhile(_is_mark, text[at : at + _MOST_MARKS + 1])
    return len([*before, *after]) > _MOST_MARKS


def _is_mark(character: str) -> bool:
    """True for a combining mark (after NFKD)."""
    return combining(normalize("NFKD", character)[0]) > 0


def searched(texts: Iterable[str | None]) -> str:
    """These texts, normalised and joined for the detectors."""
    return _SEPARATOR.join([normalised(each) for each in texts if each])


def text_hash(title: str | None, text: str) -> str:
    """The hash by which verdicts identify a text: SHA-256, in hexadecimal, of title, line feed and text as stored, in
    UTF-8; a missing title is empty."""
    return sha256(f"{title or ''}\n{text}".encode(errors="surrogatepass")).hexdigest()


def text_key(parts: Sequence[str | None], text: str) -> str:
    """The key by which a repeat of a normalised text by the same author, or about the same object, is found."""
    content = "\n".join([*map(repr, parts), text])
    return blake2b(content.encode(errors="surrogatepass"), digest_size=16).hexdigest()


class WordLists:
    """Lists of words and phrases by name, all searched at once.

    An automaton doesn't report all words that overlap, such as `a`, `aa` and `aaa` in `aaaa`. So one automaton of all
    words only rules out texts without any, which most are; then one per list finds its words between edges.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]]) -> None:
        words = {name: [*dict.fromkeys(map(normalised, each))] for name, each in lists.items()}
        self._words = {name: said for name, each in words.items() if (said := [word for word in each if word])}
        self._of_lists = {name: _automaton([*map(_between_edges, each)]) for name, each in self._words.items()}
        self._of_all = _automaton([*set().union(*self._words.values())]) if self._words else None

    def found_in(self, text: str) -> set[str]:
        """The names of the lists with a word in a normalised text."""
        if self._of_all is None or not self._of_all.find_matches_as_indexes(text):
            return set()
        marked = f"{_EDGE}{text.translate(_EDGES)}{_EDGE}"
        return {name for name, each in self._of_lists.items() if each.find_matches_as_indexes(marked)}

    def words_in(self, text: str) -> dict[str, list[str]]:
        """The words of each list in a normalised text, by first occurrence."""
        marked = f"{_EDGE}{text.translate(_EDGES)}{_EDGE}"
        places = {name: self._of_lists[name].find_matches_as_indexes(marked) for name in self.found_in(text)}
        return {name: [*dict.fromkeys(self._words[name][n] for n, _, _ in found)] for name, found in places.items()}


def _automaton(words: Sequence[str]) -> AhoCorasick:
    """An automaton as fast as the one that the library would choose for few words, with a tenth of its memory."""
    return AhoCorasick(words, implementation=Implementation.ContiguousNFA)


def _between_edges(word: str) -> str:
    """A word as it appears in a text with marked edges: beginning and ending with an edge."""
    marked = word.translate(_EDGES)
    return f"{'' if marked[0] == _EDGE else _EDGE}{marked}{'' if marked[-1] == _EDGE else _EDGE}"


@lru_cache(maxsize=4_096)
def _marked(code: int) -> str:
    character = chr(code)
    is_of_word = character.isalnum() or category(character).startswith("M")
    return character if is_of_word and not _UNSPACED.match(character) else f"{_EDGE}{character}{_EDGE}"


class _Edges:
    """A table for `str.translate` that puts edge marks on both sides of each character outside of spaced words."""

    def __getitem__(self, code: int) -> str:
        return _marked(code)


_EDGES: Final = _Edges()


def links(text: str) -> Iterator[str]:
    """The web addresses in a normalised text, with or without a scheme, each extended to the surrounding whitespace."""
    plain = _with_full_stops(text)
    return (_extended(text, match) for each in _LINKS for match in each.finditer(plain))


def has_link(text: str) -> bool:
    """True if there is one of `links`."""
    plain = _with_full_stops(text)
    return any(each.search(plain) for each in _LINKS)


def _with_full_stops(text: str) -> str:
    return text.replace("\u3002", ".")  # IDNA treats the ideographic full stop as a dot


def contacts(text: str) -> Iterator[str]:
    """The e-mail addresses and phone numbers in a normalised text."""
    yield from (_extended(text, match) for each in _addresses(text) for match in each.finditer(text))
    yield from _phones(text)


def has_contact(text: str) -> bool:
    """True if there is one of `contacts`."""
    return any(each.search(text) for each in _addresses(text)) or any(_phones(text))


def _addresses(text: str) -> Sequence[re.Pattern[str]]:
    """The expressions that can match an e-mail address: those for a written-out "at" need a bracket, which is rare."""
    return _ADDRESSES if "]" in text or ")" in text else _PLAIN_ADDRESSES


def _phones(text: str) -> Iterator[str]:
    if text.isascii() and len(text) - len(text.encode().translate(None, _DIGITS)) < _FEWEST_DIGITS:
        return
    yield from (match[0] for match in _NUMBER.finditer(text) if _is_phone(match[0]))


def _extended(text: str, match: re.Match[str]) -> str:
    """The match, extended to the surrounding whitespace."""
    first = max(text.rfind(sign, 0, match.start()) for sign in (" ", _SEPARATOR)) + 1
    ends = (text.find(sign, match.end()) for sign in (" ", _SEPARATOR))
    return text[first : min((end for end in ends if end >= 0), default=len(text))]


def _is_phone(number: str) -> bool:
    digits = sum(character.isdigit() for character in number)
    if _DATES.match(number):
        return False
    if number[0] in "+0(":
        return True
    if digits == len(number):
        return _FEWEST_PLAIN <= digits <= _MOST_PLAIN
    return _GROUPED.fullmatch(number) is not None


def repetitions(text: str) -> Iterator[str]:
    """The pieces of a normalised text that repeat a letter 5 times in a row, a sign 10 times, or a word 4 times; digits
    may repeat."""
    yield from (text[start:end] for _, start, end in _RUNS.find_matches_as_indexes(text))
    if not text.isascii():
        yield from (match[0] for match in _CHARACTERS.finditer(text))
    yield from _same_words(text)


def has_repetition(text: str) -> bool:
    """True if there is one of `repetitions`."""
    if _RUNS.find_matches_as_indexes(text) or (not text.isascii() and _CHARACTERS.search(text)):
        return True
    return any(_same_words(text))


def _same_words(text: str) -> Iterator[str]:
    text = text.replace(_SEPARATOR, _SEPARATE_WORD)
    words: Sequence[str | bytes] = (
        text.encode().translate(_ASCII_PUNCTUATION).split() if text.isascii() else text.translate(_PUNCTUATION).split()
    )
    # Four equal words in a row contain an equal pair that begins at an even index.
    if not any(map(eq, words[::2], words[1::2])):
        return
    for word, same in groupby(words):
        if len(list(same)) > _MOST_SAME_WORDS:
            yield " ".join([word.decode() if isinstance(word, bytes) else word] * (_MOST_SAME_WORDS + 1))


class Detector(NamedTuple):
    """A search in normalised texts. `finds` returns True if `pieces` would yield any, in less time."""

    finds: Callable[[str], bool]
    pieces: Callable[[str], Iterator[str]]


LINKS: Final = Detector(has_link, links)
CONTACTS: Final = Detector(has_contact, contacts)
REPETITIONS: Final = Detector(has_repetition, repetitions)
