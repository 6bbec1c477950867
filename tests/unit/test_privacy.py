"""Orders and returns without the people who are erased, and the people whom a message concerns."""

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from domain import privacy as domain_privacy
from domain.addresses import bare_address
from domain.orders import NO_BODY, Customer, Order, OrderLine, after_event
from domain.privacy import (
    MOST_BROKEN,
    MOST_EMBEDDED,
    MOST_PARSED,
    MessageSearch,
    erasure_mark,
    is_another,
    is_of,
    order_without_customer,
    part_in_return,
    people_in,
    return_command_without_customer,
    return_without_customer,
    return_without_name,
    without_person,
)
from domain.returns import Return
from domain.returns_lines import ReturnLine
from domain.returns_statuses import ReturnStatus
from plaudit.cli import privacy
from plaudit.config import Settings
from plaudit.tools import privacy as privacy_export
from tests.support.domain_orders import order_of
from tests.support.records import Record

AT = datetime(2026, 1, 1, tzinfo=UTC)
BODY = {
    "id": "o",
    "number": "CO-1",
    "status": "New",
    "currency": "EUR",
    "customerId": "anna",
    "customerEmail": "anna@example.com",
    "address": {"street": "Lindenallee 7"},
    "items": [{"id": "line", "quantity": 2, "price": 3.5, "engraving": "For Anna"}, "nonsense"],
}


def is_about(value: bytes, customer_id: str, order_ids: Collection[str], addresses: Collection[str] = ()) -> bool:
    """Search one message."""
    return MessageSearch(customer_id, order_ids, addresses).is_about(value)


def order_with_customer(minute: int = 0) -> Order:
    line = OrderLine("line", "p", "Camera", 2, 3.5)
    return order_of([line], modified=AT.replace(minute=minute), body=json.dumps(BODY).encode(), digests=("d",))


@pytest.mark.parametrize(
    ("customer", "is_theirs"),
    [
        (Customer("4711", email="anna@example.com"), False),
        (Customer("anna@example.com"), True),
        (Customer(email="Anna@Example.com"), True),
        (Customer(email=" Anna Berg <anna@example.com>"), True),
        (Customer(email="berta@example.com"), False),
        (Customer(email="anna@example.com, berta@example.com"), False),
        (Customer(), False),
    ],
)
def test_order_belongs_to_a_person(customer: Customer, is_theirs: bool) -> None:
    for person in ("anna@example.com", "Anna <anna@example.com>"):
        assert is_of(customer, person) == (is_theirs and customer.id in (None, person))
    assert not is_of(customer, "anna")


def test_order_without_its_customer() -> None:
    forgotten = order_without_customer(order_with_customer())
    assert forgotten.available() == order_with_customer().available()
    assert json.loads(forgotten.body) == {
        "id": "o",
        "number": "CO-1",
        "status": "New",
        "currency": "EUR",
        "items": [{"id": "line", "quantity": 2, "price": 3.5}],
    }
    for trace in ("anna", "Lindenallee", "Anna"):
        assert trace not in repr(forgotten)
    assert order_without_customer(forgotten) == forgotten


def test_order_in_another_format_keeps_its_known_fields() -> None:
    order = replace(order_with_customer(), body=b'{"Status": "Paid", "lines": {"p": 2}, "buyer": "Anna"}')
    forgotten = order_without_customer(order)
    assert json.loads(forgotten.body) == {
        "id": "o",
        "number": "CO1",
        "status": "New",
        "storeId": "shop",
        "items": [{"id": "line", "productId": "p", "name": "Camera", "quantity": 2, "price": 3.5}],
    }
    assert order_without_customer(forgotten) == forgotten
    assert order_without_customer(replace(order, lines=())).body == b'{"status": "Paid"}'
    # The same holds for an order that has lost its body.
    assert order_without_customer(replace(order, body=NO_BODY)) == order_without_customer(replace(order, body=b"{}"))
    assert order_without_customer(replace(order, body=NO_BODY, lines=())).body == b"{}"


@pytest.mark.parametrize(
    "fields",
    [
        {"Currency": "eur", "items": []},
        {"currency": "EUR", "line_items": [{"id": 1}]},
        {"totalPrice": {"currencyCode": "EUR", "payer": "Anna"}, "lineItems": [{"id": "line"}]},
        {"currency": {"name": "Euro"}, "totalPrice": {"currencyCode": "eur"}, "lineItems": [{"id": "line"}]},
    ],
)
def test_order_without_its_customer_keeps_its_currency(fields: dict[str, Any]) -> None:
    forgotten = order_without_customer(replace(order_with_customer(), body=json.dumps(fields).encode()))
    assert json.loads(forgotten.body)["currency"] == "EUR"
    assert b"Anna" not in forgotten.body
    assert order_without_customer(forgotten) == forgotten


