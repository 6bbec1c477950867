"""Deleted returns, and statuses and number templates from the settings, by HTTP and Kafka."""

import re
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest

from tests.support.facade import Facade, body_of, errors_of, new_id, once, problem_of
from tests.support.orders import RETURNS, Returns, lines_of, return_command, wanted_return
from tests.support.retries import retry_until_decided
from tests.support.service import Json
from tests.support.waiting import eventually


async def test_deletion_restores_quantities_and_is_published(
    returns: Returns, facade: Facade, http: httpx.AsyncClient
) -> None:
    order = await returns.ordered({"a": 5})
    one, two = [await returns.create(order, {"a": quantity}, resolution="Secret") for quantity in (2, 3)]
    number = (await returns.existing(one))["number"]
    unknown, key = new_id("return"), once()
    for _ in range(2):
        response = await retry_until_decided(
            partial(http.delete, RETURNS, params={"ids": [one, unknown, one]}, headers=key)
        )
        results = [(result["id"], result["outcome"]) for result in body_of(response, dict)["results"]]
        assert results == [(one, "applied"), (unknown, "not-found")]
    assert await returns.get(one) is None
    assert await returns.found(orderId=order) == [two]
    assert await returns.available(order) == {"a": 2}
    _, deleted = await returns.wait_for_events(one, "ReturnCreated", "ReturnDeleted")
    assert deleted.pop("at")
    assert deleted == {"returnId": one, "number": number, "orderId": order}
    log = await facade.get("/api/audit", action="delete")
    (entry,) = [entry for entry in log["results"] if entry["returnId"] == one]
    assert (entry["reviewId"], entry["storeId"], entry["entityId"]) == (None, "Electronics", None)
    assert "Secret" not in str(await returns.service.find("returns", one))


async def test_id_of_deleted_return_stays_taken(returns: Returns, http: httpx.AsyncClient) -> None:
    order, id = await returns.ordered({"a": 5}), new_id("return")
    wanted, key = wanted_return(order, {"a": 5}, id=id), once()
    create = partial(http.post, RETURNS, json=wanted, headers=key)
    created = await retry_until_decided(create)
    assert created.status_code == 200
    await retry_until_decided(partial(http.delete, RETURNS, params={"ids": id}, headers=once()))
    assert await returns.available(order) == {"a": 5}
    again = await retry_until_decided(create)
    assert body_of(again, dict)["results"] == created.json()["results"]  # a repeat
    await returns.service.publish(
        "return-commands",
        return_command("create", wanted),
        return_command("update", {"id": id, "status": "New"}, order),
    )
    events = await eventually(partial(returns.events, id), lambda events: len(events) == 4)
    assert [kind for kind, _ in events] == ["ReturnCreated", "ReturnDeleted", "ReturnRefused", "ReturnRefused"]
    assert [reason["code"] for _, data in events[2:] for reason in data["reasons"]] == ["id-taken", "unknown-return"]
    assert await returns.get(id) is None
    assert await returns.available(order) == {"a": 5}
    problem_of(await http.put(RETURNS, json={"id": id, "status": "New"}), 404)


async def test_change_repeated_after_deletion(returns: Returns, http: httpx.AsyncClient) -> None:
    id = await returns.create(await returns.ordered({"a": 1}), {"a": 1})
    change: Json = {"id": id, "status": "Approved"}
    send = partial(http.put, RETURNS, json=change, headers=once())
    first = body_of(await retry_until_decided(send), dict)
    await retry_until_decided(partial(http.delete, RETURNS, params={"ids": id}, headers=once()))
    assert body_of(await retry_until_decided(send), dict) == first
    problem_of(await http.put(RETURNS, json=change, headers=once()), 404)


async def test_deletion_by_kafka(returns: Returns) -> None:
    order, id = await returns.ordered({"a": 5}), new_id("return")
    create = return_command("create", wanted_return(order, {"a": 5}, id=id))
    delete = return_command("delete", {"id": id}, order, user="eva")
    await returns.service.publish("return-commands", create, delete, delete)
    _, _, refused = await returns.wait_for_events(id, "ReturnCreated", "ReturnDeleted", "ReturnRefused")
    assert [reason["code"] for reason in refused["reasons"]] == ["unknown-return"]
    assert await returns.available(order) == {"a": 5}


@pytest.mark.parametrize("query", [{}, {"ids": ""}, {"ids": ["x"] * 1_001}, {"ids": "a" * 129}])
async def test_invalid_ids_for_deletion(http: httpx.AsyncClient, query: Json) -> None:
    problem_of(await http.delete(RETURNS, params=query), 422)


@pytest.mark.long
async def test_put_creates_or_changes_and_returns_the_id(returns: Returns, http: httpx.AsyncClient) -> None:
    async def put(body: Json) -> Json:
        # PUT waits by default, but no longer than five seconds.
        headers = {"Idempotency-Key": new_id("key")}
        response = await retry_until_decided(partial(http.put, RETURNS, json=body, headers=headers))
        assert "preference-applied" not in response.headers
        return body_of(response, dict)

    order = await returns.ordered({"a": 5})
    answer = await put(wanted_return(order, {"a": 2}))
    id = answer["id"]
    assert (answer["ids"], answer["outcome"]) == ([id], "applied")
    assert (await returns.existing(id))["status"] == "New"
    change = {"id": id, "orderId": order, "lineItems": lines_of({"a": 5})}
    assert (await put(change))["id"] == id
    assert await returns.available(order) == {"a": 0}
    too_much = await http.put(RETURNS, json=wanted_return(order, {"a": 1}))
    assert errors_of(too_much) == [("/lineItems/0/quantity", "quantity-not-available")]
    assert errors_of(await http.put(RETURNS, json={"status": "New"})) == [
        ("/orderId", "missing"),
        ("/lineItems", "missing"),
    ]
    posted = await http.post(RETURNS, json=wanted_return(await returns.ordered({"a": 1}), {"a": 1}))
    assert body_of(posted, dict, 202)["id"] == posted.json()["ids"][0]
    key = once()
    wanted = wanted_return(await returns.ordered({"b": 1}, id=f"{order}-b"), {"b": 1})
    first, second = [await retry_until_decided(partial(http.put, RETURNS, json=wanted, headers=key)) for _ in range(2)]
    assert first.json() == second.json()


