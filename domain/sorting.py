"""Sort expressions of searches: `field`, `field:asc` or `field:desc`, several joined with `;`."""

import re
from enum import StrEnum
from typing import Final, TypeVar

F = TypeVar("F", bound=StrEnum)

_PART: Final = re.compile(r"(\w+)\s*(?:[:-]\s*(\w*))?")


class Direction(StrEnum):
    """Ascending or descending."""

    ASC = "asc"
    DESC = "desc"


class UnknownSortError(ValueError):
    """The expression names a field or a direction that the search doesn't have."""


def parse_direction(word: str) -> Direction | None:
    """The direction that a word begins with: `asc`, `Ascending`, `DESC`; None for any other word."""
    beginnings = (direction for direction in Direction if word.strip().lower().startswith(direction))
    return next(beginnings, None)


def parse_sort(expression: str, fields: type[F]) -> list[tuple[F, Direction]]:
    """The sort keys, most significant first; an empty list for an empty expression.

    A direction is any word that `parse_direction` knows, after a colon or a hyphen. Letter case doesn't matter. Of a
    field named twice, the first place counts. Raises UnknownSortError, whose message lists the choices.
    """
    known = {field.value.lower(): field for field in fields}
    keys: dict[F, Direction] = {}
    for part in filter(None, (part.strip() for part in expression.split(";"))):
        name = re.split("[:-]", part)[0].strip()
        if name.lower() not in known:
            raise UnknownSortError(f"Unknown sort field {name[:64]!r}. Fields: {', '.join(fields)}.")
        parsed = _PART.fullmatch(part)
        direction = parse_direction(parsed[2] or Direction.ASC) if parsed else None
        if direction is None:
            raise UnknownSortError(f"Unknown sort direction in {part[:64]!r}. Use `field:asc` or `field:desc`.")
        keys.setdefault(known[name.lower()], direction)
    return list(keys.items())
