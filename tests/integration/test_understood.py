"""Input that isn't understood is refused or reported: over HTTP, by Kafka, and in orders of other systems."""

import json
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, body_of, errors_of, new_id, once, problem_of, submission
from tests.support.messages import Message, message
from tests.support.orders import RETURNS, Returns, an_order, lines_of, wanted_return
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

IGNORED = "Plaudit-Ignored"
IMAGE = "0190b8a2-5c1e-7d3a-9b61-2f4d8e0c7a11"


async def test_virto_list_row_is_a_submission(http: httpx.AsyncClient, facade: Facade, product: str) -> None:
    row = {"ENTITYID": product, "entityType": "Product", "Review": "Good", "RATING": 4.0, "Title": None}
    sent = [{**row, "reviewStatusId": 0, "createdDate": None, "store\nName": "x"}]
    response = await retry_until_decided(partial(http.post, REVIEWS, json=sent, headers=once()))
    assert body_of(response, dict)["outcome"] == "applied"
    assert response.headers[IGNORED] == "reviewStatusId, createdDate, store%0AName"
    (shown,) = (await facade.page(EntityIDs=[product], STORTED=1, Take=5.0, skip=None, reviewStatus="nEW"))["results"]
    assert (shown["review"], shown["rating"], shown["title"]) == ("Good", 4, None)


async def test_search_names_ignored_fields(http: httpx.AsyncClient) -> None:
    response = await http.post(f"{REVIEWS}/reviewList", json={"storeld": "s", "take": 0})
    assert (response.status_code, response.headers[IGNORED]) == (200, "storeld")
    assert IGNORED not in (await http.post(f"{REVIEWS}/reviewList", json={"storeId": "s", "take": 0})).headers
    # Also with a deferred answer, and with an error.
    missing = await http.post(RETURNS, json={"orderId": "none", "lineItems": lines_of({"a": 1}), "oder": 1})
    assert (errors_of(missing), missing.headers[IGNORED]) == ([("/orderId", "unknown-order")], "oder")


@pytest.mark.parametrize(
    ("method", "path", "content", "error"),
    [
        ("PUT", "/api/settings", '{"reminder": {"dayInStatus": 1}}', ("/reminder/dayInStatus", "unknown-field")),
        ("PUT", "/api/stores/s", '{"settings": {"reviewEnabled": true}}', ("/settings/reviewEnabled", "unknown-field")),
        ("PUT", "/api/stores/s", '{"name": "a", "Name": "b"}', ("/Name", "duplicate-field")),
        ("PUT", "/api/stores/s", '{"id": "t"}', ("/id", "other-id")),
        ("PUT", "/api/stores/%2e%2e", "{}", ("/storeId", "unaddressable")),
        ("PUT", "/api/stores/%2E", "{}", ("/storeId", "unaddressable")),
        ("PUT", "/api/stores/s", '{"email": "Shop <shop@example.org>, b@c"}', ("/email", "invalid-address")),
        ("PUT", "/api/notificationTemplates/OrderReviewRequest", '{"body": ""}', ("/body", "unknown-field")),
        ("PUT", RETURNS, '{"orderId": " "}', ("/orderId", "blank")),
        ("POST", RETURNS, json.dumps({**wanted_return("o", {"a": 1}), "id": "."}), ("/id", "unaddressable")),
        ("POST", f"{REVIEWS}/r/votes", '{"userId": " ", "helpful": true}', ("/userId", "blank")),
        ("DELETE", f"{REVIEWS}/r/votes?userId=anna", '{"userId": "bob"}', ("/userId", "contradicts")),
        ("POST", f"{REVIEWS}/%20/images/{IMAGE}/hide", "", ("/id", "blank")),
        ("POST", f"{REVIEWS}/{'r' * 129}/images/{IMAGE}/show", "", ("/id", "string-too-long")),
        ("GET", "/api/audit/export?take=9223372036854775808", "", ("/take", "less-than-equal")),
        ("DELETE", REVIEWS, '{"id": ["a"]}', ("/id", "unknown-field")),
        ("DELETE", f"{RETURNS}?ids=a", '{"ids": ["b"]}', ("", "unexpected-body")),
        ("POST", f"{REVIEWS}/r/images/{IMAGE}/hide", '{"reason": "x"}', ("", "unexpected-body")),
        ("POST", f"{RETURNS}/search", '{"responseGroup": false}', ("/responseGroup", "enum")),
        ("POST", f"{REVIEWS}/reviewList", '{"take": 1, "take": 1}', ("/take", "duplicate-field")),
        ("POST", f"{REVIEWS}/counts", f'{{"reviewStatus": {[9] * 1_001}}}', ("/reviewStatus", "too-long")),
        ("GET", "/metrics?name[]=up", "", ("/name[]", "unknown-parameter")),
        ("POST", f"{REVIEWS}/approve?reson=x", '["a"]', ("/reson", "unknown-parameter")),
        ("GET", "/api/audit?take=1&Take=1", "", ("/Take", "duplicate-parameter")),
    ],
)
async def test_misunderstood_requests_are_refused(
    http: httpx.AsyncClient, method: str, path: str, content: str, error: tuple[str, str]
) -> None:
    response = await http.request(method, path, content=content)
    assert errors_of(response) == [error]
    if error[1].startswith("unknown"):
        assert "Did you mean" in response.text or "Use one of: " in response.text or "None is accepted" in response.text
    assert "^" not in str(problem_of(response, 422)["errors"])


