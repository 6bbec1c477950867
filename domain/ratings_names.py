"""Search keys and sort keys of rated objects."""

import re
from typing import Final
from unicodedata import combining, normalize

KEY_LENGTH: Final = 64
"""Maximum number of characters of a key: text beyond them is neither found nor sorted by."""

_MOST_KEYS: Final = 12
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


def folded(text: str) -> str:
    """The words of a text without letter case, accents and punctuation, at most KEY_LENGTH characters: `Łódź-2 Café`
    becomes `łodz 2 cafe`."""
    # Styled letters have a case only after NFKD, and case folding can yield letters that NFKD has to decompose.
    decomposed = normalize("NFKD", normalize("NFKD", text).casefold())
    plain = "".join(character for character in decomposed if not combining(character))
    return " ".join(filter(None, _BETWEEN_WORDS.split(plain)))[:KEY_LENGTH].rstrip()


def key_of(text: str) -> str:
    """A text, folded; unchanged if it has only punctuation, as an id may."""
    return folded(text) or text[:KEY_LENGTH]


def search_keys(name: str | None, id: str) -> list[str]:
    """The keys by which a search for a prefix finds an object: its id, and its name from each of the first words on."""
    words = folded(name or "").split()
    return list(dict.fromkeys([key_of(id), *(" ".join(words[start:]) for start in range(min(len(words), _MOST_KEYS)))]))


def list_key(name: str | None, id: str) -> str:
    """The sort key of an object: its name, else its id."""
    return folded(name or "") or key_of(id)


def position_in_search(phrase: str, position: str) -> str:
    """The sort key of a search result: positions that begin with the folded phrase come first; within both groups the
    order is that of the list."""
    return f"{int(not position.startswith(phrase))}{position}"
