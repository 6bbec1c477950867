"""What is left of orders and returns of people who are forgotten, and whom a message is about."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.orders import Order, OrderLine, after_event
from domain.privacy import forgotten_order, forgotten_return, mark_of, people_in
from domain.returns import Return, ReturnLine, ReturnStatus

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


def test_nothing_of_the_person_stays_in_an_order() -> None:
    order = replace(an_order(), customer_name="Anna Berg", customer_email="anna@example.com", language_code="de")
    assert forgotten_order(order) == replace(
        order, customer_id=None, customer_name=None, customer_email=None, language_code=None, body=_kept(order)
    )


def _kept(order: Order) -> bytes:
    return forgotten_order(order).body


def test_names_of_things_stay_as_they_were_written() -> None:
    body = json.dumps({"items": [{"name": "Öse"}], "customerName": "Åsa"}, ensure_ascii=False).encode()
    assert forgotten_order(replace(an_order(), body=body)).body == '{"items": [{"name": "Öse"}]}'.encode()


@pytest.mark.parametrize("by", ["anna", "clerk", None])
def test_a_return_without_whoever_asked_for_it(by: str | None) -> None:
    line = ReturnLine("l", "line", 2, 3.5, "Too small for Anna", AT, AT, by, by)
    stored = Return("r", "RET1", "o", ReturnStatus.NEW, "For Anna", (line, line), AT, AT, by, by, store_id="s")
    left = None if by == "anna" else by
    line = replace(line, reason=None, created_by=left, modified_by=left)
    assert forgotten_return(stored, "anna") == replace(
        stored, resolution=None, lines=(line, line), created_by=left, modified_by=left
    )