def test_order_without_its_customer_keeps_no_other_currency_than_a_code() -> None:
    body = json.dumps({"currency": {"name": "Euro", "payer": "Anna"}, "items": []}).encode()
    assert json.loads(order_without_customer(replace(order_with_customer(), body=body)).body) == {"items": []}


def test_known_events_do_not_restore_the_customer() -> None:
    forgotten = order_without_customer(after_event(None, order_with_customer(5), "d5"))
    assert after_event(forgotten, order_with_customer(5), "d5") is forgotten
    assert after_event(forgotten, order_with_customer(1), "d1").customer.id is None
    assert after_event(forgotten, order_with_customer(9), "d9").customer.id == "anna"


@pytest.mark.parametrize(
    ("value", "people"),
    [
        (b'{"userId": "a"}', {"a"}),
        (b'{"UserId": "a", "review": "b"}', {"a"}),
        (b'[{"userId": "a"}, {"customerId": "b"}, {"id": "c"}, 1]', {"a", "b"}),
        (b'{"userId": null, "customerId": ""}', set()),
        (b'{"userId": 4711, "customerId": 7.0}', {"4711", "7"}),
        (b'{"userId": 123456789012345678901234567890}', {"123456789012345678901234567890"}),
        (b'{"userId": "a", "userId": "b"}', {"a", "b"}),
        (b'{"action": "create", "user": "a", "return": {"createdBy": "b", "orderId": "o"}}', {"a", "b"}),
        (b'{"order": {"customer": {"id": 7, "name": "Anna"}}}', {"7"}),
        (b'{"customer": {"account": {"userId": "a"}}}', {"a"}),
        (b'{"customer": {"id": 7, "userId": "a", "Id": "b", "email": "c"}}', {"7", "a", "b", "c"}),
        (b'{"customer": {"id": {"userId": "a"}, "user": {"id": null}}}', {"a"}),
        (b'{"id": "i", "digest": "d", "uploader": "a"}', {"a"}),
        (b'{"id": "o", "customerEmail": "a@example.com", "customerName": "b"}', {"a@example.com"}),
        (b'{"email": "Ann <A@Example.com>"}', {"Ann <A@Example.com>", "a@example.com"}),
        (b'{"customer_id": 26, "return": {"created-by": "b", "User_Id": "c"}}', {"26", "b", "c"}),
        (b'{"userId": "[a]", "review": "[b"}', {"[a]"}),
        (b'{"entityId": "a", "rating": 5}', set()),
        (b'{"order": {"userId": "a"}, "lines": [1]}', {"a"}),
        (b'{"data": "\\n {\\"userId\\": \\"a\\"}"}', {"a"}),
        (b'{"userId": "a \xed\xa0\x80"}', {"a \ud800"}),
        (b'{"note": "' + b64encode(b'{"userId": "a"}') + b'"}', set()),
        (b'"anna"', set()),
        (b"null", set()),
        (b"", set()),
        (b'{"userId": "anna berg", "rating"', {"userId", "anna berg", "rating"}),
        (b"userId=4711;x", {"userId", "4711", "x"}),
        (b"[" * 100_000, set()),
    ],
)
def test_people_in_a_message(value: bytes, people: set[str]) -> None:
    assert people_in(value) == people


@pytest.mark.parametrize(
    ("value", "about"),
    [
        (b'{"userId": "4711"}', True),
        (b'{"userId": 4711}', True),
        (b'{"return": {"orderId": "o-1"}}', True),
        (b'{"return": {"OrderId": "o-2"}}', False),
        (b'{"entityId": "4711", "rating": 4711, "userId": "b"}', False),
        (b'{"order_id": "o-1"}', True),
        (b'{"review": "{\\"order_id\\": \\"o-1\\"}"}', True),
        (b'{"userId": "4711", "review": "Cut off', True),
        (b'{"userId": 4711', True),
        (b"\xff\xfe 4711 \x00", True),
        (b'{"orderId": "o-1"', True),
        (b'{"userId": "47110"', False),
        (b'{"userId": "4711-1"', False),
        (b"", False),
    ],
)
def test_message_about_a_customer(value: bytes, about: bool) -> None:
    assert is_about(value, "4711", ["o-1"]) == about


@pytest.mark.parametrize(
    ("value", "about"),
    [
        (b'{"customerEmail": "ann@example.com"}', True),
        (b'{"report": {"email": "Ann Berg <ANN@example.com>"}}', True),
        (b'{"email": "Ann@Example.com", "text"', True),
        (b'{"email": "joann@example.com"}', False),
        (b'{"text": "ann@example.com"}', False),
        (b'{"email": "bo@example.com", "text"', False),
    ],
)
def test_message_about_a_mail_address(value: bytes, about: bool) -> None:
    assert is_about(value, "4711", (), ["Ann@example.com"]) == about


