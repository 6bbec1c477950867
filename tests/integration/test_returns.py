"""Returns over HTTP and Kafka: never more than ordered, and a clear error for every other request."""

import asyncio
import re
import uuid
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import orjson
import pytest

from tests.support.facade import WAIT, Facade, body_of, errors_of, new_id, once, problem_of
from tests.support.orders import RETURNS, Returns, an_order, lines_of, return_command, wanted_return
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

RETURN_FIELDS = [
    *("id", "number", "orderId", "status", "resolution", "currency", "order", "lineItems"),
    *("createdDate", "modifiedDate", "createdBy", "modifiedBy"),
]
LINE_FIELDS = [
    *("id", "returnId", "orderLineItemId", "quantity", "availableQuantity", "price", "reason"),
    *("createdDate", "modifiedDate", "createdBy", "modifiedBy"),
]


async def test_samples_of_the_specification(returns: Returns, http: httpx.AsyncClient) -> None:
    order = an_order(new_id("order"), {"line-1": 5}, currency="USD", total=50.25, addresses=[{"city": "Łódź"}])
    await returns.ordered({}, **order)
    scratched = {"orderLineItemId": "line-1", "quantity": 2, "reason": "Scratched"}
    wanted = {"orderId": order["id"], "resolution": "Refund", "lineItems": [scratched]}
    (id,) = body_of(await http.post(RETURNS, json=wanted), dict, 202)["ids"]

    search = {"orderId": order["id"], "objectIds": [], "keyword": "", "sort": "Ascending", "skip": 0, "take": 20}
    page = await eventually(partial(returns.search, **search), lambda page: page["totalCount"] == 1)
    (row,) = page["results"]
    assert list(row) == RETURN_FIELDS
    assert row["order"] == order
    (line,) = row["lineItems"]
    assert list(line) == LINE_FIELDS
    assert uuid.UUID(line.pop("id"))
    for timestamps in (row, line):
        for field in ("createdDate", "modifiedDate"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", timestamps.pop(field))
    nobody = {"createdBy": None, "modifiedBy": None}
    assert line == {**scratched, "returnId": id, "availableQuantity": 5, "price": 10, **nobody}
    assert row["id"] == str(uuid.UUID(id))
    assert re.fullmatch(r"RET\d{6}-\d{5}", row["number"])
    assert (row["orderId"], row["status"], row["resolution"]) == (order["id"], "New", "Refund")
    assert row["currency"] == "USD"

    assert await returns.search(**{**search, "take": 0}) == {"totalCount": 1, "results": []}
    assert await returns.available(order["id"]) == {"line-1": 3}
    assert await returns.get(id) == (await returns.search(**search))["results"][0]

    approved = body_of(
        await http.put(RETURNS, json={"id": id, "status": "Approved"}, headers={"Prefer": "wait=0"}), dict, 202
    )
    assert approved["id"] == id
    await eventually(partial(returns.found, "status", objectIds=[id]), lambda found: found == ["Approved"])


@pytest.mark.long
async def test_numbers(returns: Returns, facade: Facade) -> None:
    order = await returns.ordered({"a": 20})
    days = {datetime.now(UTC).date()}
    await asyncio.gather(*(returns.create(order, {"a": 1}) for _ in range(20)))
    days.add(datetime.now(UTC).date())
    numbers = await returns.found("number", orderId=order)
    assert len(set(numbers)) == 20
    assert numbers == sorted(numbers)
    assert {number[:9] for number in numbers} <= {f"RET{day:%y%m%d}" for day in days}
    assert all(re.fullmatch(r"\d{5}", number[10:]) for number in numbers)

    store = await facade.open_store(returnNumberTemplate="R-{date:%Y}-{sequence:03d}")
    order = await returns.ordered({"a": 2}, storeId=store)
    for _ in range(2):
        await returns.create(order, {"a": 1})
    first, second = await returns.found("number", orderId=order)
    assert re.fullmatch(r"R-\d{4}-\d{3}", first)
    is_new_year = first[2:6] != second[2:6]  # the sequence begins again
    assert is_new_year or int(second[-3:]) == int(first[-3:]) + 1


async def test_quantities_follow_every_change(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 5, "b": 1})
    one = await returns.create(order, {"a": 2, "b": 1})
    two = await returns.create(order, {"a": 3})
    assert await returns.available(order) == {"a": 0, "b": 0}

    async def refused(**changes: Any) -> None:
        before = await returns.get(two)
        response = await retry_until_decided(partial(http.put, RETURNS, json={"id": two, **changes}, headers=once()))
        place = "/lineItems/0/quantity" if "lineItems" in changes else "/status"
        assert errors_of(response) == [(place, "quantity-not-available")]
        assert await returns.get(two) == before

    await refused(lineItems=lines_of({"a": 4}))
    await returns.change(one, status="Canceled")
    assert await returns.available(order) == {"a": 2, "b": 1}
    await refused(lineItems=lines_of({"a": 6}))
    await returns.change(two, lineItems=lines_of({"a": 5}))
    assert await returns.available(order) == {"a": 0, "b": 1}
    two, one = one, two
    await refused(status="New")
    await returns.change(one, lineItems=[{"orderLineItemId": "a", "quantity": 3, "reason": "Less", "price": 8.5}])
    await returns.change(two, status="Processing")
    assert await returns.available(order) == {"a": 0, "b": 0}
    assert await returns.found("status", orderId=order) == ["Processing", "New"]
    row = await returns.existing(one)
    assert [(line["quantity"], line["reason"], line["price"]) for line in row["lineItems"]] == [(3, "Less", 8.5)]


