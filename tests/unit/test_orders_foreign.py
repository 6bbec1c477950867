"""Orders in the formats of other systems."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.orders import Customer, Order, OrderLine, after_event
from domain.privacy import order_without_customer
from messaging.decoding import InvalidMessageError
from messaging.orders import order_event
from messaging.reading_errors import InvalidContentError

AT = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)

VIRTO = {
    "customerId": "anna",
    "customerName": "Anna Berg",
    "number": "CO260314-00001",
    "storeId": "Electronics",
    "organizationId": None,
    "languageCode": "de-DE",
    "addresses": [{"addressType": 1, "email": None}, None, {"addressType": "Shipping", "email": "anna@example.com"}],
    "items": [
        {"id": "line", "productId": "camera", "name": "Camera", "quantity": 2, "price": 12.5, "discounts": None},
    ],
    "status": "Processing",
    "isCancelled": None,
    "cancelledDate": None,
    "createdDate": "2026-03-14T09:00:00Z",
    "modifiedDate": "2026-03-14T09:26:53Z",
    "id": "order",
}
SHOPIFY = {
    "id": 820982911946154500,
    "email": None,
    "contact_email": "anna@example.com",
    "created_at": "2026-03-14T10:00:00+01:00",
    "updated_at": "2026-03-14T10:26:53+01:00",
    "cancelled_at": None,
    "number": 234,
    "order_number": 1234,
    "name": "#1234",
    "financial_status": "paid",
    "fulfillment_status": None,
    "customer_locale": "de-DE",
    "customer": {"id": 115310627314723950, "email": "other@example.com", "first_name": "Anna", "last_name": "Berg"},
    "billing_address": {"name": "Somebody Else"},
    "line_items": [
        {"id": 1, "product_id": 7, "title": "Camera", "name": "Camera - black", "quantity": 2, "price": "12.50"},
        {"id": 2, "product_id": None, "title": "Gift wrap", "quantity": 1, "price": "0.00"},
    ],
}
COMMERCETOOLS = {
    "type": "Order",
    "id": "order",
    "version": 3,
    "createdAt": "2026-03-14T09:00:00.000Z",
    "lastModifiedAt": "2026-03-14T09:26:53.000Z",
    "orderNumber": "CT-1",
    "customerId": "anna",
    "customerEmail": "anna@example.com",
    "locale": "de-DE",
    "store": {"typeId": "store", "key": "Electronics"},
    "orderState": "Confirmed",
    "shippingAddress": {"firstName": "Anna", "lastName": "Berg", "country": "DE"},
    "lineItems": [
        {
            "id": "line",
            "productId": "camera",
            "name": {"en": "Camera", "de-DE": "Kamera"},
            "price": {"id": "p", "value": {"type": "centPrecision", "centAmount": 1250, "fractionDigits": 2}},
            "quantity": 2,
        }
    ],
    "customLineItems": [],
}


FIELDS_BESIDE_LINES: dict[str, dict[str, Any]] = {
    "items": {"status": "New"},
    "line_items": {"financial_status": "paid"},
    "lineItems": {"orderState": "Open"},
}
"""The minimal fields of an order of each system, besides its lines."""


def parse_order(order: object) -> Order:
    """The order in an event's value."""
    body = json.dumps(order).encode()
    return order_event(body)[0].order(body, AT)


def refused_at(order: object) -> list[tuple[str, str]]:
    """Pointer and code of each error of an order that is refused."""
    with pytest.raises(InvalidContentError) as refused:
        parse_order(order)
    return [(error.pointer, error.code) for error in refused.value.errors]


def test_virto_order() -> None:
    order = parse_order(VIRTO)
    assert order.customer == Customer("anna", "Anna Berg", "anna@example.com", "de-DE")
    fields = (order.id, order.number, order.status, order.store_id)
    assert fields == ("order", "CO260314-00001", "Processing", "Electronics")
    assert order.lines == (OrderLine("line", "camera", "Camera", 2, 12.5),)
    assert (order.is_cancelled, order.modified) == (False, AT)
    assert json.loads(order.body) == VIRTO


def test_shopify_order() -> None:
    order = parse_order(SHOPIFY)
    assert order.customer == Customer("115310627314723950", "Anna Berg", "anna@example.com", "de-DE")
    assert (order.id, order.number, order.status) == ("820982911946154500", "#1234", "paid")
    assert order.lines == (OrderLine("1", "7", "Camera", 2, 12.5), OrderLine("2", None, "Gift wrap", 1, 0))
    assert (order.is_cancelled, order.modified, order.store_id) == (False, AT, None)
    assert parse_order({**SHOPIFY, "storeId": "Electronics"}).store_id == "Electronics"


