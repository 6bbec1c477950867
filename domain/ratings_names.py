"""The texts by which rated objects are found and listed."""

import re
from typing import Final
from unicodedata import combining, normalize

KEY_LENGTH: Final = 64
"""Characters of a name that are told apart: a text behind them neither finds nor sorts."""

_MOST_KEYS: Final = 12
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


def folded(text: str) -> str:
    """The words of a text without letter case, accents and signs, at most KEY_LENGTH characters: `Łódź-2 Café` is
    `łodz 2 cafe`."""
    # Letters of other styles have a case only once they are plain, and folding the case can make others.
    same = normalize("NFKD", normalize("NFKD", text).casefold())
    plain = "".join(sign for sign in same if not combining(sign))
    return " ".join(filter(None, _BETWEEN_WORDS.split(plain)))[:KEY_LENGTH].rstrip()


def search_keys(name: str | None, id: str) -> list[str]:
    """The texts that an object is found by, each of which a search can begin with: its id, and its name from each of
    the first words on."""
    words = folded(name or "").split()
    return list(dict.fromkeys([folded(id), *(" ".join(words[start:]) for start in range(min(len(words), _MOST_KEYS)))]))


def list_key(name: str | None, id: str) -> str:
    """The text that an object is listed by: its name, else its id."""
    return folded(name or "") or folded(id)


def position_in_search(phrase: str, position: str) -> str:
    """The position of an object among those that a folded phrase finds: first the names that begin with it, each part
    in the order of the list."""
    return f"{int(not position.startswith(phrase))}{position}"