async def test_change_without_difference_changes_nothing(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 5})
    free = [{"orderLineItemId": "a", "quantity": 2, "price": 0}]
    id = await returns.create(order, {}, resolution="Refund", lineItems=free)
    before = await returns.existing(id)
    assert before["lineItems"][0]["price"] == 0
    for same in ({"status": "new"}, {"resolution": "Refund"}, {"lineItems": lines_of({"a": 2})}):
        answer = body_of(
            await retry_until_decided(partial(http.put, RETURNS, json={"id": id, **same}, headers=once())), dict
        )
        assert answer["results"] == [{"id": id, "outcome": "unchanged"}]
    assert await returns.existing(id) == before
    await returns.change(id, status="Approved")
    await returns.wait_for_events(id, "ReturnCreated", "ReturnChanged")


@pytest.mark.long
async def test_search(returns: Returns, http: httpx.AsyncClient) -> None:
    order, other = await asyncio.gather(*(returns.ordered({"a": 10}) for _ in range(2)))
    ids = [await returns.create(order, {"a": 1}) for _ in range(4)]
    elsewhere = await returns.create(other, {"a": 1})
    await returns.change(ids[1], status="Completed")
    numbers = await returns.found("number", orderId=order)

    assert await returns.found(orderId=order) == ids
    assert await returns.found(orderId=order, objectIds=[ids[2], elsewhere, "x"]) == [ids[2]]
    assert set(await returns.found(objectIds=[ids[0], elsewhere])) == {ids[0], elsewhere}
    assert await returns.found(orderId=order, keyword="compLET") == [ids[1]]
    assert await returns.found(orderId=order, keyword=numbers[3][2:].lower()) == [ids[3]]
    assert await returns.found(orderId=order, keyword=".*") == []
    assert await returns.found(orderId=new_id("order")) == []

    for sort in ("", "Ascending", "ASCENDING", "number", "createdDate:asc"):
        assert await returns.found(orderId=order, sort=sort) == ids
    for sort in ("Descending", "descending", "number:desc"):
        assert await returns.found(orderId=order, sort=sort) == ids[::-1]
    assert (await returns.found(orderId=order, sort="modifiedDate:desc"))[0] == ids[1]
    assert await returns.found(orderId=order, sort="status;number:desc") == [ids[1], ids[3], ids[2], ids[0]]
    assert (await http.post(f"{RETURNS}/search", json={"sort": "color"})).status_code == 400

    pages = [await returns.search(orderId=order, take=3, skip=skip) for skip in (0, 3, 6)]
    assert [page["totalCount"] for page in pages] == [4, 4, 4]
    assert [row["id"] for page in pages for row in page["results"]] == ids