@pytest.mark.long
async def test_line_may_use_remaining_and_own_quantity(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 5, "b": 1})
    one = await returns.create(order, {"a": 2, "b": 1})
    two = await returns.create(order, {"a": 1})

    async def most(id: str) -> list[int]:
        listed = (await returns.search(objectIds=[id], responseGroup="None"))["results"][0]
        shown = await returns.existing(id)
        assert listed == {**shown, "order": None}
        assert shown["order"]["id"] == order
        return [line["availableQuantity"] for line in shown["lineItems"]]

    assert (await most(one), await most(two)) == ([4, 1], [3])
    await returns.change(one, lineItems=lines_of({"a": 4, "b": 1}))
    assert (await most(one), await most(two)) == ([4, 1], [1])
    await returns.change(one, status="Canceled")
    assert (await most(one), await most(two)) == ([4, 1], [5])
    assert await returns.found(ids=[two], orderId=order) == [two]
    by_order = await returns.found("orderId", objectIds=[one, two], sort="orderId-descending;modifiedBy;createdBy:DESC")
    assert by_order == [order, order]
    wrong = await http.post(f"{RETURNS}/search", json={"responseGroup": "Full"})
    assert [pointer for pointer, _ in errors_of(wrong)] == ["/responseGroup"]


@pytest.fixture
async def own_statuses(facade: Facade) -> AsyncIterator[list[str]]:
    """Statuses in the settings while a test runs."""
    statuses = ["New", "In transit", "Approved", "Canceled"]
    await facade.command("PUT", "/api/settings", {"returnStatuses": statuses})
    yield statuses
    await facade.command("PUT", "/api/settings", {"returnStatuses": None, "returnNumberTemplate": None})


@pytest.mark.long
async def test_statuses_from_settings(
    returns: Returns, facade: Facade, http: httpx.AsyncClient, own_statuses: list[str]
) -> None:
    assert (await facade.get("/api/settings"))["returnStatuses"] == own_statuses
    order = await returns.ordered({"a": 5})
    id = await returns.create(order, {"a": 5}, status="approved")
    await returns.change(id, status=" IN transit")
    assert (await returns.existing(id))["status"] == "In transit"
    for method, body in (
        ("PUT", {"id": id, "status": "Processing"}),
        ("POST", wanted_return(order, {"a": 1}, status="x")),
    ):
        refused = await http.request(method, RETURNS, json=body)
        assert ("/status", "unknown-status") in errors_of(refused)
    await returns.service.publish("return-commands", return_command("update", {"id": id, "status": "Lost"}, order))
    *_, refusal = await returns.wait_for_events(id, "ReturnCreated", "ReturnChanged", "ReturnRefused")
    assert [(reason["code"], reason["pointer"]) for reason in refusal["reasons"]] == [("unknown-status", "/status")]
    # A status removed from the settings stays with the returns that have it.
    await facade.command("PUT", "/api/settings", {"returnStatuses": ["Canceled", "new"]})
    assert (await facade.get("/api/settings"))["returnStatuses"] == ["Canceled", "New"]
    await returns.change(id, status="In transit", resolution="Refund")
    assert errors_of(await http.put(RETURNS, json={"id": id, "status": "Approved"})) == [("/status", "unknown-status")]
    await returns.change(id, status="canceled")
    assert await returns.found("status", objectIds=[id], keyword="cancel") == ["Canceled"]
    assert await returns.available(order) == {"a": 5}


@pytest.mark.parametrize("statuses", [[], ["New"], ["New", "Canceled", "NEW"], ["New", "Canceled", " "], "New", [1]])
async def test_invalid_statuses_in_settings(http: httpx.AsyncClient, statuses: object) -> None:
    refused = await http.put("/api/settings", json={"returnStatuses": statuses})
    assert all(pointer.startswith("/returnStatuses") for pointer, _ in errors_of(refused))


@pytest.mark.long
async def test_number_templates(returns: Returns, facade: Facade, own_statuses: list[str]) -> None:
    await facade.command("PUT", "/api/settings", {"returnNumberTemplate": "ALL{0:yyyy}-{1:D3}"})
    store = await facade.open_store(returnNumberTemplate="OWN{0:yyMMdd}/{1:D4}")
    numbers = []
    for change in ({}, {"settings": {"returnNumberTemplate": None}}):
        await facade.command("PUT", f"/api/stores/{store}", change)
        order = await returns.ordered({"a": 1}, storeId=store)
        numbers += [(await returns.existing(await returns.create(order, {"a": 1})))["number"]]
    order = await returns.ordered({"a": 1}, storeId=None)
    numbers += [(await returns.existing(await returns.create(order, {"a": 1})))["number"]]
    shapes = [r"OWN\d{6}/\d{4}", r"ALL\d{4}-\d{3}", r"ALL\d{4}-\d{3}"]
    assert all(re.fullmatch(shape, number) for shape, number in zip(shapes, numbers, strict=True)), numbers
