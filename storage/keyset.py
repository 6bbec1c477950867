"""Pages that begin behind a row: what MongoDB skips by an index instead of counting it off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pymongo import ASCENDING

from storage.database import Document

SortValue = str | int | datetime | None
"""A value of a field to sort by. Null, or a missing field, comes before every other value, as in MongoDB."""


def behind(order: Sequence[tuple[str, int]], row: Sequence[SortValue]) -> list[Document]:
    """The conditions for rows behind this one: `order` has fields with directions, ends with a unique one, and `row`
    the values of these fields. Fields hold one type each, and all but the unique one can be null."""
    beyond: list[Document] = []
    same: Document = {}
    for (name, direction), value in zip(order, row, strict=True):
        if value is not None or direction == ASCENDING:
            beyond.append({**same, name: _further(value, direction)})
        same[name] = value
    (first, direction), value = order[0], row[0]
    if value is not None:
        # The others imply it, and it bounds an index that begins with this field.
        bound = {"$gte": value} if direction == ASCENDING else {"$not": {"$gt": value}}
        return [{first: bound}, {"$or": beyond}]
    return [{"$or": beyond}]


def _further(value: SortValue, direction: int) -> Document:
    if value is None:
        return {"$ne": None}
    # `$lt` would leave out null, which comes last there.
    return {"$gt": value} if direction == ASCENDING else {"$not": {"$gte": value}}