def test_person_is_found_in_json_nested_too_deep_to_be_parsed() -> None:
    for depth in (100, 500, 900, 2_000):
        assert is_about(b'{"userId": "4711", "x": ' + b"[" * depth + b"]" * depth + b"}", "4711", ())
        assert is_about(b'{"orderId": "o-1", "x": ' + b"[" * depth + b"]" * depth + b"}", "4711", ["o-1"])


@pytest.mark.parametrize("times", range(MOST_EMBEDDED + 2))
def test_person_is_found_in_embedded_json(times: int) -> None:
    """As from a sender that encodes JSON twice, in another system's payload, or in a dead letter's edited value."""
    whole = value = json.dumps({"userId": 4711})
    for _ in range(times):
        whole, value = json.dumps(whole), json.dumps([{"value": value}])
    for each in (whole, value):
        assert people_in(each.encode()) == ({"4711"} if times <= MOST_EMBEDDED else set())
        assert is_about(each.encode(), "4711", ()) == (times <= MOST_EMBEDDED)


@pytest.mark.parametrize(("data", "about"), [(b'{"userId": "4711"}', True), (b"\xff 4711", False)])
def test_person_is_found_in_base64_data_of_an_event(data: bytes, about: bool) -> None:
    event = {"specversion": "1.0", "id": "1", "data_base64": b64encode(data).decode()}
    assert is_about(json.dumps(event).encode(), "4711", ()) == about
    assert not is_about(b'{"data_base64": ["4711", {}]}', "4711", ())


def test_many_texts_that_only_look_like_json_are_searched_as_plain_text() -> None:
    for count, about in ((MOST_BROKEN, False), (MOST_BROKEN + 1, True)):
        assert is_about(json.dumps(["4711", *["[x"] * count]).encode(), "4711", ()) == about


def test_addresses_are_found_among_many_slow_to_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def count_calls(text: str) -> str:
        parsed.append(text)
        return bare_address(text)

    monkeypatch.setattr(domain_privacy, "bare_address", count_calls)
    others = ({"email": f"a!{n}@b.c"} for n in range(10_000))
    theirs = ["Ann!Berg@Example.com", "Ann <ann@example.com>", "bo@example.com", "Bo <bo@example.LUX >"]
    value = json.dumps([*others, *({"email": each} for each in theirs)]).encode()
    assert {"ann!berg@example.com", "ann@example.com", "bo@example.com", "bo@example.lux"} <= people_in(value)
    assert len(parsed) == MOST_PARSED
    assert is_about(value, "4711", (), ["ann!berg@example.com"])


async def test_ids_are_made_expressions_once_for_all_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A letter that isn't JSON would cost thousands of expressions otherwise, one for each order."""
    escaped, original = list[str](), re.escape
    texts = ("o/7", "o/77", "x")
    letters = [Record(n, value=f"<order>{id}</order>".encode()) for n, id in enumerate(texts)]

    async def dead_letters(*_: object) -> AsyncIterator[list[Record]]:
        yield letters[:2]
        yield letters[2:]

    def count_calls(text: str) -> str:
        escaped.append(text)
        return original(text)

    monkeypatch.setattr(privacy_export, "dead_letters", dead_letters)
    monkeypatch.setattr("re.escape", count_calls)
    found = privacy_export.letters_about(Settings(), "anna", [f"o/{n}" for n in range(50)], ["anna@example.com"])
    assert [each.offset async for each in found] == [0]
    assert len(escaped) == len(set(escaped))


@pytest.mark.parametrize("written", ['Ö"1', '\\u00d6\\"1', 'Ö\\"1'], ids=["as it is", "in ASCII", "in Unicode"])
def test_escaped_id_is_found_in_a_truncated_message(written: str) -> None:
    assert is_about(f'{{"userId": "{written}"'.encode(), 'Ö"1', ())


@given(st.text(min_size=1))
def test_person_is_found_in_any_json_notation(customer: str) -> None:
    for ascii in (True, False):
        whole = json.dumps({"a": [{"userId": customer}]}, ensure_ascii=ascii).encode(errors="surrogatepass")
        assert is_about(whole, customer, ())
    assert is_about(json.dumps({"userId": customer}).encode()[:-1], customer, ())


