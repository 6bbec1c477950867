"""Query parameters with a fixed set of values."""

from collections.abc import Mapping, Sequence
from typing import Final

from console.api_client import Refused

_MOST_REPEATED: Final = 40


def choice(query: Mapping[str, str], name: str, known: Sequence[str], default: str, *, noun: str) -> str:
    """The value of a query parameter, `default` if it is missing; `noun` names it in the error message.

    Raises Refused: an unknown value. If it were ignored, the page would show other rows than were requested, and a
    decision about all of them would go wrong.
    """
    value = query.get(name, default)
    if value not in known:
        detail = f"There is no {noun} {value[:_MOST_REPEATED]}. Use one of: {', '.join(filter(None, known))}."
        raise Refused(422, {"detail": detail})
    return value
