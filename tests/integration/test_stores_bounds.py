"""Callers bound to a store can neither see nor change anything of other stores."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any
from uuid import uuid4

import httpx
import pytest

from console.queue_news import QueueNews
from domain.permissions import ANYBODY, Caller, Permission
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.tail import Tail
from messaging.topics import Topic
from tests.support.facade import REVIEWS, WAIT, Facade, body_of, errors_of, new_id, once, problem_of, submission
from tests.support.messages import message
from tests.support.orders import RETURNS, Returns, an_order, order_event, wanted_return
from tests.support.retries import resend_until_refused, retry_until_decided, retry_until_served
from tests.support.secured import OWN_ALONE, Secured, running_secured
from tests.support.service import Json, Servers
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Shops:
    """Two stores, each with a review of one product, an order and a return, and a review without a store.

    `bound` is bound to `mine`, `all` to none.
    """

    secured: Secured
    all: Facade
    bound: Facade
    mine: str
    other: str
    product: str
    reviews: dict[str | None, str]
    orders: dict[str, str]
    returns: dict[str, str]

    @property
    def all_returns(self) -> Returns:
        return Returns(self.secured.service, self.all.http)

    @property
    def bound_returns(self) -> Returns:
        return Returns(self.secured.service, self.bound.http)

    async def refused(self, method: str, path: str, body: Any = None, status: int = 403, **options: Any) -> Json:
        """Send a request that must be refused; returns the problem."""
        send = partial(self.bound.http.request, method, path, json=body, headers=WAIT, **options)
        return problem_of(await retry_until_served(send), status)

    async def refused_by_consumer(
        self, topic: str, id: str, command: Json, key: str | None = None, outcome: str = "refused"
    ) -> None:
        """Publish a command of a caller bound to `mine`, and wait until it is refused, or has this outcome."""
        command_id = str(uuid4())
        sent = message({**command, "stores": [self.mine], "commandId": command_id}, key or id)
        await self.secured.service.publish(topic, sent)
        answer = await eventually(partial(self.secured.service.find, "outcomes", f"{command_id}/{id}"))
        assert answer["outcome"] == outcome


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
        reviews = dict(zip(stores, ids, strict=True))
        everyones = Returns(secured.service, everything.http)
        orders = {store: await everyones.ordered({"line": 5}, storeId=store) for store in (mine, other)}
        returns = {store: await everyones.create(order, {"line": 1}) for store, order in orders.items()}
        yield Shops(secured, everything, bound, mine, other, product, reviews, orders, returns)


async def test_reviews_of_other_stores_are_hidden(shops: Shops) -> None:
    mine = shops.reviews[shops.mine]
    assert await shops.bound.listed(entityIds=[shops.product]) == [mine]
    assert (await shops.bound.page(entityIds=[shops.product], take=0))["totalCount"] == 1
    assert await shops.bound.listed(storeId=shops.mine) == [mine]
    assert len(await shops.all.listed(entityIds=[shops.product])) == 3
    await shops.refused("POST", f"{REVIEWS}/reviewList", {"storeId": shops.other})
    assert await shops.bound.review(mine)
    for store in (shops.other, None):
        await shops.refused("GET", f"{REVIEWS}/{shops.reviews[store]}", status=404)
    await shops.refused("GET", f"{REVIEWS}/canLeaveFeedback?storeId={shops.other}&entityType=Product&entityId=1")
    await shops.refused("GET", f"{REVIEWS}/canLeaveFeedback?entityType=Product&entityId=1")


async def test_details_of_reviews_of_other_stores_are_protected(shops: Shops) -> None:
    image = "0190b8a2-5c1e-7d3a-9b61-2f4d8e0c7a11"
    vote, report = {"userId": "anna", "helpful": True}, {"reason": "spam", "explanation": "No", "goodFaith": True}
    (approved,) = await shops.all.submit_approved(submission(new_id(), storeId=shops.other))
    for path in ("reports", "impact", "flags"):
        await shops.refused("GET", f"{REVIEWS}/{approved}/{path}", status=404)
    for method, path, body, status in (
        *(("POST", "reply", {"text": "Ours"}, 403), ("DELETE", "reply", None, 403), ("POST", "claim", None, 403)),
        *(("POST", f"images/{image}/{action}", None, 403) for action in ("hide", "show")),
        *(("POST", "votes", vote, 404), ("DELETE", "votes", None, 404), ("POST", "reports", report, 404)),
    ):
        await shops.refused(method, f"{REVIEWS}/{approved}/{path}", body, status)
    for method, path, rest in (
        ("GET", f"/api/stores/{shops.other}/review-policy", None),
        ("POST", f"/api/stores/{shops.other}/moderationRules/try", {"reviews": [{"review": "Good", "rating": 4}]}),
        ("GET", f"/api/reminders/preview?storeId={shops.other}", None),
        ("POST", f"{REVIEWS}/viewedRequestReview", {"customerOrderId": "o", "storeId": shops.other}),
    ):
        await shops.refused(method, path, rest)


async def test_changes_of_other_stores_are_hidden(shops: Shops) -> None:
    hidden, seen = new_id(), new_id()
    await shops.all.submit(submission(hidden, storeId=shops.other), submission(seen, storeId=shops.mine))
    response = await shops.bound.http.post(f"{REVIEWS}/changes", json={"modifiedDate": "2020-01-01"})
    assert seen in response.json()
    assert hidden not in response.json()


@pytest.mark.long
async def test_ratings_of_other_stores_are_hidden(shops: Shops, product: str) -> None:
    await shops.all.submit_approved(*(submission(product, storeId=s) for s in (shops.mine, shops.other, None)))
    assert len(await shops.all.ratings(product)) == 3
    assert [rating["storeId"] for rating in await shops.bound.ratings(product)] == [shops.mine]
    details = await shops.bound.get(f"/api/rating/objects/Product/{product}")
    assert [rating["storeId"] for rating in details["ratings"]] == [shops.mine]
    assert sum(week["reviewCount"] for week in details["trend"]["weeks"]) == 1
    seen = [each async for each in _pages_of_ratings(shops.all, product)]
    assert [rating["storeId"] for rating in chain(*seen)] == [None, *sorted((shops.mine, shops.other))]
    assert [len(ratings) for ratings in seen] == [1, 1, 1]
    seen = [each async for each in _pages_of_ratings(shops.bound, product)]
    assert [[rating["storeId"] for rating in ratings] for ratings in seen] == [[shops.mine]]
    await shops.refused("GET", f"/api/rating/objects/Product/{product}?storeId={shops.other}")
    of_other = await shops.all.get(f"/api/rating/objects/Product/{product}", storeId=shops.other)
    assert [rating["storeId"] for rating in of_other["ratings"]] == [shops.other]
    assert sum(week["reviewCount"] for week in of_other["trend"]["weeks"]) == 1

    async def listed(facade: Facade) -> list[Json]:
        page = body_of(await facade.http.post("/api/rating/objects", json={"searchPhrase": product}), dict)
        return list(page["results"])

    await eventually(partial(listed, shops.all), lambda rows: len(rows) == 3)
    assert [row["storeId"] for row in await listed(shops.bound)] == [shops.mine]
    await shops.refused("POST", "/api/rating/objects", {"storeId": shops.other})
    await shops.refused("POST", f"/api/rating/calculateStore?storeId={shops.other}")
    await shops.refused("POST", "/api/rating/calculateStore?storeId=")


async def _pages_of_ratings(facade: Facade, product: str) -> AsyncIterator[list[Json]]:
    """The ratings of a product in pages of one."""
    after: Json = {}
    while True:
        page = await facade.get(f"/api/rating/objects/Product/{product}", take="1", **after)
        yield page["ratings"]
        if "next" not in page:
            return
        after = {"after": page["next"]}


async def test_orders_of_other_stores_are_hidden(shops: Shops) -> None:
    both = {"ids": list(shops.orders.values())}
    for search, seen in (
        (both, {shops.mine}),
        ({"keyword": shops.orders[shops.other]}, set()),
        ({"customerId": "anna"}, {shops.mine}),
    ):
        page = body_of(await shops.bound.http.post("/api/orders/search", json=search), dict)
        assert {row["storeId"] for row in page["results"]} == seen
    assert len(body_of(await shops.all.http.post("/api/orders/search", json=both), dict)["results"]) == 2
    await shops.refused("POST", "/api/orders/search", {"storeId": shops.other})
    await shops.refused("GET", f"/api/orders/{shops.orders[shops.other]}", status=404)
    await shops.refused("POST", f"{RETURNS}/search", {"storeId": shops.other})
    counts = [
        body_of(await facade.http.post(f"{RETURNS}/counts", json={"ids": list(shops.returns.values())}), dict)["New"]
        for facade in (shops.all, shops.bound)
    ]
    assert counts == [2, 1]
    await shops.bound.command("POST", f"/api/rating/calculateStore?storeId={shops.mine}")


@pytest.mark.parametrize("fields", [{"storeId": "other"}, {"storeId": None}, {"storeId": ""}, {}])
async def test_no_reviews_for_other_stores(shops: Shops, fields: Json) -> None:
    fields = {name: shops.other if value == "other" else value for name, value in fields.items()}
    good = submission(new_id(), storeId=shops.mine)
    problem = await shops.refused("POST", REVIEWS, [good, submission(new_id(), **fields)])
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [("/1/storeId", "other-store")]


async def test_errors_point_to_the_review_of_another_store(shops: Shops) -> None:
    own, other = shops.reviews[shops.mine], shops.reviews[shops.other]
    ids = [own, own, other]
    for body, pointer in ((ids, "/2"), ({"ids": ids}, "/ids/2")):
        (error,) = (await shops.refused("POST", f"{REVIEWS}/approve", body))["errors"]
        assert (error["pointer"], error["code"]) == (pointer, "other-store")
    (error,) = (await shops.refused("POST", f"{REVIEWS}/{other}/reply", {"text": "Thanks."}))["errors"]
    assert error["pointer"] == ""


async def test_search_and_counts_exclude_other_stores(shops: Shops) -> None:
    search = {"entityIds": [shops.product]}
    page = body_of(await shops.bound.http.post(f"{REVIEWS}/search", json=search), dict)
    assert [row["storeId"] for row in page["results"]] == [shops.mine]
    counts = body_of(await shops.bound.http.post(f"{REVIEWS}/counts", json=search), dict)
    assert sum(counts.values()) == 1
    # The cursor of another caller's list is a position in the own list.
    first = await shops.all.page(**search, take=1, sort="createdDate")
    following = await shops.bound.listed("storeName", **search, take=3, sort="createdDate", after=first["next"])
    assert set(following) <= {shops.mine}
    await shops.refused("POST", f"{REVIEWS}/counts", {"storeId": shops.other})
    await shops.refused("POST", f"{REVIEWS}/search", {"storeId": shops.other})


async def test_no_reviews_of_other_users(shops: Shops) -> None:
    review = submission(new_id(), storeId=shops.mine)
    problem = await shops.refused("POST", REVIEWS, [{**review, "userId": "berta"}])
    assert [error["code"] for error in problem["errors"]] == ["other-user"]
    question = f"{REVIEWS}/canLeaveFeedback?storeId={shops.mine}&entityType=Product&entityId=1"
    await shops.refused("GET", f"{question}&userId=berta")
    assert (await shops.bound.http.get(f"{question}&userId=anna")).json()["canLeaveFeedback"]
    # One's own, anonymous ones, and, with the permission, anybody's.
    await shops.bound.submit({**review, "userId": "anna"}, {**review, "userId": None})
    await shops.all.submit({**review, "userId": "berta"})


@pytest.mark.parametrize("is_bound", [True, False])
async def test_taken_id_reveals_nothing_about_its_review(shops: Shops, is_bound: bool) -> None:
    """Neither its store, nor its author, nor its text or rating."""
    whole = submission(shops.product, storeId=shops.other, id=shops.reviews[shops.other])
    least = {name: whole[name] for name in ("id", "EntityId", "EntityType")}
    guesses: list[Json] = [{}, whole, *({name: whole[name]} for name in ("storeId", "rating", "review"))]
    guesses += [{"storeId": shops.mine}, {"storeId": new_id()}, {"rating": 2}, {"review": "Blurred"}]
    stranger = shops.secured.facade({Permission.CREATE_REVIEWS}, subject="mallory")
    async with nullcontext(shops.bound) if is_bound else stranger as guessing:
        for guess in guesses:
            for user in ({}, {"userId": "anna"}, {"userId": "berta"}):
                send = partial(guessing.http.post, REVIEWS, json=[{**least, **guess, **user}], headers=WAIT)
                # Without the stored review, a guess may be refused as one of another store or author.
                answer = await resend_until_refused(send, meanwhile=[403])
                assert errors_of(answer, 409) == [("/0/id", "id-taken")], (guess, user)


async def test_only_a_whole_review_is_a_repeat(shops: Shops) -> None:
    whole = submission(new_id(), userId=None, storeId=shops.mine, id=new_id("review"))
    async with shops.secured.facade({Permission.CREATE_REVIEWS}, subject="mallory") as guessing:
        await guessing.submit(whole)
        (again,) = await guessing.command("POST", REVIEWS, [whole])
        assert again == {"id": whole["id"], "outcome": "unchanged"}
        for omitted in ("review", "rating"):
            send = partial(guessing.http.post, REVIEWS, json=[{**whole, omitted: None}], headers=WAIT)
            # The consumer takes it for a repeat: 200.
            answer = await resend_until_refused(send, meanwhile=[200])
            assert errors_of(answer, 409) == [("/0/id", "id-taken")]


async def test_reminders_of_other_customers_cannot_be_ended(shops: Shops) -> None:
    bound, path = shops.bound, f"{REVIEWS}/viewedRequestReview"
    own = await shops.all_returns.ordered({"line": 1}, storeId=shops.mine, customerId="anna")
    foreign = await shops.all_returns.ordered({"line": 1}, storeId=shops.mine, customerId="berta")
    for order, outcome in ((own, "applied"), (foreign, "not-found"), (new_id("order"), "not-found")):
        assert await bound.command("POST", path, {"customerOrderId": order}) == [{"id": order, "outcome": outcome}]
    # A shop reports what its customers viewed.
    (result,) = await shops.all.command("POST", path, {"customerOrderId": foreign})
    assert result["outcome"] == "applied"


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


async def test_early_command_is_checked_when_its_review_arrives(shops: Shops) -> None:
    """The API can't know yet whose review it will be, so the consumer decides."""
    product = new_id()
    ids = {store: str(uuid4()) for store in (shops.mine, shops.other)}
    body_of(await shops.bound.http.post(f"{REVIEWS}/approve", json=list(ids.values())), dict, 202)

    async def parked() -> int:
        async with shops.secured.service.mongo() as database:
            return await database["parkedCommands"].count_documents({"reviewId": {"$in": list(ids.values())}})

    await eventually(parked, lambda count: count == 2)
    await shops.all.submit(*(submission(product, storeId=store, id=id) for store, id in ids.items()))
    approved = partial(shops.all.listed, entityIds=[product], reviewStatus="Approved")
    await eventually(approved, lambda found: found == [ids[shops.mine]])
    await eventually(parked, lambda count: count == 0)
    assert await shops.all.listed("id", entityIds=[product], reviewStatus="New") == [ids[shops.other]]


