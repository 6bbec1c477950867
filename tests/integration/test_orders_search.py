"""Received orders: found by id, number and customer, and the purchases that they prove."""

from functools import partial
from typing import Any

import httpx

from storage.database import Database
from storage.orders.repository import OrderRepository
from tests.support.console_pages import page_of
from tests.support.facade import Facade, body_of, errors_of, new_id, problem_of
from tests.support.orders import Returns, an_order
from tests.support.service import Json

ORDERS = "/api/orders"


async def found(http: httpx.AsyncClient, field: str = "id", **search: Any) -> list[Any]:
    page = body_of(await http.post(f"{ORDERS}/search", json=search), dict)
    return [row[field] for row in page["results"]]


async def test_orders_are_found_newest_first_with_available_quantities(
    returns: Returns, http: httpx.AsyncClient
) -> None:
    customer, store = new_id("customer"), new_id("store")
    days = [f"2022-03-{day:02}T10:00:00.123Z" for day in range(1, 6)]
    ids = [await returns.ordered({"a": 3, "b": 1}, customerId=customer, modifiedDate=day) for day in days]
    elsewhere = await returns.ordered({"a": 1}, customerId=customer, storeId=store, number=new_id("CO"))
    await returns.create(ids[0], {"a": 2})

    assert await found(http, customerId=customer) == [elsewhere, *ids[::-1]]
    assert await found(http, customerId=customer, storeId=store) == [elsewhere]
    assert await found(http, ids=[ids[1], "nothing", ids[0]]) == [ids[1], ids[0]]
    (number,) = await found(http, "number", keyword=elsewhere)
    assert await found(http, number=number) == await found(http, keyword=number) == [elsewhere]
    assert await found(http, keyword=customer) == await found(http, customerId=customer)
    assert await found(http, keyword=number[:-1]) == []

    (row,) = body_of(await http.post(f"{ORDERS}/search", json={"ids": [ids[0]]}), dict)["results"]
    assert (row["customerId"], row["storeId"], row["modifiedDate"]) == (customer, "Electronics", days[0])
    line = {"productId": "a", "name": None, "price": 10}
    assert row["lineItems"][0] == {"id": "a", **line, "quantity": 3, "availableQuantity": 1}

    seen: list[str] = []
    search: Json = {"customerId": customer, "take": 4}
    while True:
        page = body_of(await http.post(f"{ORDERS}/search", json=search), dict)
        seen += [each["id"] for each in page["results"]]
        if "next" not in page:
            break
        search["after"] = page["next"]
    assert seen == [elsewhere, *ids[::-1]]
    other = {**search, "customerId": "somebody else"}
    assert errors_of(await http.post(f"{ORDERS}/search", json=other)) == [("/after", "unknown-page")]


async def test_one_order_with_all_received_fields(returns: Returns, http: httpx.AsyncClient) -> None:
    order = an_order(new_id("order/of slashes"), {"a": 1}, customerName="Anna Berg", currency="EUR")
    await returns.ordered({}, **order)
    details = body_of(await http.get(f"{ORDERS}/{order['id']}"), dict)
    assert (details["id"], details["customerName"], details["isCancelled"]) == (order["id"], "Anna Berg", False)
    assert (details["order"], details["currency"]) == (order, "EUR")
    (row,) = body_of(await http.post(f"{ORDERS}/search", json={"ids": [order["id"]]}), dict)["results"]
    assert row == {name: value for name, value in details.items() if name in row}
    assert row["currency"] == "EUR"
    problem_of(await http.get(f"{ORDERS}/{new_id('order')}"), 404)


async def test_orders_name_their_store(returns: Returns, facade: Facade, http: httpx.AsyncClient) -> None:
    named, unknown = new_id("store"), new_id("store")
    await facade.command("PUT", f"/api/stores/{named}", {"name": "Cameras & Co"})
    shown = {named: "Cameras & Co", unknown: unknown, "": None}
    ids = {await returns.ordered({"a": 1}, storeId=store or None): name for store, name in shown.items()}
    page = body_of(await http.post(f"{ORDERS}/search", json={"ids": list(ids)}), dict)
    assert {row["id"]: row["storeName"] for row in page["results"]} == ids
    first = await returns.create(next(iter(ids)), {"a": 1})
    for screen in ("orders", f"orders/{next(iter(ids))}", "returns", f"returns/{first}"):
        assert "Cameras &amp; Co" in await page_of(http, f"/console/{screen}", store=named), screen


async def test_newest_orders_of_a_customer_are_those_in_the_stores(database: Database) -> None:
    for number, store in enumerate(("a", "b", "c", None)):
        await database["orders"].insert_one(
            {"_id": f"{number}", "customerId": "anna", "storeId": store, "modified": number}
        )
    newest = partial(OrderRepository(database).ids_of_customer, "anna", most=1)
    assert [await newest(stores) for stores in (None, ["a", "b"], ["a"], ["d"])] == [["3"], ["1"], ["0"], []]


async def test_orders_show_if_they_prove_a_purchase(returns: Returns, http: httpx.AsyncClient) -> None:
    customer, product = new_id("customer"), new_id()
    bought = await returns.ordered({product: 1}, customerId=customer)
    cancelled = await returns.ordered({product: 1}, customerId=customer, status="Cancelled")
    other = await returns.ordered({new_id(): 1}, customerId=customer)

    async def proofs(entity_type: str) -> dict[str, bool]:
        search = {"customerId": customer, "entityType": entity_type, "entityId": product}
        page = body_of(await http.post(f"{ORDERS}/search", json=search), dict)
        return {row["id"]: row["provesPurchase"] for row in page["results"]}

    assert await proofs("Product") == {bought: True, cancelled: False, other: False}
    assert await proofs("Vendor") == {bought: True, cancelled: False, other: True}
    half = await http.post(f"{ORDERS}/search", json={"entityType": "Product"})
    assert errors_of(half) == [("/entityId", "missing")]
