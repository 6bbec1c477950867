"""The console's pages of returns and orders, used like a browser without JavaScript."""

import re
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.console_pages import Console, forms, page_of, send_form
from tests.support.facade import new_id
from tests.support.orders import Returns, an_order
from tests.support.retries import resend_until_settled

SCREEN = "/console/returns"


async def test_return_is_created_changed_and_deleted(returns: Returns, http: httpx.AsyncClient) -> None:
    customer = new_id("customer")
    order = await returns.ordered(
        {},
        **an_order(new_id("order/with slash"), {"bag": 3, "lens": 1}, customerId=customer, customerName="Ånn <Berg>"),
    )
    found = await page_of(http, "/console/orders", q=customer)
    (link,) = re.findall(r'href="(/console/orders/[^"?]+)"', found)
    assert "Ånn &lt;Berg&gt;" in found
    shown = await page_of(http, link)
    (create,) = re.findall(r'class="button" href="([^"]+)"', shown)
    assert re.search('<td class="words">3 . <bdi>bag</bdi>, 1 . <bdi>lens</bdi></td>', found)
    new = await page_of(http, create)
    assert new.count('name="quantity"') == 2

    lines: dict[str, Any] = {"line": ["bag", "lens"], "quantity": ["2", "0"], "reason": ["Torn", ""]}
    response = await send_form(http, create, f"{SCREEN}/new", {"orderId": order, "resolution": "Refund", **lines})
    assert response.status_code == 303, response.text
    place = response.headers["location"].partition("?")[0]
    detail = await page_of(http, response.headers["location"])
    assert "Created." in detail
    assert re.search(r'value="2"\s+aria-label="Quantity of bag"', detail)
    row = await returns.existing(place.rpartition("/")[2])
    assert (row["resolution"], row["lineItems"][0]["reason"], row["status"]) == ("Refund", "Torn", "New")

    response = await send_form(http, place, f"{place}/status", {"status": "Approved", "resolution": "Replacement"})
    assert response.status_code == 303
    lines["quantity"] = ["1", "1"]
    assert (await send_form(http, place, f"{place}/lines", lines)).status_code == 303
    row = await returns.existing(row["id"])
    assert (row["status"], row["resolution"]) == ("Approved", "Replacement")
    assert {line["orderLineItemId"]: line["quantity"] for line in row["lineItems"]} == {"bag": 1, "lens": 1}
    assert await returns.available(order) == {"bag": 2, "lens": 0}

    assert (await send_form(http, place, f"{place}/delete", {})).status_code == 303
    assert await returns.get(row["id"]) is None
    gone = await http.get(place)
    assert (gone.status_code, "Not found" in gone.text) == (404, True)


async def test_list_has_tabs_by_status(returns: Returns, http: httpx.AsyncClient) -> None:
    customer = new_id("customer")
    order = await returns.ordered({"a": 9}, customerId=customer, currency="EUR")
    ids = [await returns.create(order, {"a": 2}) for _ in range(3)]
    await returns.change(ids[0], status="Completed")
    numbers = [(await returns.existing(id))["number"] for id in ids]

    def in_order(page: str) -> list[str]:
        return [number for number in re.findall(r'">([^<]+)</a></td>\s*<td><em', page) if number in numbers]

    page = await page_of(http, SCREEN, customer=customer)
    assert in_order(page) == numbers[1:]
    assert re.search(r'aria-current="true">New <b>2</b>', page)
    assert re.search(r'<td class="n">2</td>\s*<td class="n">20.00 EUR</td>', page)
    assert in_order(await page_of(http, SCREEN, customer=customer, status="Completed")) == numbers[:1]
    everything = {"customer": customer, "status": "all"}
    assert in_order(await page_of(http, SCREEN, **everything)) == numbers
    assert in_order(await page_of(http, SCREEN, **everything, sort="newest")) == numbers[::-1]
    assert in_order(await page_of(http, SCREEN, **everything, q=numbers[1])) == numbers[1:2]
    # A search by number covers every status, unless one was chosen.
    found = await page_of(http, SCREEN, customer=customer, q=numbers[0])
    assert in_order(found) == numbers[:1]
    assert re.search(r'aria-current="true">All<', found)
    # The count of a status is the length of the list that it links to.
    counted = re.findall(r'href="([^"]+)">(New|Completed) <b>(\d+)</b>', found)
    assert [(name, number) for _, name, number in counted] == [("New", "0"), ("Completed", "1")]
    assert [len(in_order(await page_of(http, link))) for link, _, _ in counted] == [0, 1]
    assert in_order(await page_of(http, SCREEN, customer=customer, q=numbers[0], status="New")) == []
    nothing = await page_of(http, SCREEN, order=new_id("order"))
    assert all(f'href="{SCREEN}/new"' in each for each in (page, nothing))
    assert "No return in the status New matches these filters" in nothing
    assert re.search(r'status=all[^"]*">Look in every status', nothing)


