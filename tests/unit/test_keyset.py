"""Query conditions for rows after a given row, checked against a model of MongoDB's comparisons."""

import functools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import ASCENDING, DESCENDING

from storage.database import Document
from storage.keyset import SortValue, after_row

Row = tuple[str | None, int | None, int | None, str]
FIELDS = ("text", "count", "number", "id")

directions = st.sampled_from([ASCENDING, DESCENDING])
orders = (
    st.permutations(FIELDS)
    .map(lambda fields: fields[: fields.index("id") + 1])
    .flatmap(lambda fields: st.tuples(*(st.tuples(st.just(name), directions) for name in fields)))
)
tables = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["", "a", "b"]),
        st.none() | st.integers(1, 3),
        st.none() | st.integers(1, 3),
        st.uuids().map(str),
    ),
    min_size=1,
)


def compare(a: SortValue, b: SortValue) -> int:
    if a is None or b is None:
        return int(a is not None) - int(b is not None)
    one, other = (a, b) if isinstance(a, type(b)) else (str(type(a)), str(type(b)))
    return int(one > other) - int(one < other)  # type: ignore[operator]


def is_met(condition: Document, row: Mapping[str, SortValue]) -> bool:
    """True if MongoDB finds the row: it compares only values of the same type."""
    for name, wanted in condition.items():
        if name == "$or":
            if not any(is_met(each, row) for each in wanted):
                return False
        elif not is_like(row[name], wanted if isinstance(wanted, dict) else {"$eq": wanted}):
            return False
    return True


def is_like(found: SortValue, wanted: Document) -> bool:
    ((operator, value),) = wanted.items()
    match operator:
        case "$not":
            return not is_like(found, value)
        case "$eq" | "$ne":
            return (found == value) is (operator == "$eq")
    by = compare(found, value)
    return type(found) is type(value) and {"$gt": by > 0, "$gte": by >= 0}[operator]


@given(tables, orders, st.data())
@pytest.mark.long
def test_rows_after_a_row_follow_it_in_sort_order(
    table: list[Row], order: tuple[tuple[str, int], ...], data: st.DataObject
) -> None:
    rows = [dict(zip(FIELDS, row, strict=True)) for row in table]

    def by_order(a: dict[str, Any], b: dict[str, Any]) -> int:
        return next((sign * by for name, sign in order if (by := compare(a[name], b[name]))), 0)

    rows.sort(key=functools.cmp_to_key(by_order))
    index = data.draw(st.integers(0, len(rows) - 1))
    conditions = after_row(order, [rows[index][name] for name, _ in order])
    assert [row for row in rows if all(is_met(each, row) for each in conditions)] == rows[index + 1 :]