@pytest.mark.parametrize(
    ("fields", "status", "is_cancelled"),
    [
        ({"fulfillment_status": "fulfilled"}, "Complete", False),
        ({"fulfillment_status": "partial"}, "partial", False),
        ({"financial_status": None}, "New", False),
        ({"cancelled_at": "2026-03-14T10:26:53+01:00", "fulfillment_status": "fulfilled"}, "Cancelled", True),
    ],
)
def test_status_of_shopify_order(fields: dict[str, Any], status: str, is_cancelled: bool) -> None:
    order = parse_order({**SHOPIFY, **fields})
    assert (order.status, order.is_cancelled) == (status, is_cancelled)


def test_commercetools_order() -> None:
    order = parse_order(COMMERCETOOLS)
    assert order.customer == Customer("anna", "Anna Berg", "anna@example.com", "de-DE")
    assert (order.id, order.number, order.status, order.store_id) == ("order", "CT-1", "Confirmed", "Electronics")
    assert order.lines == (OrderLine("line", "camera", "Kamera", 2, 12.5),)
    assert (order.is_cancelled, order.modified) == (False, AT)
    assert parse_order({**COMMERCETOOLS, "orderState": "Cancelled"}).is_cancelled


@pytest.mark.parametrize(
    ("price", "found"),
    [
        ({"value": {"centAmount": 500, "fractionDigits": 0}}, 500),
        ({"value": {"type": "highPrecision", "centAmount": 1, "preciseAmount": 12345, "fractionDigits": 6}}, 0.012345),
        ({"value": {"centAmount": 1250}, "discounted": {"value": {"centAmount": 999, "fractionDigits": 2}}}, 9.99),
        ({"centAmount": 1250, "fractionDigits": 2}, 12.5),
        ("12.50", 12.5),
        (None, None),
    ],
)
def test_prices_of_commercetools(price: object, found: float | None) -> None:
    line = {"id": "line", "quantity": 1, "price": price}
    assert parse_order({**COMMERCETOOLS, "lineItems": [line]}).lines[0].price == found


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"id": 1, "productId": 7, "quantity": "2", "price": "12.50"}, OrderLine("1", "7", None, 2, 12.5)),
        ({"ID": "1", "QUANTITY": 2.0, "Price": None}, OrderLine("1", None, None, 2)),
        ({"id": "1", "quantity": "2.0"}, OrderLine("1", None, None, 2)),
    ],
)
def test_numbers_in_other_notations(fields: dict[str, Any], line: OrderLine) -> None:
    order = parse_order({"id": 1, "number": 17, "customerId": 3, "status": "New", "items": [fields, None]})
    assert (order.id, order.number, order.customer.id, order.lines) == ("1", "17", "3", (line,))


@pytest.mark.parametrize("quantity", ["two", "1.5", True, -1, "-1", "", None, [], "1e3"])
def test_invalid_quantities_are_refused(quantity: object) -> None:
    for lines, fields in FIELDS_BESIDE_LINES.items():
        order = {"id": "1", **fields, lines: [{"id": "1", "quantity": quantity}]}
        assert [pointer for pointer, _ in refused_at(order)] == ["/items/0/quantity"]


@pytest.mark.parametrize("lines", FIELDS_BESIDE_LINES)
@pytest.mark.parametrize("twice", ['"ID": "2",', '"extra": {"a": 1, "a": 2},', '"shop": 1, "shop": 1,'])
def test_repeated_field_is_refused(lines: str, twice: str) -> None:
    beside = json.dumps(FIELDS_BESIDE_LINES[lines]).strip("{}")
    value = f'{{"id": "1", {twice} {beside}, "{lines}": []}}'
    with pytest.raises(InvalidContentError) as refused:
        order_event(value.encode())
    assert {error.code for error in refused.value.errors} == {"duplicate-field"}


_EMAIL = "anna@example.com"
NO_TEXTS: tuple[Any, ...] = (0, False, {}, [], 7)


@pytest.mark.parametrize(
    ("order", "twice"),
    [
        ({**VIRTO, "customerEmail": _EMAIL, "CustomerEmail": ""}, "/CustomerEmail"),
        ({**VIRTO, "customerEmail": None, "CustomerEmail": _EMAIL}, "/CustomerEmail"),
        ({**VIRTO, "customerEmail": " ", "CustomerEmail": None}, "/CustomerEmail"),
        ({**VIRTO, "addresses": [{}, {"email": _EMAIL, "Email": ""}]}, "/addresses/1/Email"),
        ({**SHOPIFY, "customer": {"id": 5, "ID": 6}}, "/customer/ID"),
        ({**SHOPIFY, "billing_address": {"name": "A", "Name": "B"}}, "/billing_address/Name"),
        ({**COMMERCETOOLS, "shippingAddress": {"email": _EMAIL, "EMAIL": None}}, "/shippingAddress/EMAIL"),
    ],
)
def test_repeated_field_of_a_part_is_named(order: dict[str, Any], twice: str) -> None:
    assert refused_at(order) == [(twice, "duplicate-field")]