async def test_consumers_check_stores_again(shops: Shops, product: str) -> None:
    """A command from elsewhere that states the stores of its sender only affects these."""
    (id,) = await shops.all.submit(submission(product, storeId=shops.other))
    await shops.refused_by_consumer("moderation-commands", id, {"action": "delete", "ids": [id]})
    assert await shops.all.listed(entityIds=[product]) == [id]


async def test_returns_of_other_stores_are_hidden(shops: Shops) -> None:
    bound = shops.bound_returns
    ids = list(shops.returns.values())
    assert await bound.found(objectIds=ids) == [shops.returns[shops.mine]]
    assert (await bound.search(objectIds=ids, take=0))["totalCount"] == 1
    assert await bound.found(orderId=shops.orders[shops.other]) == []
    assert await bound.get(shops.returns[shops.other]) is None
    assert (await bound.existing(shops.returns[shops.mine]))["order"]["storeId"] == shops.mine
    assert await bound.available(shops.orders[shops.other]) is None
    assert await bound.available(shops.orders[shops.mine]) == {"line": 4}


async def test_returns_follow_their_order_into_its_store(shops: Shops) -> None:
    everything, bound, service = shops.all_returns, shops.bound_returns, shops.secured.service
    orders = [await everything.ordered({"line": 1}, storeId=store) for store in (None, None, shops.mine)]
    first, second, own = [await everything.create(order, {"line": 1}) for order in orders]
    number = (await everything.existing(second))["number"]
    async with service.mongo() as database:
        await database["returns"].update_one({"_id": own}, {"$set": {"number": number}})
    assert await bound.found(objectIds=[first, second]) == []
    for order in orders[:2]:
        order_data = an_order(order, {"line": 1}, storeId=shops.mine, modifiedDate="2022-03-15T10:00:00Z")
        await service.publish("order-events", order_event(order_data))
        await eventually(partial(bound.available, order), lambda known: known is not None)
    await eventually(partial(bound.get, first))
    await bound.change(first, status="Approved")
    # The number of the other return is already used in that store.
    assert await bound.found(objectIds=[first, second]) == [first]
    assert (await everything.existing(second))["number"] == number


