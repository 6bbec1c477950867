"""Sort expressions of searches: `field`, `field:asc` or `field:desc`, several joined with `;`."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

F = TypeVar("F", bound=StrEnum)


class Direction(StrEnum):
    """Ascending or descending."""

    ASC = "asc"
    DESC = "desc"


class UnknownSortError(ValueError):
    """The expression names a field or a direction that the search doesn't have."""


def parse_sort(expression: str, fields: type[F]) -> list[tuple[F, Direction]]:
    """The sort keys, most significant first; an empty expression gives an empty list.

    Letter case doesn't matter. A field named twice counts where it stands first.
    Raises UnknownSortError, whose message names what there is.
    """
    known = {field.value.lower(): field for field in fields}
    keys: dict[F, Direction] = {}
    for part in filter(None, (part.strip() for part in expression.split(";"))):
        name, _, direction = (piece.strip().lower() for piece in part.partition(":"))
        if name not in known:
            raise UnknownSortError(f"Unknown sort field {part[:64]!r}. Fields: {', '.join(fields)}.")
        if direction not in ("", *Direction):
            raise UnknownSortError(f"Unknown sort direction in {part[:64]!r}. Use `field:asc` or `field:desc`.")
        keys.setdefault(known[name], Direction(direction or Direction.ASC))
    return list(keys.items())