@pytest.mark.parametrize(
    "fields",
    [
        {"customerEmail": " "},
        {"CustomerEmail": ""},
        {"addresses": [{"email": "\t"}, {"email": _EMAIL}]},
    ],
)
def test_blank_mail_address_is_ignored(fields: dict[str, Any]) -> None:
    assert parse_order({**VIRTO, **fields}).customer.email == _EMAIL


@pytest.mark.parametrize("order", [VIRTO, SHOPIFY, COMMERCETOOLS], ids=["virto", "shopify", "commercetools"])
def test_order_without_its_customer(order: dict[str, Any]) -> None:
    forgotten = order_without_customer(parse_order(order))
    assert forgotten.available() == parse_order(order).available()
    assert [line["quantity"] for line in json.loads(forgotten.body)["items"]] == [
        e.quantity for e in parse_order(order).lines
    ]
    for trace in ("anna", "Anna", "Berg", "115310627314723950", "example.com"):
        assert trace not in repr(forgotten)
    assert order_without_customer(forgotten) == forgotten


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from([VIRTO, SHOPIFY, COMMERCETOOLS]), st.data())
def test_any_field_value_is_accepted_or_refused(order: dict[str, Any], data: st.DataObject) -> None:
    changed = json.loads(json.dumps(order))
    lines = next(changed[name] for name in ("items", "line_items", "lineItems") if name in changed)
    place = data.draw(st.sampled_from([changed, lines[0]]))
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(_values)
    with suppress(InvalidContentError, InvalidMessageError):
        parse_order(changed)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        *(({**VIRTO, "customerEmail": email}, "/customerEmail") for email in NO_TEXTS),
        ({**VIRTO, "modifiedDate": "2026-13-41"}, "/modifiedDate"),
        ({"line_items": {"edges": []}, "financial_status": None}, "/items"),
        ({"line_items": ["a", {"id": 1, "quantity": 1}], "financial_status": "paid"}, "/items/0"),
        ({"lineItems": "none", "orderState": "Open"}, "/items"),
        ({"lineItems": [], "customLineItems": {}, "orderState": "Open"}, "/items"),
        ({"items": [], "status": "New", "modifiedDate": "20260314092653"}, "/modifiedDate"),
        ({"items": [], "status": "New", "modifiedDate": "20221004"}, "/modifiedDate"),
        ({"items": [], "status": "New", "modifiedDate": " -1.5e3"}, "/modifiedDate"),
    ],
)
def test_unreadable_field_is_named(fields: dict[str, Any], place: str) -> None:
    assert [pointer for pointer, _ in refused_at({"id": "o", **fields})] == [place]


@pytest.mark.parametrize("order", [SHOPIFY, COMMERCETOOLS])
def test_items_null_does_not_make_it_our_format(order: dict[str, Any]) -> None:
    assert replace(parse_order({**order, "items": None}), body=b"") == replace(parse_order(order), body=b"")


def test_our_field_names_in_snake_case_are_other_fields() -> None:
    line = {"id": "1", "productId": "camera", "product_id": "other", "quantity": 1}
    order = parse_order(
        {"id": "o", "status": "New", "customerId": "anna", "customer_id": 7, "store_id": 12, "items": [line]}
    )
    assert (order.customer.id, order.store_id, order.lines[0].product_id) == ("anna", None, "camera")


def test_empty_cancellation_date_and_null_lines() -> None:
    event, _ = order_event(b'{"id": "o", "cancelled_at": "", "financial_status": null, "line_items": null}')
    assert (event.is_cancelled, event.items) == (False, ())


_WOOCOMMERCE = {
    "id": 727,
    "status": "cancelled",
    "currency": "EUR",
    "customer_id": 26,
    "date_modified_gmt": "2026-03-14T09:26:53",
    "billing": {"first_name": "Anna", "email": _EMAIL},
    "line_items": [{"id": 315, "product_id": 93, "name": "Camera", "quantity": 2, "price": 12.5}],
}
_OWN_LINES = [{"id": "line", "productId": "camera", "quantity": 2}]