async def test_queue_receives_no_events_of_other_stores(shops: Shops, product: str) -> None:
    service, stores = shops.secured.service, (shops.mine, shops.other)
    names = [service.topic(topic) for topic in (Topic.EVENTS, Topic.REVIEW_CLAIMS)]
    feed = QueueNews(Tail(KafkaConnection(service.servers.kafka), names))
    heard: dict[str | None, list[tuple[str, str]]] = {store: [] for store in (*stores, None)}

    async def hear(store: str | None) -> None:
        async for news in feed.news(caller_of(store), 60):
            if news is not None:
                heard[store].append((news.kind, news.review_id))

    def caller_of(store: str | None) -> Caller:
        return replace(ANYBODY, stores=frozenset([store]) if store else None)

    listening = [asyncio.create_task(hear(store)) for store in heard]
    try:
        await asyncio.sleep(0)  # they subscribe in their first step
        ids = await shops.all.submit(*(submission(product, storeId=store) for store in stores))
        for id in ids:
            claim = await shops.all.http.post(f"{REVIEWS}/{id}/claim", json={"desk": id})
            assert claim.is_success
        of = {store: {("new", id), ("claimed", id)} for store, id in zip(stores, ids, strict=True)}
        await eventually(lambda: set(heard[None]), lambda heard_of: heard_of >= of[shops.mine] | of[shops.other])
        for store, other in (stores, stores[::-1]):
            await eventually(partial(set, heard[store]), of[store].issubset)
            assert not of[other] & set(heard[store])
            # Existing claims come first.
            first = await anext(feed.news(caller_of(store), 60))
            assert first is not None
            assert ("claimed", first.review_id) in of[store]
    finally:
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        await feed.stop()


