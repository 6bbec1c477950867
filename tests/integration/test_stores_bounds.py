"""A token that is bound to a store sees and changes that store alone, whatever it tries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest

from domain.permissions import Permission
from tests.support.facade import REVIEWS, WAIT, Facade, new_id, submission
from tests.support.messages import message
from tests.support.orders import RETURNS, Returns, lines_of
from tests.support.secured import OWN_ALONE, Secured, running_secured
from tests.support.service import Json, Servers
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Shops:
    """Two stores with a review each of one product, another review without a store, and an order with a return in
    each store; `bound` is bound to `mine`, `all` to none."""

    secured: Secured
    all: Facade
    bound: Facade
    mine: str
    other: str
    product: str
    reviews: dict[str | None, str]
    orders: dict[str, str]
    returns: dict[str, str]

    async def refused(self, method: str, path: str, body: Any = None, status: int = 403, **options: Any) -> Json:
        """Ask for what must not be; returns the problem."""
        response = await self.bound.http.request(method, path, json=body, headers=WAIT, **options)
        assert response.status_code == status, f"{method} {path}: {response.status_code} {response.text}"
        problem: Json = response.json()
        return problem


@pytest.fixture(scope="module")
async def shops(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shops]:
    folder = tmp_path_factory.mktemp("secured")
    mine, other, product = new_id("mine"), new_id("other"), new_id()
    async with (
        running_secured(servers, folder) as secured,
        secured.facade(subject="admin") as everything,
        secured.facade(OWN_ALONE, [mine], subject="anna") as bound,
    ):
        stores: list[str | None] = [await everything.open_store(mine), await everything.open_store(other), None]
        ids = await everything.submit(*(submission(product, storeId=store) for store in stores))
        everyones = Returns(secured.service, everything.http)
        orders = {store: await everyones.ordered({"line": 5}, storeId=store) for store in (mine, other)}
        returns = {store: await everyones.create(order, {"line": 1}) for store, order in orders.items()}
        yield Shops(
            secured, everything, bound, mine, other, product, dict(zip(stores, ids, strict=True)), orders, returns
        )


async def test_reviews_of_other_stores_are_not_seen(shops: Shops) -> None:
    mine = shops.reviews[shops.mine]
    assert await shops.bound.listed(entityIds=[shops.product]) == [mine]
    assert (await shops.bound.page(entityIds=[shops.product], take=0))["totalCount"] == 1
    assert await shops.bound.listed(storeId=shops.mine) == [mine]
    assert len(await shops.all.listed(entityIds=[shops.product])) == 3
    await shops.refused("POST", f"{REVIEWS}/reviewList", {"storeId": shops.other})
    assert (await shops.bound.http.get(f"{REVIEWS}/{mine}")).status_code == 200
    for store in (shops.other, None):
        await shops.refused("GET", f"{REVIEWS}/{shops.reviews[store]}", status=404)
    await shops.refused("GET", f"{REVIEWS}/canLeaveFeedback?storeId={shops.other}&entityType=Product&entityId=1")
    await shops.refused("GET", f"{REVIEWS}/canLeaveFeedback?entityType=Product&entityId=1")


async def test_changes_of_other_stores_are_not_told(shops: Shops) -> None:
    hidden, seen = new_id(), new_id()
    await shops.all.submit(submission(hidden, storeId=shops.other), submission(seen, storeId=shops.mine))
    response = await shops.bound.http.post(f"{REVIEWS}/changes", json={"modifiedDate": "2020-01-01"})
    assert seen in response.json()
    assert hidden not in response.json()


async def test_ratings_of_other_stores_are_not_seen(shops: Shops) -> None:
    product = new_id()
    ids = await shops.all.submit(*(submission(product, storeId=s) for s in (shops.mine, shops.other, None)))
    await shops.all.moderate("approve", *ids)
    assert len(await shops.all.ratings(product)) == 3
    assert [rating["storeId"] for rating in await shops.bound.ratings(product)] == [shops.mine]
    await shops.refused("POST", f"/api/rating/calculateStore?storeId={shops.other}")
    await shops.refused("POST", "/api/rating/calculateStore?storeId=")
    await shops.bound.command("POST", f"/api/rating/calculateStore?storeId={shops.mine}")


@pytest.mark.parametrize("fields", [{"storeId": "other"}, {"storeId": None}, {"storeId": ""}, {}])
async def test_no_reviews_for_other_stores(shops: Shops, fields: Json) -> None:
    fields = {name: shops.other if value == "other" else value for name, value in fields.items()}
    good = submission(new_id(), storeId=shops.mine)
    problem = await shops.refused("POST", REVIEWS, [good, submission(new_id(), **fields)])
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [("/1/storeId", "other-store")]


async def test_no_reviews_of_other_users(shops: Shops) -> None:
    review = submission(new_id(), storeId=shops.mine)
    problem = await shops.refused("POST", REVIEWS, [{**review, "userId": "berta"}])
    assert [error["code"] for error in problem["errors"]] == ["other-user"]
    question = f"{REVIEWS}/canLeaveFeedback?storeId={shops.mine}&entityType=Product&entityId=1"
    await shops.refused("GET", f"{question}&userId=berta")
    assert (await shops.bound.http.get(f"{question}&userId=anna")).json()["canLeaveFeedback"]
    # Her own, nobody's, and, for who may, anybody's.
    await shops.bound.submit({**review, "userId": "anna"}, {**review, "userId": None})
    await shops.all.submit({**review, "userId": "berta"})


@pytest.mark.parametrize("action", ["approve", "reject", "reset", "delete"])
async def test_no_moderation_in_other_stores(shops: Shops, action: str) -> None:
    mine, other, none = (shops.reviews[store] for store in (shops.mine, shops.other, None))
    for foreign in (other, none):
        if action == "delete":
            await shops.refused("DELETE", REVIEWS, {"ids": [mine, foreign]})
            await shops.refused("DELETE", f"{REVIEWS}?ids={foreign}")
        else:
            problem = await shops.refused("POST", f"{REVIEWS}/{action}", [mine, foreign])
            assert [error["pointer"] for error in problem["errors"]] == ["/1"]
    assert len(await shops.all.listed(entityIds=[shops.product])) == 3


async def test_a_command_that_overtakes_its_submission_is_decided_upon_when_that_comes(shops: Shops) -> None:
    """The facade can't know yet whose review it will be: the consumer decides."""
    product = new_id()
    ids = {store: str(uuid4()) for store in (shops.mine, shops.other)}
    response = await shops.bound.http.post(f"{REVIEWS}/approve", json=list(ids.values()))
    assert response.status_code == 202

    async def parked() -> int:
        async with shops.secured.service.mongo() as database:
            return await database["parkedCommands"].count_documents({"reviewId": {"$in": list(ids.values())}})

    await eventually(parked, lambda count: count == 2)
    await shops.all.submit(*(submission(product, storeId=store, id=id) for store, id in ids.items()))
    await eventually(
        partial(shops.all.listed, "id", entityIds=[product], reviewStatus="Approved"),
        lambda approved: approved == [ids[shops.mine]],
    )
    await eventually(parked, lambda count: count == 0)
    assert await shops.all.listed("id", entityIds=[product], reviewStatus="New") == [ids[shops.other]]


