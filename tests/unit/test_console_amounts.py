"""Amounts of orders and returns in the console, with the currency of the order's last event."""

import re
from typing import Any

import pytest

from domain.permissions import Permission
from tests.support.console_pages import text_of
from tests.support.faked_interface import EVERYTHING, get_page

NOW = "2026-11-25T00:00:00.000Z"
LINE = {"id": "a", "productId": None, "name": "Bag", "quantity": 2, "price": 1234.5, "availableQuantity": 2}
LINE_VALUES = {name: LINE[name] for name in ("quantity", "price", "availableQuantity")}
ORDER: dict[str, Any] = {
    **dict.fromkeys(("number", "storeId", "storeName", "customerId", "customerName", "customerEmail"), None),
    **{"id": "o", "status": "New", "statusSince": NOW, "modifiedDate": NOW, "isCancelled": False, "lineItems": [LINE]},
    "languageCode": None,
}
RETURNED: dict[str, Any] = {
    **{"id": "r", "number": "R1", "orderId": "o", "status": "New", "createdDate": NOW, "modifiedDate": NOW},
    **dict.fromkeys(("resolution", "createdBy", "modifiedBy"), None),
    "lineItems": [{"id": "1", "orderLineItemId": "a", "reason": None, **LINE_VALUES}],
}


READERS = [each for each in EVERYTHING if each != Permission.UPDATE_RETURNS]


def answers_with(order: dict[str, Any], returned: dict[str, Any]) -> dict[str, Any]:
    """The answers of an API with this order and its return."""
    return {
        "orders/o": (200, {**order, "order": {}}),
        "orders/search": (200, {"results": [order]}),
        "return/r": (200, returned),
        "return/search": (200, {"results": [returned]}),
        "return/counts": (200, {"New": 1}),
    }


@pytest.mark.parametrize(
    ("currency", "price", "total"),
    [("EUR", "1,234.50 EUR", "2,469.00 EUR"), (None, "1,234.50", "2,469.00")],
)
async def test_amounts_have_the_currency_of_their_order(currency: str | None, price: str, total: str) -> None:
    returned = {**RETURNED, "currency": currency}
    answers = answers_with({**ORDER, "currency": currency}, returned)
    for path in ("/console/orders/o", "/console/returns/new?orderId=o", "/console/returns/r"):
        words = text_of((await get_page(path, answers)).text)
        assert price in words, path
        assert ("EUR" in words) == (currency is not None), path
    assert f"{total} in all." in words
    assert re.search(f">{total}</td>", (await get_page("/console/returns", answers)).text)
    assert price in text_of((await get_page("/console/returns/r", answers, READERS)).text)


async def test_quantities_have_separators_of_thousands() -> None:
    """As amounts and other counts have."""
    many = {"quantity": 12_345, "availableQuantity": 23_456}
    order = {**ORDER, "lineItems": [{**LINE, **many}], "currency": "EUR"}
    returned = {**RETURNED, "lineItems": [{**RETURNED["lineItems"][0], **many}], "currency": "EUR"}
    answers = answers_with(order, returned)
    for path in ("orders", "orders/o", "returns", "returns/new?orderId=o", "returns/r"):
        for permissions in (EVERYTHING, READERS):
            words = text_of((await get_page(f"/console/{path}", answers, permissions)).text)
            assert {"12,345", "23,456"} & {*words.split()}, path
            assert not {"12345", "23456"} & {*words.split()}, path