def test_return_command_without_its_customer() -> None:
    wanted = {"id": "r", "orderId": "o", "resolution": "Refund me", "lineItems": [{"quantity": 2, "reason": "Broke"}]}
    command = {"action": "create", "user": "anna", "return": wanted}
    forgotten = json.loads(return_command_without_customer(json.dumps(command).encode(), "anna") or b"")
    assert forgotten == {"action": "create", "return": {"id": "r", "orderId": "o", "lineItems": [{"quantity": 2}]}}
    assert json.loads(return_command_without_customer(json.dumps(command).encode(), "berta") or b"")["user"] == "anna"
    for value in (b"{", b"\xff", b"[]", b'{"user": "anna"}', b'{"return": []}', b'{"return": {"lineItems": [5]}}'):
        assert return_command_without_customer(value, "anna") is None


def test_command_without_free_text_keeps_its_bytes() -> None:
    command = '{"return": {"id": "r", "lineItems": [{"orderLineItemId": "Öse"}]}}'.encode()
    assert return_command_without_customer(command, "anna") == command


@given(st.text(), st.text())
def test_erasure_marks_differ_by_person_and_key(one: str, other: str) -> None:
    assert (erasure_mark(one, b"key") == erasure_mark(other, b"key")) == (one == other)
    assert erasure_mark(one, b"key") != erasure_mark(one, b"another")
    assert len(erasure_mark(one, b"key")) == 64


def test_lone_surrogates_have_erasure_marks() -> None:
    assert erasure_mark("\ud800", b"key") != erasure_mark("\udfff", b"key")


def test_nothing_of_the_customer_is_left_in_an_order() -> None:
    anna = Customer("anna", "Anna Berg", "anna@example.com", "de")
    order = replace(order_with_customer(), customer=anna, former_customers=("berta",))
    forgotten = order_without_customer(order)
    assert forgotten == replace(order, customer=Customer(), former_customers=(), body=forgotten.body)


def test_product_names_keep_their_characters() -> None:
    body = json.dumps({"items": [{"name": "Öse"}], "customerName": "Åsa"}, ensure_ascii=False).encode()
    assert (
        order_without_customer(replace(order_with_customer(), body=body)).body
        == '{"items": [{"name": "Öse"}]}'.encode()
    )


@pytest.mark.parametrize("by", ["anna", "clerk", None])
def test_return_without_its_customer(by: str | None) -> None:
    line = ReturnLine("l", "line", 2, 3.5, "Too small for Anna", AT, AT, by, by)
    stored = Return("r", "RET1", "o", ReturnStatus.NEW, "For Anna", (line, line), AT, AT, by, by, store_id="s")
    stored = replace(stored, origin=7)
    left, hers = (None, "anna") if by == "anna" else (by, None)
    unnamed = replace(line, created_by=left, modified_by=left)
    without = replace(stored, lines=(unnamed, unnamed), created_by=left, modified_by=left)
    assert return_without_name(stored, "anna") == without
    line = replace(unnamed, reason=None)
    assert return_without_customer(stored, "anna") == replace(without, resolution=None, origin=None, lines=(line, line))
    line = replace(line, created_by=hers, modified_by=hers)
    part = replace(stored, resolution=None, origin=None, lines=(line, line), created_by=hers, modified_by=hers)
    assert part_in_return(stored, "anna") == part


@pytest.mark.parametrize(
    ("customer", "is_other"),
    [
        (None, False),
        (Customer(), False),
        (Customer("anna"), False),
        (Customer("berta"), True),
        (Customer(name="Berta"), True),
        (Customer(email="berta@example.com"), True),
    ],
    ids=["an unknown order", "an erased customer", "the person", "another", "a named guest", "a guest with an address"],
)
def test_free_text_of_another_customer_stays(customer: Customer | None, is_other: bool) -> None:
    assert is_another(customer, "anna") is is_other
    line = ReturnLine("l", "line", 2, 3.5, "Too small", AT, AT, "anna", "clerk")
    stored = Return("r", "RET1", "o", ReturnStatus.NEW, "Refund", (line,), AT, AT, "anna", "clerk", store_id="s")
    without = return_without_name if is_other else return_without_customer
    assert without_person(stored, customer, "anna") == without(stored, "anna")
    assert without_person(stored, customer, "berta") != without_person(stored, customer, "anna")


def test_empty_id_is_in_no_message() -> None:
    assert not is_about(b"no JSON,  at all: anna", "", ())
    assert not is_about(b'{"userId": ""}', "", ())


@pytest.mark.parametrize("nobody", ["", " "])
@pytest.mark.parametrize("command", [["export"], ["erase", "--yes"]])
def test_commands_refuse_an_empty_id(command: list[str], nobody: str) -> None:
    ended = CliRunner().invoke(privacy.app, [*command, "--customer", nobody])
    assert (ended.exit_code, "Give the id of a person" in ended.output) == (2, True)