async def test_no_returns_in_other_stores(shops: Shops) -> None:
    return_data = wanted_return(shops.orders[shops.other], {"line": 1})
    foreign = await shops.refused("POST", RETURNS, return_data, status=422)
    unknown = await shops.refused("POST", RETURNS, {**return_data, "orderId": "nobody's"}, status=422)
    assert [error["code"] for error in foreign["errors"]] == [error["code"] for error in unknown["errors"]]
    await shops.refused("PUT", RETURNS, {"id": shops.returns[shops.other], "status": "Canceled"}, status=404)
    deletion = await shops.bound.command("DELETE", f"{RETURNS}?ids={shops.returns[shops.other]}")
    assert [result["outcome"] for result in deletion] == ["not-found"]
    assert await shops.all_returns.available(shops.orders[shops.other]) == {"line": 4}


@pytest.mark.parametrize("action", ["create", "update", "delete"])
async def test_consumers_check_stores_of_returns_again(shops: Shops, action: str) -> None:
    order, id = shops.orders[shops.other], shops.returns[shops.other]
    return_data: Json = {"id": id, "orderId": order, "status": "Canceled"}
    if action == "create":
        return_data = wanted_return(order, {"line": 1}, id=str(uuid4()))
    if action == "delete":
        return_data = {"id": id}
    outcome = "not-found" if action == "delete" else "refused"
    command = {"action": action, "return": return_data}
    await shops.refused_by_consumer("return-commands", return_data["id"], command, order, outcome)
    assert await shops.all_returns.available(order) == {"line": 4}