async def test_refused_form_keeps_typed_values(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 3, "b": 2})
    id = await returns.create(order, {"a": 1})
    lines = {"line": ["a", "b"], "quantity": ["0", "5"], "reason": ["", "It <b>broke</b>"]}
    place = f"{SCREEN}/{id}"
    for start, form, action in (
        (place, lines, f"{place}/lines"),
        (f"{SCREEN}/new?orderId={order}", {"orderId": order, "resolution": "Refund", **lines}, f"{SCREEN}/new"),
    ):
        response = await send_form(http, start, action, form)
        assert response.status_code == 422
        assert 'role="alert"' in response.text
        assert re.search(r'value="5"\s+aria-label="Quantity of b" aria-invalid="true"', response.text)
        assert "5 of line b requested, 2 available" in response.text
        assert "It &lt;b&gt;broke&lt;/b&gt;" in response.text
        assert "<b>broke" not in response.text
    nothing = {**lines, "quantity": ["0", "0"]}
    refused = await send_form(http, place, f"{place}/lines", nothing)
    assert refused.status_code == 422
    assert "A return has at least one item: enter a quantity above 0." in refused.text
    assert "List should have" not in refused.text
    assert await returns.available(order) == {"a": 2, "b": 2}


async def test_lines_of_same_order_line_stay_separate(returns: Returns, http: httpx.AsyncClient) -> None:
    """Each line keeps its price, its id and its typed values."""
    lines = [{"orderLineItemId": "a", "quantity": 1, "price": price} for price in (5, 7)]
    id = await returns.create(await returns.ordered({"a": 3}), {}, lineItems=lines)
    second = (await returns.existing(id))["lineItems"][1]
    place = f"{SCREEN}/{id}"
    typed: dict[str, Any] = {"line": ["a", "a"], "quantity": ["0", "9"], "reason": ["Torn", "Wet"]}
    refused = await send_form(http, place, f"{place}/lines", typed)
    assert refused.status_code == 422
    assert re.findall(r'name="quantity"[^>]* value="(\d+)"', refused.text) == ["0", "9"]
    assert re.findall(r'name="reason"[^>]* value="(\w*)"', refused.text) == ["Torn", "Wet"]
    typed["quantity"] = ["0", "1"]
    assert (await send_form(http, place, f"{place}/lines", typed)).status_code == 303
    (left,) = (await returns.existing(id))["lineItems"]
    assert left == {**second, "reason": "Wet", **{name: left[name] for name in ("availableQuantity", "modifiedDate")}}
    assert left["price"] == 7


async def test_values_typed_for_a_line_go_into_no_other(returns: Returns, http: httpx.AsyncClient) -> None:
    """Even if another client has removed a line since the form was opened."""
    lines = [{"orderLineItemId": "a", "quantity": 1, "reason": reason} for reason in ("broken", "wrong size")]
    id = await returns.create(await returns.ordered({"a": 9}), {}, lineItems=lines)
    first, second = (await returns.existing(id))["lineItems"]
    place = f"{SCREEN}/{id}"
    opened: dict[str, Any] = {"line": ["a", "a"], "own": [first["id"], second["id"]], "reason": ["broken", "too small"]}
    await returns.change(id, lineItems=[{name: second[name] for name in ("id", "orderLineItemId", "quantity")}])
    answer = await send_form(http, place, f"{place}/lines", {**opened, "quantity": ["5", "2"]})
    assert answer.status_code == 422
    assert re.findall(r'name="quantity"[^>]* value="(\d+)"', answer.text) == ["2"]
    assert re.findall(r'name="reason"[^>]* value="([^"]*)"', answer.text) == ["too small"]
    assert "or the line is given twice" in answer.text
    (left,) = (await returns.existing(id))["lineItems"]
    assert (left["quantity"], left["reason"]) == (1, "wrong size")
    old_version_fields = {name: values for name, values in opened.items() if name != "own"}
    (form,) = [each.fields for each in forms(await page_of(http, place)) if each.action == f"{place}/lines"]
    fields = {"key": form["key"], **old_version_fields, "quantity": ["5", "2"]}
    assert "another version" in (await http.post(f"{place}/lines", data=fields)).text


async def test_lines_of_canceled_return_can_be_saved(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 3})
    id = await returns.create(order, {"a": 2})
    await returns.change(id, status="Canceled")
    await returns.create(order, {"a": 3})
    assert 'max="2" value="2"' in await page_of(http, f"{SCREEN}/{id}")


async def test_outdated_form_does_not_overwrite_status(returns: Returns, http: httpx.AsyncClient) -> None:
    id = await returns.create(await returns.ordered({"a": 3}), {"a": 1})
    place = f"{SCREEN}/{id}"
    page = Console(http)
    shown = await page.open(place)
    await returns.change(id, status="Processing")
    refused = await page.send(shown, f"{place}/status", {"status": "Canceled", "resolution": "Mine"}, status=422)
    assert "The return now has the status Processing" in refused
    assert 'value="Mine"' in refused
    assert re.search(r'<select name="status" aria-invalid="true" aria-describedby="errors">', refused)
    assert 'id="errors"' in refused
    assert "The return now has the status Processing" in await page.send(shown, f"{place}/lines", {}, status=422)
    assert (await returns.existing(id))["status"] == "Processing"
    await page.send(refused, f"{place}/status", {"status": "Canceled"})
    assert (await returns.existing(id))["status"] == "Canceled"