async def test_shown_store_can_be_put_back(http: httpx.AsyncClient, facade: Facade) -> None:
    id = await facade.open_store()
    await facade.command("PUT", f"/api/stores/{id}", {"EMAIL": "Shop <shop@example.org>", "Languages": ["en"]})
    shown = await facade.get(f"/api/stores/{id}")
    assert shown["email"] == "Shop <shop@example.org>"
    await facade.command("PUT", f"/api/stores/{id}", shown)
    assert await facade.get(f"/api/stores/{id}") == shown
    await facade.command("PUT", f"/api/stores/{id}", {"email": None, "languages": None, "settings": None})
    assert await facade.get(f"/api/stores/{id}") == {**shown, "email": None}
    assert (await facade.get("/api/audit", ACTION="Approve", Take="2"))["results"] is not None


async def test_kafka_messages_are_checked_likewise(service: Service, facade: Facade, product: str) -> None:
    store = new_id("store")
    bad = {
        "duplicate-field": f'{{"id": "{store}", "name": "a", "NAME": "a"}}',
        "unknown-field": f'{{"id": "{store}", "names": "a"}}',
        "invalid-json": f'{{"id": "{store}", "more": NaN}}',
        "invalid-message": '{"id": ".."}',
    }
    good = message({"ID": store, "Settings": {"REVIEWSENABLED": True, "purchaseRequired": None}}, store)
    await service.publish("store-updates", *(Message(store, value.encode()) for value in bad.values()), good)
    letters = await service.letters("store-updates", store, 4)
    assert [dict(letter.headers)["x-error-code"].decode() for letter in letters] == list(bad)
    assert b"Did you mean name?" in dict(letters[1].headers)["x-error-message"]
    assert b"no address could name it" in dict(letters[3].headers)["x-error-message"]
    shown = await eventually(lambda: service_store(facade, store), lambda found: found is not None)
    assert shown["settings"]["reviewsEnabled"] is True
    assert shown["settings"]["purchaseRequired"] is True

    id = new_id("review")
    await service.publish("review-submissions", message([{**submission(product), "Id": id, "titel": "x"}], product))
    await facade.until_listed(product, 1)
    await service.publish("moderation-commands", message({"ACTION": "Approve", "Ids": [id], "reason": None}, id))
    await facade.until_rated(product, 4, 1)


async def service_store(facade: Facade, id: str) -> Any:
    response = await facade.http.get(f"/api/stores/{id}")
    return response.json() if response.status_code == 200 else None


async def test_orders_of_other_systems_are_read(service: Service, returns: Returns) -> None:
    ids = {name: new_id(name) for name in ("virto", "shopify", "commercetools")}
    virto: Json = {**an_order(ids["virto"], {"a": 2}), "isCancelled": None, "addresses": [{"email": "a@example.com"}]}
    shopify = {"id": ids["shopify"], "financial_status": "paid", "line_items": [{"id": 1, "quantity": 2}]}
    line = {"id": "a", "productId": "p", "quantity": 2, "price": {"value": {"centAmount": 5, "fractionDigits": 2}}}
    commercetools = {"id": ids["commercetools"], "orderState": "Open", "lineItems": [line]}
    orders = (virto, shopify, commercetools)
    await service.publish("order-events", *(message(order, str(order["id"])) for order in orders))
    assert await eventually(lambda: returns.available(ids["virto"])) == {"a": 2}
    assert await eventually(lambda: returns.available(ids["shopify"])) == {"1": 2}
    assert await eventually(lambda: returns.available(ids["commercetools"])) == {"a": 2}
    shown = await returns.existing(await returns.create(ids["shopify"], {"1": 1}))
    assert shown["order"] == shopify