async def test_consumers_decide_again(shops: Shops) -> None:
    """A command from elsewhere that says which stores its sender is bound to holds for these alone."""
    product, command_id = new_id(), str(uuid4())
    (id,) = await shops.all.submit(submission(product, storeId=shops.other))
    command = {"action": "delete", "ids": [id], "stores": [shops.mine], "commandId": command_id}
    await shops.secured.service.publish("moderation-commands", message(command, id))
    answer = await eventually(lambda: shops.secured.service.find("outcomes", f"{command_id}/{id}"))
    assert answer["outcome"] == "refused"
    assert await shops.all.listed(entityIds=[product]) == [id]


async def test_returns_of_other_stores_are_not_seen(shops: Shops) -> None:
    bound = Returns(shops.secured.service, shops.bound.http)
    ids = list(shops.returns.values())
    assert await bound.found(objectIds=ids) == [shops.returns[shops.mine]]
    assert (await bound.search(objectIds=ids, take=0))["totalCount"] == 1
    assert await bound.found(orderId=shops.orders[shops.other]) == []
    assert await bound.get(shops.returns[shops.other]) is None
    assert (await bound.get(shops.returns[shops.mine]) or {})["order"]["storeId"] == shops.mine
    assert await bound.available(shops.orders[shops.other]) is None
    assert await bound.available(shops.orders[shops.mine]) == {"line": 4}


