"""Requests of Virto Commerce's administration for reviews and returns, as its scripts send them, without our headers;
and the parts of each answer that these scripts read."""

from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, body_of, errors_of, submission
from tests.support.orders import RETURNS, Returns
from tests.support.service import Json
from tests.support.waiting import eventually

ROW_FIELDS = {"id", "title", "rating", "createdDate", "reviewStatus", "reviewStatusId", "userName", "entityId"}
STATUSES = {0: "New", 1: "Approved", 2: "Rejected"}


async def send(http: httpx.AsyncClient, method: str, path: str, body: Any = None, **query: Any) -> Any:
    """Send a request; returns the body of a successful answer."""
    response = await http.request(method, path, json=body, params=query or None)
    assert 200 <= response.status_code < 300, response.text
    return response.json()


def review_list(product: str, status: int | None, **filters: Any) -> Json:
    """Return the search of the reviews blade: the filter, including the options selected in its fields."""
    chosen = {} if status is None else {"reviewStatusObj": {"name": STATUSES[status], "value": status}}
    return {
        "entityIds": [product],
        "entityType": "Product",
        "keyword": None,
        **chosen,
        **filters,
        "reviewStatus": None if status is None else [status],
        "skip": 0,
        "take": 20,
    }


@pytest.mark.parametrize("column", ["title", "rating", "createdDate", "reviewStatus", "userName"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
async def test_reviews_are_listed(facade: Facade, product: str, column: str, direction: str) -> None:
    ids = await facade.submit(*(submission(product, rating) for rating in (1, 3, 5)))
    await facade.moderate("approve", ids[1])
    await facade.moderate("reject", ids[2])
    search = partial(send, facade.http, "POST", f"{REVIEWS}/reviewList")
    for status, id in enumerate(ids):
        page = await search(review_list(product, status, sort=f"{column}:{direction}"))
        assert page["totalCount"] == 1
        (row,) = page["results"]
        assert row.keys() >= ROW_FIELDS
        assert (row["id"], row["reviewStatusId"], row["reviewStatus"]) == (id, status, STATUSES[status])
    page = await search(review_list(product, None, sort=f"{column}:{direction}"))
    values = [row["reviewStatusId" if column == "reviewStatus" else column] for row in page["results"]]
    assert values == sorted(values, reverse=direction == "desc")
    assert page["totalCount"] == 3


async def test_reviews_are_searched_by_keyword(facade: Facade, product: str) -> None:
    id, _ = await facade.submit(submission(product, title="Too loud"), submission(product))
    listed = review_list(product, 0, keyword="LOUD", searchPhrase="LOUD", sort="createdDate:desc")
    page = await send(facade.http, "POST", f"{REVIEWS}/reviewList", listed)
    assert [row["id"] for row in page["results"]] == [id]


@pytest.mark.parametrize("actions", [["approve"], ["reject"], ["approve", "reset"], ["reject", "reset"]])
async def test_reviews_are_moderated(facade: Facade, product: str, actions: list[str]) -> None:
    statuses = {"approve": 1, "reject": 2, "reset": 0}
    (id,) = await facade.submit(submission(product))
    for action in actions:
        await send(facade.http, "POST", f"{REVIEWS}/{action}", [id])
        listed = partial(facade.listed, "id", **review_list(product, statuses[action], sort="createdDate:desc"))
        await eventually(listed, lambda ids: ids == [id])


async def test_reviews_are_deleted_by_query(facade: Facade, product: str) -> None:
    (id,) = await facade.submit(submission(product))
    await send(facade.http, "DELETE", REVIEWS, ids=id)
    await eventually(partial(facade.listed, **review_list(product, None)), lambda ids: not ids)


async def test_ratings_of_product_are_read(facade: Facade, product: str) -> None:
    store = await facade.open_store()
    await facade.submit_approved(submission(product, 5, storeId=store), submission(product, 4, storeId=store))
    await send(facade.http, "POST", "/api/rating/calculateStore", storeId=store)
    rows = await send(
        facade.http, "POST", "/api/rating/entityRating", {"entityIds": [product], "entityType": "Product"}
    )
    assert [(f"{row['value']:.1f}", row["reviewCount"]) for row in rows] == [("4.5", 2)]
    rows = await send(facade.http, "POST", "/api/rating/entityRating", {"entityIds": ["none"], "entityType": "Product"})
    assert rows == []


def new_return(order: str, quantity: int, line: str = "a") -> Json:
    """Return a return as the blade of an order's items creates it."""
    chosen = {"orderLineItemId": line, "price": 10, "quantity": quantity, "reason": None}
    return {"orderId": order, "status": "New", "lineItems": [chosen]}


async def opened(http: httpx.AsyncClient, order: str, quantity: int) -> Json:
    """Create a return and fetch it by the id in the answer."""
    saved = await until_saved(http, new_return(order, quantity))
    return dict(await send(http, "GET", f"{RETURNS}/{saved['id']}"))


async def until_saved(http: httpx.AsyncClient, return_data: Json) -> Json:
    """Save a return; returns the answer. It comes after at most five seconds: on a busy machine the return may not
    exist by then."""
    saved: Json = await send(http, "PUT", RETURNS, return_data)
    if saved["outcome"] == "accepted":
        path = f"/api/commands/{saved['commandId']}"
        await eventually(partial(send, http, "GET", path), lambda state: state["outcome"] == "applied")
    return saved


async def test_return_is_created_opened_and_changed(returns: Returns, http: httpx.AsyncClient) -> None:
    item = {"id": "a", "productId": "p", "sku": "S-1", "name": "Thing a", "quantity": 5, "price": 10}
    order = await returns.ordered({}, items=[item], customerName="Anna Berg")
    assert await send(http, "GET", f"{RETURNS}/available-quantities/{order}") == {"a": 5}
    shown = await opened(http, order, 2)
    (line,) = shown["lineItems"]
    assert (shown["status"], line["quantity"], line["availableQuantity"]) == ("New", 2, 5)
    assert [item["name"] for item in shown["order"]["items"] if item["id"] == line["orderLineItemId"]] == ["Thing a"]

    shown |= {"status": "Approved", "resolution": "Refund"}
    line |= {"quantity": 5, "reason": "Scratched", "name": "Thing a", "sku": None}
    saved = await until_saved(http, shown)
    assert saved["id"] == shown["id"]
    after = await send(http, "GET", f"{RETURNS}/{shown['id']}")
    assert (after["status"], after["resolution"], after["number"]) == ("Approved", "Refund", shown["number"])
    assert [(each["id"], each["quantity"], each["reason"]) for each in after["lineItems"]] == [
        (line["id"], 5, "Scratched")
    ]
    assert await send(http, "GET", f"{RETURNS}/available-quantities/{order}") == {"a": 0}

    line["quantity"] = 6
    refused = await http.put(RETURNS, json=shown)
    assert errors_of(refused) == [("/lineItems/0/quantity", "quantity-not-available")]


@pytest.mark.parametrize("column", ["number", "status", "createdDate", "modifiedDate", "createdBy"])
async def test_returns_are_listed(returns: Returns, http: httpx.AsyncClient, column: str) -> None:
    order = await returns.ordered({"a": 5}, customerName="Anna Berg")
    ids = [await returns.create(order, {"a": 1}, status=status) for status in ("Processing", "New", "Canceled")]
    listed: dict[str, list[Json]] = {}
    for direction in ("asc", "desc"):
        search = {
            "responseGroup": "WithOrders",
            "sort": f"{column}:{direction}",
            "skip": 0,
            "take": 20,
            "orderId": order,
        }
        page = await send(http, "POST", f"{RETURNS}/search", search)
        assert page["totalCount"] == 3
        listed[direction] = page["results"]
    assert sorted(row["id"] for row in listed["asc"]) == sorted(ids)
    assert [row["id"] for row in listed["asc"]] == [row["id"] for row in listed["desc"]][::-1]
    if column != "createdBy":
        values = [row[column] for row in listed["asc"]]
        assert values == sorted(values)
    for row in listed["asc"]:
        assert (row["order"]["customerName"], len(row["lineItems"])) == ("Anna Berg", 1)
        assert row["order"].keys() >= {"number", "customerName"}


async def test_returns_of_an_order_are_counted(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 5})
    await returns.create(order, {"a": 1})
    found = await send(http, "POST", f"{RETURNS}/search", {"skip": 0, "take": 0, "orderId": order})
    assert found["totalCount"] == 1


async def test_returns_are_deleted_by_query(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 5})
    first, second = [await opened(http, order, quantity) for quantity in (1, 2)]
    response = await http.delete(RETURNS, params={"ids": [first["id"], second["id"]]})
    assert body_of(response, dict, 202)["ids"] == [first["id"], second["id"]]
    await eventually(partial(returns.available, order), lambda left: left == {"a": 5})
    assert await returns.found(orderId=order) == []


async def test_list_row_is_saved(facade: Facade, product: str) -> None:
    (id,) = await facade.submit(submission(product))
    (row,) = (await facade.page(**review_list(product, 0)))["results"]
    answer = await facade.http.post(REVIEWS, json=[row])
    assert body_of(answer, dict, 202)["ids"] == [id]
