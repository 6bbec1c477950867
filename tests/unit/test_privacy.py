"""What is left of orders and returns of people who are forgotten, and whom a message is about."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.orders import Order, OrderLine, after_event
from domain.privacy import forgotten_order, mark_of, people_in

AT = datetime(2026, 1, 1, tzinfo=UTC)
BODY = {
    "id": "o",
    "number": "CO-1",
    "status": "New",
    "customerId": "anna",
    "customerEmail": "anna@example.com",
    "address": {"street": "Lindenallee 7"},
    "items": [{"id": "line", "quantity": 2, "price": 3.5, "engraving": "For Anna"}, "nonsense"],
}


def an_order(minute: int = 0) -> Order:
    line = OrderLine("line", "p", "Camera", 2, 3.5)
    body = json.dumps(BODY).encode()
    return Order("o", "CO-1", "New", False, "store", "anna", AT.replace(minute=minute), (line,), body, (), ("d",))


def test_an_order_without_whoever_ordered() -> None:
    forgotten = forgotten_order(an_order())
    assert forgotten.available() == an_order().available()
    assert json.loads(forgotten.body) == {
        "id": "o",
        "number": "CO-1",
        "status": "New",
        "items": [{"id": "line", "quantity": 2, "price": 3.5}],
    }
    for trace in ("anna", "Lindenallee", "Anna"):
        assert trace not in repr(forgotten)
    assert forgotten_order(forgotten) == forgotten


def test_events_that_were_known_bring_nobody_back() -> None:
    forgotten = forgotten_order(after_event(None, an_order(5), "d5"))
    assert after_event(forgotten, an_order(5), "d5") is forgotten
    assert after_event(forgotten, an_order(1), "d1").customer_id is None
    assert after_event(forgotten, an_order(9), "d9").customer_id == "anna"


@pytest.mark.parametrize(
    ("value", "people"),
    [
        ({"userId": "a"}, {"a"}),
        ([{"userId": "a"}, {"customerId": "b"}, {"id": "c"}, 1], {"a", "b"}),
        ({"userId": None, "customerId": ""}, set()),
        ({"userId": ["a"], "customerId": 7}, set()),
        ("anna", set()),
        (None, set()),
    ],
)
def test_whom_a_message_is_about(value: Any, people: set[str]) -> None:
    assert people_in(value) == people


@given(st.text(), st.text())
def test_a_mark_tells_people_apart_without_naming_them(one: str, other: str) -> None:
    assert (mark_of(one) == mark_of(other)) == (one == other)
    assert len(mark_of(one)) == 64
