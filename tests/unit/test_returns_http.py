import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from api.orders.rows import order_details
from api.returns.checks import new_return
from api.returns.routes import NEW_RETURN, SAVED_RETURN
from api.returns.rows import return_row
from api.returns.search import RETURN_SEARCH
from api.web.bodies import parse_json
from api.web.problems import ProblemError
from domain.delivery import Seen
from domain.orders import OrderLine
from domain.returns import Return
from domain.returns_lines import ReturnLine
from domain.returns_statuses import ReturnStatus
from domain.sorting import Direction
from messaging.orders import order_event
from storage.returns.search import ReturnSearch, ReturnSortField
from tests.support.app import places_in, problem_in
from tests.support.domain_orders import order_of

NUMBER = ReturnSortField.NUMBER
LINE: dict[str, Any] = {"orderLineItemId": "a", "quantity": 1}
RETURN: dict[str, Any] = {"orderId": "o", "lineItems": [LINE]}
AT = datetime(2022, 10, 4, 3, 46, 43, 433_000, tzinfo=UTC)


def criteria(**fields: Any) -> ReturnSearch:
    return parse_json(RETURN_SEARCH, json.dumps(fields).encode()).criteria()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"orderId": "", "objectIds": [], "keyword": "", "sort": "", "skip": 0, "take": 20},
        {"orderId": None, "objectIds": None, "keyword": None, "sort": None, "skip": None, "take": None},
        {"unknown": [1], "sort": " ; "},
    ],
)
def test_empty_criteria_do_not_restrict(fields: dict[str, Any]) -> None:
    assert criteria(**fields) == ReturnSearch(sort=[])


def test_all_criteria_together() -> None:
    found = criteria(orderId="o", objectIds=["1", "2"], keyword="a.b", sort="Ascending", skip=7, take=0)
    assert found == ReturnSearch("o", ["1", "2"], "a.b", [(NUMBER, Direction.ASC)], skip=7, take=0)


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("Ascending", [(NUMBER, Direction.ASC)]),
        ("ascending", [(NUMBER, Direction.ASC)]),
        (" DESCENDING ", [(NUMBER, Direction.DESC)]),
        ("number:desc", [(NUMBER, Direction.DESC)]),
        ("asc", [(NUMBER, Direction.ASC)]),
        ("Desc", [(NUMBER, Direction.DESC)]),
        ("createdBy-descending", [(ReturnSortField.CREATED_BY, Direction.DESC)]),
        (
            "ModifiedBy;orderId:asc",
            [(ReturnSortField.MODIFIED_BY, Direction.ASC), (ReturnSortField.ORDER_ID, Direction.ASC)],
        ),
        ("status;number:desc", [(ReturnSortField.STATUS, Direction.ASC), (NUMBER, Direction.DESC)]),
    ],
)
def test_sort_by_direction_or_fields(sort: str, expected: object) -> None:
    assert criteria(sort=sort).sort == expected


@pytest.mark.parametrize("sort", ["Random", "Ascending:desc", "ascending;number", "price", "number:up"])
def test_unknown_sort_is_a_bad_request(sort: str) -> None:
    with pytest.raises(ProblemError, match="Or use Ascending or Descending") as caught:
        criteria(sort=sort)
    assert caught.value.kind.status == 400


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"take": -1}, "/take"),
        ({"take": 1_001}, "/take"),
        ({"take": "20"}, "/take"),
        ({"skip": -1}, "/skip"),
        ({"skip": 2**31}, "/skip"),
        ({"orderId": 1}, "/orderId"),
        ({"objectIds": "a"}, "/objectIds"),
        ({"objectIds": ["a", None]}, "/objectIds/1"),
        ({"objectIds": ["a"] * 1_001}, "/objectIds"),
        ({"keyword": "\x00"}, "/keyword"),
        ({"sort": ["Ascending"]}, "/sort"),
        ({"responseGroup": "Full"}, "/responseGroup"),
        ({"responseGroup": 1}, "/responseGroup"),
        ({"responseGroup": 0}, "/responseGroup"),
        ({"responseGroup": False}, "/responseGroup"),
        ({"responseGroup": {}}, "/responseGroup"),
        ({"responseGroup": []}, "/responseGroup"),
        ({"ids": ["a"] * 1_001}, "/ids"),
    ],
)
def test_error_names_its_field(fields: dict[str, Any], pointer: str) -> None:
    assert [place for place, _ in places_in(RETURN_SEARCH, fields)] == [pointer]