async def test_returns_name_their_authors(shops: Shops) -> None:
    order = await shops.all_returns.ordered({"line": 3}, storeId=shops.mine)
    id = await shops.bound_returns.create(order, {"line": 1})
    await shops.all_returns.change(id, status="Approved")
    stored = await shops.bound_returns.existing(id)
    assert (stored["createdBy"], stored["modifiedBy"]) == ("anna", "admin")


async def test_settings_of_other_stores_are_protected(shops: Shops) -> None:
    for query in ({}, {"take": "1"}, {"searchPhrase": shops.mine}):
        assert [store["id"] for store in await shops.bound.get("/api/stores", **query)] == [shops.mine]
    for query in ({"after": shops.mine}, {"searchPhrase": shops.other}):
        assert await shops.bound.get("/api/stores", **query) == []
    for store in (shops.other, "not-registered-yet"):
        await shops.refused("GET", f"/api/stores/{store}")
        await shops.refused("PUT", f"/api/stores/{store}", {"settings": {"reviewsEnabled": False}})
    await shops.refused("PUT", "/api/settings", {"ratingCalculationMethod": "wilson"})
    await shops.bound.command("PUT", f"/api/stores/{shops.mine}", {"name": "Mine"})


async def test_global_resources_need_access_to_all_stores(shops: Shops) -> None:
    everything = set(Permission)
    async with shops.secured.facade(sorted(everything), [shops.mine], subject="anna") as bound:
        for method, path in (("GET", "/api/settings"), ("PUT", "/api/settings"), ("GET", "/metrics")):
            response = await bound.http.request(method, path, json={} if method == "PUT" else None)
            assert "all stores" in problem_of(response, 403)["detail"]
    async with shops.secured.facade(sorted(everything), subject="admin") as unbound:
        for path in ("/api/settings", "/metrics"):
            assert (await unbound.http.get(path)).status_code == 200


