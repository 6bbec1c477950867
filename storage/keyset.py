"""Pages that begin behind a row: what MongoDB skips by an index instead of counting it off."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from pymongo import ASCENDING

from storage.database import Document

SortValue = str | int | datetime | None
"""A value of a field to sort by. Null comes before every other value, as in MongoDB."""

NO_FIELDS: Final[Mapping[str, SortValue]] = {}


def behind(
    order: Sequence[tuple[str, int]], row: Sequence[SortValue], nullable: Mapping[str, SortValue] = NO_FIELDS
) -> list[Document]:
    """The conditions for rows behind this one: `order` has fields with directions, ends with a unique one, and `row`
    the values of these fields. Fields hold one type each; the nullable ones, with their least values, can be null."""
    beyond: list[Document] = []
    same: Document = {}
    for (name, direction), value in zip(order, row, strict=True):
        further: list[Document]
        if value is None:
            further = [{name: {"$gte": nullable[name]}}] if direction == ASCENDING else []
        elif direction == ASCENDING:
            further = [{name: {"$gt": value}}]
        else:
            further = [{name: {"$lt": value}}, *([{name: None}] if name in nullable else [])]
        beyond += [{**same, **each} for each in further]
        same[name] = value
    return [*_bound(order[0], row[0], nullable), {"$or": beyond}]


def _bound(first: tuple[str, int], value: SortValue, nullable: Collection[str]) -> list[Document]:
    """The condition that the others imply, for the bounds of an index that begins with this field."""
    name, direction = first
    if value is None or (direction != ASCENDING and name in nullable):
        return []
    return [{name: {"$gte" if direction == ASCENDING else "$lte": value}}]
