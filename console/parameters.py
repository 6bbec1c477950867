"""Parameters of the console's addresses that have certain values."""

from collections.abc import Mapping, Sequence
from typing import Final

from console.facade import Refused

_MOST_REPEATED: Final = 40


def choice(query: Mapping[str, str], name: str, known: Sequence[str], default: str, *, noun: str) -> str:
    """The value of a parameter, a `noun` in words, `default` where it says nothing.

    Raises Refused for one that isn't known: the page would show something else than was asked for, and a decision about
    all that it shows would go wrong.
    """
    value = query.get(name, default)
    if value not in known:
        said = f"There is no {noun} {value[:_MOST_REPEATED]}. There are: {', '.join(filter(None, known))}."
        raise Refused(422, {"detail": said})
    return value