async def test_templates_of_other_stores_are_protected(shops: Shops) -> None:
    path = "/api/notificationTemplates/OrderReviewRequest"
    for store in (shops.mine, shops.other):
        await shops.all.command("PUT", f"{path}?storeId={store}", {"subject": store})
    listed = await shops.bound.get("/api/notificationTemplates")
    assert {template["storeId"] for template in listed} == {None, shops.mine}
    async with shops.secured.service.mongo() as database:
        id, damage = f"OrderReviewRequest?storeId={shops.other}", {"storeId": 5}
        await database["notificationTemplates"].update_one({"_id": id}, {"$set": damage})
        try:
            assert await shops.bound.get("/api/notificationTemplates") == listed
            assert await _pages_of_templates(shops.bound) == listed
        finally:
            await database["notificationTemplates"].update_one({"_id": id}, {"$set": {"storeId": shops.other}})
    everyones = await shops.all.get("/api/notificationTemplates")
    assert await _pages_of_templates(shops.all) == everyones
    assert listed == [template for template in everyones if template["storeId"] in (None, shops.mine)]
    for method, at in (("GET", path), ("PUT", path), ("DELETE", path), ("POST", f"{path}/preview")):
        body = {"subject": "Ours"} if method in ("PUT", "POST") else None
        await shops.refused(method, f"{at}?storeId={shops.other}", body)
    for method in ("PUT", "DELETE"):
        await shops.refused(method, path, {"subject": "Everybody's"} if method == "PUT" else None)
    await shops.bound.command("PUT", f"{path}?storeId={shops.mine}", {"subject": "Ours"})


async def _pages_of_templates(facade: Facade) -> list[Json]:
    """All templates, by pages of one saved template."""
    found: list[Json]
    found = page = await facade.get("/api/notificationTemplates", take="1")
    while page := await facade.get("/api/notificationTemplates", take="1", after=page[-1]["id"]):
        found = [*found, *page]
    return found


async def test_idempotency_keys_are_scoped_to_callers(shops: Shops) -> None:
    key, review = once(), submission(new_id(), storeId=shops.mine)
    callers = (shops.bound, shops.all, shops.bound)
    answers = [
        await retry_until_decided(partial(caller.http.post, REVIEWS, json=[review], headers=key)) for caller in callers
    ]
    mine, other, again = (body_of(answer, dict) for answer in answers)
    for name in ("commandId", "ids"):
        assert mine[name] == again[name] != other[name]


async def test_token_for_no_store_sees_nothing(shops: Shops) -> None:
    async with shops.secured.facade(OWN_ALONE, []) as nowhere:
        assert await nowhere.listed() == []
        assert await nowhere.get("/api/stores") == []
        assert await nowhere.get("/api/audit") == {"totalCount": 0, "results": []}