@pytest.mark.long
async def test_newest_returns_of_an_order_are_shown(returns: Returns, http: httpx.AsyncClient) -> None:
    """With a link to all returns if there are more."""
    order = await returns.ordered({"a": 30})
    link = f'href="/console/returns?status=all&amp;order={order}"'
    ids = [await returns.create(order, {"a": 1})]
    assert link not in await page_of(http, f"/console/orders/{order}")
    ids += [await returns.create(order, {"a": 1}) for _ in range(20)]
    newest = (await returns.existing(ids[-1]))["number"]
    for path in (f"/console/orders/{order}", f"{SCREEN}/{ids[0]}"):
        page = await page_of(http, path)
        assert f">{newest}</a>" in page
        assert link in page


async def test_repeated_form_creates_one_return(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 3})
    form = {"orderId": order, "line": "a", "own": "", "quantity": "1", "reason": "", "key": new_id("key")}
    answers = [await resend_until_settled(partial(http.post, f"{SCREEN}/new", data=form)) for _ in range(2)]
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert await returns.available(order) == {"a": 2}


async def test_emptied_reason_is_removed(returns: Returns, http: httpx.AsyncClient) -> None:
    """A line that never had a reason stays unchanged."""
    id = await returns.create(await returns.ordered({"a": 3, "b": 3}), {"a": 1, "b": 1})
    place = f"{SCREEN}/{id}"
    lines: dict[str, Any] = {"line": ["a", "b"], "quantity": ["1", "1"], "reason": ["Torn", ""]}
    for reason in ("Torn", ""):
        answer = await send_form(http, place, f"{place}/lines", {**lines, "reason": [reason, ""]})
        assert answer.status_code == 303, answer.text
        row = await returns.existing(id)
        assert [line["reason"] for line in row["lineItems"]] == [reason, None]


async def test_line_breaks_dropped_by_browsers_are_kept(returns: Returns, http: httpx.AsyncClient) -> None:
    """In the resolution and in the reasons that the moderator didn't change."""
    order = await returns.ordered({"a": 3})
    line_item = {"orderLineItemId": "a", "quantity": 1, "reason": "Torn\nand wet"}
    id = await returns.create(order, {}, lineItems=[line_item], resolution="Refund\nby card")
    place = f"{SCREEN}/{id}"
    status = {"status": "Approved", "resolution": "Refundby card"}
    assert (await send_form(http, place, f"{place}/status", status)).status_code == 303
    lines = {"line": "a", "quantity": "2", "reason": "Tornand wet"}
    assert (await send_form(http, place, f"{place}/lines", lines)).status_code == 303
    row = await returns.existing(id)
    assert (row["status"], row["resolution"]) == ("Approved", "Refund\nby card")
    assert [(line["quantity"], line["reason"]) for line in row["lineItems"]] == [(2, "Torn\nand wet")]


async def test_lines_beyond_the_page_are_kept(returns: Returns, http: httpx.AsyncClient) -> None:
    """Even if the form is sent twice."""
    ids = [f"line-{number:03}" for number in range(302)]
    id = await returns.create(await returns.ordered(dict.fromkeys(ids, 2)), dict.fromkeys(ids, 1))
    place = f"{SCREEN}/{id}"
    page = await page_of(http, place)
    assert "2 more lines don't fit on this page" in page
    shown = re.findall(r'name="line" value="([^"]+)"', page)
    (form,) = [each.fields for each in forms(page) if each.action == f"{place}/lines"]
    own = re.findall(r'name="own" value="([^"]+)"', page)
    typed = {"line": shown, "own": own, "quantity": ["2", "0"] + ["1"] * 298, "reason": ["Torn", *[""] * 299]}
    for _ in range(2):
        answer = await resend_until_settled(partial(http.post, f"{place}/lines", data={**form, **typed}))
        assert (answer.status_code, answer.headers.get("location")) == (303, f"{place}?done=saved"), answer.text
    lines = {line["orderLineItemId"]: line["quantity"] for line in (await returns.existing(id))["lineItems"]}
    assert lines == {shown[0]: 2, **{each: 1 for each in ids if each not in shown[:2]}}


@pytest.mark.parametrize("path", ["/console/orders", SCREEN, f"{SCREEN}/new"])
async def test_unknown_orders_and_returns_are_reported(http: httpx.AsyncClient, path: str) -> None:
    unknown = new_id("order")
    if path == "/console/orders":
        assert "No order has exactly this" in await page_of(http, path, q=unknown)
    response = await http.get(f"{path}/{unknown}" if path != f"{SCREEN}/new" else f"{path}?orderId={unknown}")
    assert (response.status_code, 'role="alert"' in response.text) == (404, True)