@pytest.mark.parametrize(
    ("order", "place"),
    [
        (_WOOCOMMERCE, "/line_items"),
        ({"id": "o", "status": "Complete", "customerId": "anna", "line_items": _OWN_LINES}, "/line_items"),
        ({"id": "o", "status": "Complete", "customerId": "anna", "LineItems": _OWN_LINES}, "/LineItems"),
        ({**SHOPIFY, "status": "Complete"}, "/status"),
        ({**SHOPIFY, "customerId": "anna"}, "/customerId"),
        ({**SHOPIFY, "customer_id": 26}, "/customer_id"),
        ({**SHOPIFY, "CustomerEmail": _EMAIL}, "/CustomerEmail"),
        ({**SHOPIFY, "modifiedDate": "2026-03-14T09:26:53Z"}, "/modifiedDate"),
        ({**COMMERCETOOLS, "status": "Complete"}, "/status"),
        ({**COMMERCETOOLS, "modifiedDate": "2026-03-14T09:26:53Z"}, "/modifiedDate"),
    ],
)
def test_mixed_formats_are_refused(order: dict[str, Any], place: str) -> None:
    with pytest.raises(
        InvalidContentError, match="lines of an order with Plaudit's field names are in `items`"
    ) as refused:
        parse_order(order)
    assert [error.pointer for error in refused.value.errors] == [place]


@pytest.mark.parametrize("mark", ["financial_status", "fulfillment_status", "admin_graphql_api_id"])
def test_one_marker_field_makes_a_shopify_order(mark: str) -> None:
    assert parse_order({"id": 1, "line_items": [{"id": 2, "quantity": 1}], mark: None, "status": None}).status == "New"


@pytest.mark.parametrize("lines", ["line_items", "lineItems"])
def test_null_lines_of_another_system_make_no_order_of_it(lines: str) -> None:
    assert parse_order({"id": "o", "status": "Complete", "customerId": "anna", lines: None}).customer.id == "anna"


@pytest.mark.parametrize(
    ("modified", "at"),
    [
        (None, AT),
        ("", AT),
        (" 2026-03-14 ", AT),  # today: the time of arrival, so that changes keep their order
        ("2026-03-13", datetime(2026, 3, 13, 23, 59, 59, 999000, UTC)),  # as from a sender west of UTC
        ("2026-03-15", datetime(2026, 3, 15, tzinfo=UTC)),  # east of it
        ("2026-03-14T00:00:00Z", datetime(2026, 3, 14, tzinfo=UTC)),
        ("9999-12-31", datetime(9999, 12, 31, tzinfo=UTC)),
    ],
)
def test_date_without_time_dates_the_change(modified: str | None, at: datetime) -> None:
    assert parse_order({**VIRTO, "modifiedDate": modified}).modified == at


def change(status: str, day: str, at: datetime) -> tuple[Order, str]:
    event, digest = order_event(json.dumps({**VIRTO, "status": status, "modifiedDate": day}).encode())
    return event.order(b"", at), digest


def test_earlier_day_is_older_even_if_it_arrives_later() -> None:
    new = "New", "2026-03-14"
    complete = change("Complete", "2026-03-15", datetime(2026, 3, 15, 9, tzinfo=UTC))
    stored = after_event(after_event(None, *change(*new, datetime(2026, 3, 14, 15, tzinfo=UTC))), *complete)
    again = after_event(stored, *change(*new, datetime(2026, 3, 15, 11, tzinfo=UTC)))
    assert (again.status, again.modified) == (stored.status, stored.modified)


@pytest.mark.parametrize(("hour", "next_hour"), [(3 - 24, 7 - 24), (9, 15), (23, 25), (25, 30)])
def test_changes_of_a_day_keep_their_order_in_any_time_zone(hour: int, next_hour: int) -> None:
    day = datetime(2026, 3, 14, tzinfo=UTC)
    paid = change("Paid", "2026-03-14", day + timedelta(hours=hour))
    cancelled = change("Cancelled", "2026-03-14", day + timedelta(hours=next_hour))
    assert after_event(after_event(None, *paid), *cancelled).is_cancelled


@pytest.mark.parametrize(
    ("modified", "is_refused"),
    [
        (None, False),
        ("2020-01-01", False),
        ("2026-03-14T23:26:53Z", False),  # local time at UTC+14, labelled as UTC
        ("2026-03-15", False),
        ("2026-03-15T09:26:53Z", False),
        ("2026-03-15T09:26:53.001Z", True),
        ("9999-12-31T23:59:59Z", True),
        ("9999-12-31", True),
    ],
)
def test_future_date_is_refused(modified: str | None, is_refused: bool) -> None:
    event, _ = order_event(json.dumps({**VIRTO, "modifiedDate": modified}).encode())
    refusal = event.refusal(event.modified_date or AT, AT)
    assert (refusal is not None) is is_refused
    assert refusal is None or str(refusal).startswith("/modifiedDate: The date is more than a day in the future")