async def test_no_returns_in_other_stores(shops: Shops) -> None:
    wanted = {"orderId": shops.orders[shops.other], "lineItems": lines_of({"line": 1})}
    foreign = await shops.refused("POST", RETURNS, wanted, status=422)
    unknown = await shops.refused("POST", RETURNS, {**wanted, "orderId": "nobody's"}, status=422)
    assert [error["code"] for error in foreign["errors"]] == [error["code"] for error in unknown["errors"]]
    await shops.refused("PUT", RETURNS, {"id": shops.returns[shops.other], "status": "Canceled"}, status=404)
    returns = Returns(shops.secured.service, shops.all.http)
    assert await returns.available(shops.orders[shops.other]) == {"line": 4}


@pytest.mark.parametrize("action", ["create", "update"])
async def test_consumers_decide_again_about_returns(shops: Shops, action: str) -> None:
    order, id = shops.orders[shops.other], shops.returns[shops.other]
    wanted: Json = {"id": id, "orderId": order, "status": "Canceled"}
    if action == "create":
        wanted = {"id": str(uuid4()), "orderId": order, "lineItems": lines_of({"line": 1})}
    command = {"action": action, "return": wanted, "stores": [shops.mine], "commandId": str(uuid4())}
    await shops.secured.service.publish("return-commands", message(command, order))
    key = f"{command['commandId']}/{wanted['id']}"
    answer = await eventually(lambda: shops.secured.service.find("outcomes", key))
    assert answer["outcome"] == "refused"
    assert await Returns(shops.secured.service, shops.all.http).available(order) == {"line": 4}


async def test_returns_say_who_asked_for_them(shops: Shops) -> None:
    bound = Returns(shops.secured.service, shops.bound.http)
    order = await bound.ordered({"line": 3}, storeId=shops.mine)
    id = await bound.create(order, {"line": 1})
    await Returns(shops.secured.service, shops.all.http).change(id, status="Approved")
    stored = await bound.get(id)
    assert stored
    assert (stored["createdBy"], stored["modifiedBy"]) == ("anna", "admin")


async def test_settings_of_other_stores(shops: Shops) -> None:
    response = await shops.bound.http.get("/api/stores")
    assert [store["id"] for store in response.json()] == [shops.mine]
    for store in (shops.other, "not-registered-yet"):
        await shops.refused("GET", f"/api/stores/{store}")
        await shops.refused("PUT", f"/api/stores/{store}", {"settings": {"reviewsEnabled": False}})
    await shops.refused("PUT", "/api/settings", {"ratingCalculationMethod": "wilson"})
    await shops.bound.command("PUT", f"/api/stores/{shops.mine}", {"name": "Mine"})


async def test_what_concerns_all_stores(shops: Shops) -> None:
    everything = set(Permission)
    async with shops.secured.facade(sorted(everything), [shops.mine], subject="anna") as bound:
        for method, path in (("GET", "/api/settings"), ("PUT", "/api/settings"), ("GET", "/metrics")):
            response = await bound.http.request(method, path, json={} if method == "PUT" else None)
            assert response.status_code == 403, response.text
            assert "all stores" in response.json()["detail"]
    async with shops.secured.facade(sorted(everything), subject="admin") as unbound:
        for path in ("/api/settings", "/metrics"):
            assert (await unbound.http.get(path)).status_code == 200