@pytest.mark.parametrize(
    ("group", "with_orders"),
    [(None, True), ("", True), (" ", True), ("Default", True), ("withorders", True), ("None", False), ("none", False)],
)
def test_response_groups(group: str | None, with_orders: bool) -> None:
    assert parse_json(RETURN_SEARCH, json.dumps({"responseGroup": group}).encode()).with_orders is with_orders


def test_ids_and_object_ids_are_synonyms() -> None:
    assert criteria(ids=["1"]).ids == criteria(objectIds=["1"]).ids == criteria(ids=["1"], objectIds=["1"]).ids == ["1"]
    with pytest.raises(ProblemError) as caught:
        criteria(ids=["1"], objectIds=["2"])
    assert [(error["pointer"], error["code"]) for error in caught.value.errors] == [("/ids", "contradicts")]


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({}, [("/orderId", "missing"), ("/lineItems", "missing")]),
        ({"orderId": "o", "id": ""}, [("/lineItems", "missing")]),
        ({**RETURN, "id": None, "expectedStatus": "Approved"}, [("/expectedStatus", "contradicts")]),
        ({**RETURN, "id": None, "lineItems": [LINE, {**LINE, "id": "mine"}]}, [("/lineItems/1/id", "contradicts")]),
    ],
)
def test_new_return_by_put_has_order_and_lines_and_no_expected_status_or_line_ids(
    fields: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    with pytest.raises(ProblemError) as caught:
        new_return(parse_json(SAVED_RETURN, json.dumps(fields).encode()))
    assert [(error["pointer"], error["code"]) for error in caught.value.errors] == errors


def test_new_return_by_put() -> None:
    wanted = new_return(parse_json(SAVED_RETURN, json.dumps({**RETURN, "status": "New", "id": None}).encode()))
    assert wanted == parse_json(NEW_RETURN, json.dumps({**RETURN, "status": "New"}).encode())


@pytest.mark.parametrize("quantity", [0, -1, 1.5, 2**31, 10**30, "1", True, [1], 0.0])
def test_invalid_quantities_are_refused(quantity: object) -> None:
    body = {**RETURN, "lineItems": [LINE, {**LINE, "quantity": quantity}]}
    problem = problem_in(NEW_RETURN, json.dumps(body).encode())
    assert problem.kind.status == 422
    (error,) = problem.errors
    assert error["pointer"] == "/lineItems/1/quantity"
    assert error["message"].startswith("Must be ")


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"orderId": " "}, "/orderId", "blank"),
        ({"orderId": None}, "/orderId", "missing"),
        ({"lineItems": []}, "/lineItems", "too-short"),
        ({"lineItems": None}, "/lineItems", "missing"),
        ({"lineItems": [LINE] * 1_001}, "/lineItems", "too-long"),
        ({"lineItems": [{"quantity": 1}]}, "/lineItems/0/orderLineItemId", "missing"),
        ({"lineItems": [{**LINE, "price": "-1"}]}, "/lineItems/0/price", "float-type"),
        ({"lineItems": [{**LINE, "reason": 7}]}, "/lineItems/0/reason", "string-type"),
        ({"status": " "}, "/status", "blank"),
        ({"status": "a" * 65}, "/status", "string-too-long"),
        ({"resolution": "a" * 1_025}, "/resolution", "string-too-long"),
        ({"id": " "}, "/id", "blank"),
        ({"id": "a" * 129}, "/id", "string-too-long"),
    ],
)
def test_invalid_content_is_refused_with_its_place(fields: dict[str, Any], pointer: str, code: str) -> None:
    assert places_in(NEW_RETURN, {**RETURN, **fields}) == [(pointer, code)]


@pytest.mark.parametrize("codec", [NEW_RETURN, SAVED_RETURN, RETURN_SEARCH])
@pytest.mark.parametrize("body", [[], None, "a", 1])
def test_bodies_are_objects(codec: TypeAdapter[Any], body: object) -> None:
    assert [place for place, _ in places_in(codec, body)] == [""]