async def test_ids_with_slashes(returns: Returns) -> None:
    order = await returns.ordered({"a/b.c$": 2}, id=f"{new_id('CO')}/2022/1")
    await returns.create(order, {"a/b.c$": 1})
    assert await returns.available(order) == {"a/b.c$": 1}


async def test_unknown_returns_and_orders(returns: Returns, http: httpx.AsyncClient) -> None:
    assert await returns.get(new_id("return")) is None
    assert await returns.available(new_id("order")) is None
    response = await http.put(RETURNS, json={"id": new_id("return"), "status": "Approved"})
    assert problem_of(response, 404)["title"] == "Not found"


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"orderId": "nowhere"}, "/orderId", "unknown-order"),
        ({"lineItems": lines_of({"z": 1})}, "/lineItems/0/orderLineItemId", "unknown-line"),
        ({"lineItems": lines_of({"a": 6})}, "/lineItems/0/quantity", "quantity-not-available"),
        ({"lineItems": lines_of({"a": 10**9})}, "/lineItems/0/quantity", "quantity-not-available"),
        ({"lineItems": lines_of({"a": 0})}, "/lineItems/0/quantity", "greater-than-equal"),
    ],
)
async def test_invalid_return_is_refused_and_not_stored(
    returns: Returns, http: httpx.AsyncClient, changes: Json, pointer: str, code: str
) -> None:
    order = await returns.ordered({"a": 5})
    wanted = {**wanted_return(order, {"a": 1}), **changes}
    assert errors_of(await http.post(RETURNS, json=wanted, headers=WAIT)) == [(pointer, code)]
    assert await returns.search(orderId=order, take=0) == {"totalCount": 0, "results": []}
    assert await returns.available(order) == {"a": 5}
    kept = await returns.create(order, {"a": 1})
    row = await returns.get(kept)
    if "lineItems" in changes:
        response = await http.put(RETURNS, json={"id": kept, **changes}, headers=WAIT)
        assert errors_of(response) == [(pointer, code)]
    assert await returns.get(kept) == row


@pytest.mark.parametrize(
    "path", ["customerReviews/reviewList", "customerReviews/approve", "orders/search", "return/search", "return/counts"]
)
async def test_reserved_paths_are_not_ids(http: httpx.AsyncClient, path: str) -> None:
    response = await http.get(f"/api/{path}")
    assert (response.status_code, response.headers["allow"]) == (405, "POST"), response.text
    assert (await http.get(f"/api/{path}s")).status_code == 404


async def test_empty_change_and_change_of_order_are_refused(returns: Returns, http: httpx.AsyncClient) -> None:
    order, other = await returns.ordered({"a": 1}), await returns.ordered({"a": 1})
    id = await returns.create(order, {"a": 1})
    nothing = await http.put(RETURNS, json={"id": id, "status": None, "number": "RET1"})
    assert errors_of(nothing) == [("", "nothing-to-change")]
    moved = await http.put(RETURNS, json={"id": id, "orderId": other, "status": "Approved"})
    assert errors_of(moved) == [("/orderId", "id-taken")]  # as by Kafka
    await returns.change(id, orderId=order, status="Approved")