async def test_templates_of_other_stores(shops: Shops) -> None:
    path = "/api/notificationTemplates/OrderReviewRequest"
    for store in (shops.mine, shops.other):
        await shops.all.command("PUT", f"{path}?storeId={store}", {"subject": store})
    listed = (await shops.bound.http.get("/api/notificationTemplates")).json()
    assert {template["storeId"] for template in listed} == {None, shops.mine}
    for method, at in (("GET", path), ("PUT", path), ("DELETE", path), ("POST", f"{path}/preview")):
        body = {"subject": "Ours"} if method in ("PUT", "POST") else None
        await shops.refused(method, f"{at}?storeId={shops.other}", body)
    for method in ("PUT", "DELETE"):
        await shops.refused(method, path, {"subject": "Everybody's"} if method == "PUT" else None)
    await shops.bound.command("PUT", f"{path}?storeId={shops.mine}", {"subject": "Ours"})


async def test_an_idempotency_key_is_of_each_caller_s_own(shops: Shops) -> None:
    headers = {"idempotency-key": new_id("key"), **WAIT}
    review = submission(new_id(), storeId=shops.mine)
    mine = await shops.bound.http.post(REVIEWS, json=[review], headers=headers)
    other = await shops.all.http.post(REVIEWS, json=[review], headers=headers)
    again = await shops.bound.http.post(REVIEWS, json=[review], headers=headers)
    assert mine.json()["commandId"] == again.json()["commandId"] != other.json()["commandId"]
    assert mine.json()["ids"] == again.json()["ids"] != other.json()["ids"]


async def test_a_token_for_no_store_sees_nothing(shops: Shops) -> None:
    async with shops.secured.facade(OWN_ALONE, []) as nowhere:
        assert await nowhere.listed() == []
        assert (await nowhere.http.get("/api/stores")).json() == []
        assert (await nowhere.http.get("/api/audit")).json() == {"totalCount": 0, "results": []}


async def _entries(http: httpx.AsyncClient, **query: str) -> list[Json]:
    response = await http.get("/api/audit", params=query)
    assert response.status_code == 200, response.text
    page = response.json()
    assert page["totalCount"] == len(page["results"])
    results: list[Json] = page["results"]
    return results


async def test_the_audit_log_says_who_did_what_when_and_why(shops: Shops) -> None:
    product = new_id()
    text = "What nobody but the reviewer should have kept"
    ids = await shops.all.submit(
        *(submission(product, storeId=s, review=text, title=text) for s in (shops.mine, shops.other))
    )
    mine, other = ids
    why = {"reason": "Spam, by the look of it"}
    for action in ("approve", "approve", "reset"):
        await shops.bound.command("POST", f"{REVIEWS}/{action}", [mine])
    response = await shops.bound.http.post(f"{REVIEWS}/reject", json=[mine], params=why, headers=WAIT)
    assert response.json()["results"] == [{"id": mine, "outcome": "applied"}]
    response = await shops.all.http.request("DELETE", REVIEWS, json={"ids": ids}, params=why, headers=WAIT)
    assert response.status_code == 200
    entries = await _entries(shops.all.http, reviewId=mine)
    # Newest first; what changed nothing is not in it.
    assert [(entry["action"], entry["subject"], entry["reason"]) for entry in entries] == [
        ("delete", "admin", why["reason"]),
        ("reject", "anna", why["reason"]),
        ("reset", "anna", None),
        ("approve", "anna", None),
    ]
    assert {(entry["entityId"], entry["storeId"]) for entry in entries} == {(product, shops.mine)}
    assert [entry["at"] for entry in entries] == sorted((entry["at"] for entry in entries), reverse=True)
    assert text not in json.dumps(entries)
    assert await _entries(shops.bound.http, reviewId=other) == []
    assert len(await _entries(shops.all.http, reviewId=other)) == 1
    assert len(await _entries(shops.all.http, reviewId=mine, subject="anna", action="reject")) == 1
    assert await _entries(shops.all.http, reviewId=mine, until="2020-01-01") == []
    assert len(await _entries(shops.bound.http, reviewId=mine, storeId=shops.mine, since="2020-01-01")) == 4
    await shops.refused("GET", f"/api/audit?storeId={shops.other}")
    async with shops.secured.service.mongo() as database:
        assert text not in str(await database["auditLog"].find({"reviewId": mine}).to_list())