def test_negative_price_of_a_discount_can_be_returned() -> None:
    order = {"id": "o", "status": "New", "items": [{"id": "a", "quantity": 1, "price": -5}]}
    event, _ = order_event(json.dumps(order).encode())
    (line,) = event.order(b"", AT).lines
    assert line.price == -5
    body = json.dumps({**RETURN, "lineItems": [{**LINE, "price": line.price}]}).encode()
    assert parse_json(NEW_RETURN, body).line_items[0].price == -5
    assert [each.price for each in parse_json(SAVED_RETURN, body).line_items or ()] == [-5]


def test_returns_and_changes_ignore_unknown_fields() -> None:
    wanted = parse_json(NEW_RETURN, json.dumps({**RETURN, "id": "", "status": None, "more": 1}).encode())
    assert (wanted.id, wanted.status, wanted.line_items[0].quantity) == (None, None, 1)
    changes = parse_json(SAVED_RETURN, b'{"id": "r", "status": "Canceled", "number": "RET1"}')
    assert (changes.id, changes.status, changes.line_items) == ("r", ReturnStatus.CANCELED, None)


def test_row_shows_the_original_order() -> None:
    body = b'{"id": "o", "total": 10.50, "items": [], "extra": {"b": 1, "a": null}}'
    order = order_of([OrderLine("a", None, None, 5, 10)], body=body, returned={"a": 2})
    lines = tuple(ReturnLine(id, id.lower(), 2, 10, None, AT, AT) for id in ("A", "X"))
    stored = Return("r", "RET1", "o", ReturnStatus.NEW, None, lines, AT, AT, "ben", "eva", Seen())
    shown = orjson.dumps(return_row(stored, order))
    assert body in shown
    row = orjson.loads(shown)
    assert list(row) == [
        *("id", "number", "orderId", "status", "resolution", "currency", "order", "lineItems"),
        *("createdDate", "modifiedDate", "createdBy", "modifiedBy"),
    ]
    assert [line["availableQuantity"] for line in row["lineItems"]] == [5, 2]
    assert row["lineItems"][0] == {
        "id": "A",
        "returnId": "r",
        "orderLineItemId": "a",
        "quantity": 2,
        "availableQuantity": 5,
        "price": 10,
        "reason": None,
        "createdDate": "2022-10-04T03:46:43.433Z",
        "modifiedDate": "2022-10-04T03:46:43.433Z",
        "createdBy": None,
        "modifiedBy": None,
    }
    assert (row["createdBy"], row["modifiedBy"]) == ("ben", "eva")
    nothing_known = orjson.loads(orjson.dumps(return_row(replace(stored, lines=lines[:1]), None)))
    assert nothing_known["order"] is None
    assert nothing_known["lineItems"][0]["availableQuantity"] == 2
    canceled = orjson.loads(orjson.dumps(return_row(replace(stored, status=ReturnStatus.CANCELED), order)))
    assert [line["availableQuantity"] for line in canceled["lineItems"]] == [3, 0]
    without = orjson.loads(orjson.dumps(return_row(stored, order, with_order=False)))
    assert without == {**row, "order": None}


@pytest.mark.parametrize(
    ("body", "currency"),
    [
        ('{"currency": "EUR"}', "EUR"),
        ('{"Currency": "usd"}', "USD"),
        ('{"totalPrice": {"currencyCode": "CHF", "centAmount": 1}}', "CHF"),
        ('{"currency": {"name": "Euro"}}', None),
        ('{"currency": "Euro"}', None),
        ('{"currency": ""}', None),
        ("{}", None),
        ("[]", None),
        ("null", None),
        ("damaged", None),
    ],
)
def test_amounts_have_the_currency_of_their_order(body: str, currency: str | None) -> None:
    order = order_of([OrderLine("a", None, None, 5, 10)], body=body.encode())
    stored = Return("r", "RET1", "o", ReturnStatus.NEW, None, (), AT, AT, "ben", "eva", Seen())
    assert return_row(stored, order, with_order=False)["currency"] == currency
    assert order_details(order, {})["currency"] == currency
    assert return_row(stored, None)["currency"] is None
