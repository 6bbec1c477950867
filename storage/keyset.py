"""Keyset pagination: pages that begin after a row, which MongoDB finds by an index instead of counting rows."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pymongo import ASCENDING, DESCENDING

from domain.sorting import Direction
from storage.database import Document

SortValue = str | int | datetime | None
"""A value of a sort field. Null, or a missing field, comes before every other value, as in MongoDB."""


def order_by(keys: Iterable[tuple[str, Direction]]) -> list[tuple[str, int]]:
    """The sort in MongoDB by these fields, at least one. A field counts at its first place; ties are broken by id."""
    fields: dict[str, int] = {}
    for name, direction in keys:
        fields.setdefault(name, ASCENDING if direction is Direction.ASC else DESCENDING)
    fields.setdefault("_id", list(fields.values())[-1])
    return list(fields.items())


def position_of(document: Document, order: Sequence[tuple[str, int]]) -> list[SortValue]:
    """The position of a document in this order; a missing field counts as null, as in MongoDB's sort."""
    return [document.get(name) for name, _ in order]


def is_position(values: Sequence[SortValue], order: Sequence[tuple[str, int]], types: Mapping[str, type]) -> bool:
    """True if a document can have this position in the order; `types` has the types of fields that aren't texts."""
    return len(values) == len(order) and all(
        type(value) is types.get(name, str) or (value is None and name != "_id")
        for (name, _), value in zip(order, values, strict=True)
    )


def after_row(order: Sequence[tuple[str, int]], row: Sequence[SortValue]) -> list[Document]:
    """The conditions for rows after this one. `order` has fields with directions and ends with a unique field, `row`
    has the values of these fields. Each field has a single type, and all but the unique one can be null."""
    beyond: list[Document] = []
    same: Document = {}
    for (name, direction), value in zip(order, row, strict=True):
        if value is not None or direction == ASCENDING:
            beyond.append({**same, name: _further(value, direction)})
        same[name] = value
    (first, direction), value = order[0], row[0]
    if value is not None:
        # Implied by the others, but it bounds an index that begins with this field.
        bound = {"$gte": value} if direction == ASCENDING else {"$not": {"$gt": value}}
        return [{first: bound}, {"$or": beyond}]
    return [{"$or": beyond}]


def _further(value: SortValue, direction: int) -> Document:
    if value is None:
        return {"$ne": None}
    # `$lt` would leave out null, which comes last in this direction.
    return {"$gt": value} if direction == ASCENDING else {"$not": {"$gte": value}}