async def entries_of(facade: Facade, **query: str) -> list[Json]:
    """Return the audit entries that a search finds."""
    page = await facade.get("/api/audit", **query)
    assert page["totalCount"] == len(page["results"])
    return list(page["results"])


async def test_audit_log_records_subject_action_time_and_reason(shops: Shops, product: str) -> None:
    text = "What nobody but the reviewer should have kept"
    reviews = [submission(product, storeId=store, review=text, title=text) for store in (shops.mine, shops.other)]
    mine, other = ids = await shops.all.submit(*reviews)
    why = {"reason": "Spam, by the look of it"}
    for action in ("approve", "approve", "reset"):
        await shops.bound.command("POST", f"{REVIEWS}/{action}", [mine])
    query = httpx.QueryParams(why)
    rejected = await shops.bound.command("POST", f"{REVIEWS}/reject?{query}", [mine])
    assert rejected == [{"id": mine, "outcome": "applied"}]
    await shops.all.command("DELETE", f"{REVIEWS}?{query}", {"ids": ids})
    entries = await entries_of(shops.all, reviewId=mine)
    # Newest first, without commands that changed nothing.
    assert [(entry["action"], entry["subject"], entry["reason"]) for entry in entries] == [
        ("delete", "admin", why["reason"]),
        ("reject", "anna", why["reason"]),
        ("reset", "anna", None),
        ("approve", "anna", None),
    ]
    assert {(entry["entityId"], entry["storeId"]) for entry in entries} == {(product, shops.mine)}
    assert [entry["at"] for entry in entries] == sorted((entry["at"] for entry in entries), reverse=True)
    assert text not in json.dumps(entries)
    assert await entries_of(shops.bound, reviewId=other) == []
    assert len(await entries_of(shops.all, reviewId=other)) == 1
    assert len(await entries_of(shops.all, reviewId=mine, subject="anna", action="reject")) == 1
    assert await entries_of(shops.all, reviewId=mine, until="2020-01-01") == []
    assert len(await entries_of(shops.bound, reviewId=mine, storeId=shops.mine, since="2020-01-01")) == 4
    await shops.refused("GET", f"/api/audit?storeId={shops.other}")
    async with shops.secured.service.mongo() as database:
        assert text not in str(await database["auditLog"].find({"reviewId": mine}).to_list())


async def test_callers_see_only_their_own_commands(shops: Shops) -> None:
    review = submission(new_id(), storeId=shops.mine)
    sent = body_of(
        await retry_until_decided(partial(shops.bound.http.post, REVIEWS, json=[review], headers=once())), dict
    )
    path = f"/api/commands/{sent['commandId']}"
    expected = {"commandId": sent["commandId"], "outcome": "applied", "results": sent["results"]}
    assert await shops.bound.get(path) == expected
    problem_of(await shops.all.http.get(path), 404)
    # Commands not applied yet, like this parked one, are visible only to their caller, too.
    parked = body_of(await shops.bound.http.post(f"{REVIEWS}/approve", json=[new_id("review")]), dict, 202)
    path = f"/api/commands/{parked['commandId']}"
    assert (await shops.bound.get(path))["outcome"] == "accepted"
    problem_of(await shops.all.http.get(path), 404)


async def test_status_conflict_names_the_moderator(shops: Shops) -> None:
    (id,) = await shops.all.submit(submission(new_id(), storeId=shops.mine))
    assert await shops.all.moderate("approve", id) == ["applied"]
    (result,) = await shops.bound.command("POST", f"{REVIEWS}/reject?expectedStatus=New", [id])
    refused = {"id": id, "outcome": "refused", "reason": "status-changed"}
    assert result.pop("message")
    assert result == {**refused, "status": "Approved", "moderator": "admin"}


async def test_callers_can_query_their_identity(shops: Shops) -> None:
    me = await shops.bound.get("/api/me")
    assert me["permissions"] == sorted(OWN_ALONE)
    assert (me["subject"], me["stores"], me["authentication"]) == ("anna", [shops.mine], "jwt")
    assert (await shops.all.get("/api/me"))["stores"] is None
    async with shops.secured.service.client() as nobody:
        problem_of(await nobody.get("/api/me"), 401)