@pytest.mark.long
async def test_repeated_request_changes_nothing(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 2})
    wanted, key = wanted_return(order, {"a": 1}), once()
    send = partial(http.post, RETURNS, json=wanted, headers=key)
    first, second = [body_of(await retry_until_decided(send), dict) for _ in range(2)]
    assert first == second
    assert first["results"] == [{"id": first["ids"][0], "outcome": "applied"}]
    state = body_of(await http.get(f"/api/commands/{first['commandId']}"), dict)
    assert (state["outcome"], state["results"]) == ("applied", first["results"])

    chosen = new_id("return")
    named = {**wanted, "id": chosen}
    answers = [await retry_until_decided(partial(http.post, RETURNS, json=named, headers=once())) for _ in range(2)]
    outcomes = [body_of(answer, dict)["results"][0]["outcome"] for answer in answers]
    assert outcomes == ["applied", "unchanged"]
    assert await returns.available(order) == {"a": 0}

    # The key of an applied change is remembered even when the same change would no longer be possible.
    change: Json = {"id": chosen, "lineItems": lines_of({"a": 1}), "status": "Approved"}
    key = once()
    send = partial(http.put, RETURNS, json=change, headers=key)
    assert (await retry_until_decided(send)).status_code == 200
    await returns.change(chosen, status="Canceled")
    await returns.create(order, {"a": 1})
    assert (await retry_until_decided(send)).json()["results"][0]["outcome"] == "applied"
    assert (await returns.existing(chosen))["status"] == "Canceled"


@pytest.mark.long
async def test_200_concurrent_returns_by_http_and_kafka_with_two_workers(
    own_service: Service, own_returns: Returns
) -> None:
    own_service.start("worker", "worker2")
    await own_service.until_ready()
    returns, http = own_returns, own_returns.http
    order = await returns.ordered({"a": 10})
    wanted = wanted_return(order, {"a": 1})
    kafka_ids = [new_id("return") for _ in range(100)]
    # Upstream systems should key them by order. These messages aren't, so both workers get some.
    messages = [return_command("create", {**wanted, "id": id}, key=id) for id in kafka_ids]
    posted = [asyncio.create_task(http.post(RETURNS, json=wanted, headers=WAIT)) for _ in range(100)]
    await own_service.publish("return-commands", *messages)
    http_ids, applied, refused_early = [], set(), 0
    for answer in await asyncio.gather(*posted):
        if answer.status_code == 422:
            assert errors_of(answer) == [("/lineItems/0/quantity", "quantity-not-available")]
            refused_early += 1
            continue
        (result,) = await Facade(http).results(answer)
        if answer.status_code != 202:  # on a busy machine some take longer than the wait
            assert (answer.status_code == 409) == (result["outcome"] == "refused")
        http_ids.append(result["id"])
        if result["outcome"] == "applied":
            applied.add(result["id"])
        else:
            refusal = (result["outcome"], result["reason"], result["message"])
            assert refusal == ("refused", "quantity-not-available", "1 of line a requested, 0 available")
    ask = partial(returns.events, *kafka_ids, *http_ids)
    events = await eventually(ask, lambda refusal: len(refusal) == 200 - refused_early, deadline_s=300)
    created = {data["returnId"] for kind, data in events if kind == "ReturnCreated"}
    refused = [data for kind, data in events if kind == "ReturnRefused"]
    assert (len(created), len(refused) + refused_early) == (10, 190)
    assert {reason["code"] for data in refused for reason in data["reasons"]} == {"quantity-not-available"}
    assert created.intersection(http_ids) == applied
    assert set(await returns.found(orderId=order)) == created
    assert await returns.available(order) == {"a": 0}
    assert await own_service.records("return-commands.dlq") == []


async def test_request_with_too_large_message_is_refused(returns: Returns) -> None:
    """The body has the maximum size; workers would have dead-lettered the message."""
    order = await returns.ordered({"a": 1_000})
    lines = [{"orderLineItemId": "a", "quantity": 1, "reason": "x" * 980} for _ in range(1_000)]
    wanted = {"orderId": order, "lineItems": lines, "resolution": ""}
    spare = 1024 * 1024 - len(orjson.dumps(wanted))
    for line in lines[: spare // 40]:
        line["reason"] = "x" * 1_020
    body = orjson.dumps(wanted)
    assert 1024 * 1024 - 40 <= len(body) <= 1024 * 1024
    refused = await returns.http.post(RETURNS, content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 413, refused.text
    assert "It makes a message of" in refused.json()["detail"]
