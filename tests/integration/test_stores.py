"""Stores, their settings, and the general settings."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from structlog.testing import capture_logs

from storage.pymongo_internals import cancel_and_wait
from tests.support.consumers import Desk
from tests.support.facade import EVERYONE, REVIEWS, Facade, body_of, new_id, once, problem_of, submission
from tests.support.messages import message
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

DEFAULTS: Json = {
    "reviewsEnabled": False,
    "anonymousReviewsAllowed": False,
    "purchaseRequired": True,
    "oneReviewPerCustomer": False,
    "editsKeepStatus": False,
    "ratingCalculationMethod": None,
    "returnNumberTemplate": None,
    "reviewUrl": None,
    "storefrontOrigins": [],
    "moderationRules": [],
}
GENERAL: Json = {
    "ratingCalculationMethod": "average",
    "returnNumberTemplate": "RET{date:%y%m%d}-{sequence:05d}",
    "returnStatuses": ["New", "Approved", "Processing", "Completed", "Canceled"],
    "reminder": {
        "enabled": False,
        "cron": "*/15 * * * *",
        "daysInStatus": 10,
        "orderStatus": "Complete",
        "maxEmailsPerCustomer": 2,
        "maxAgeDays": 30,
        "limitPeriodDays": None,
    },
}


@pytest.mark.long
async def test_partial_body_merges_into_store(facade: Facade, http: httpx.AsyncClient) -> None:
    id = new_id("store")
    path = f"/api/stores/{id}"
    assert (await http.get(path)).status_code == 404

    async def put(body: Json) -> Any:
        assert await facade.command("PUT", path, body) == [{"id": id, "outcome": "applied"}]
        store = await facade.get(path)
        assert store in await facade.get("/api/stores")
        return store

    store: Json = {"id": id, "name": None, "email": None, "languages": [], "settings": DEFAULTS}
    assert await put({}) == store
    store |= {"name": "Photo", "email": "shop@example.com", "languages": ["en-US", "de-DE"]}
    assert await put({"name": "Photo", "email": "shop@example.com", "languages": ["EN_us", "de-DE", "en-US"]}) == store
    store["settings"] = {**DEFAULTS, "reviewsEnabled": True}
    assert await put({"settings": {"reviewsEnabled": True}}) == store
    store["settings"] = {**DEFAULTS, "reviewsEnabled": True, "ratingCalculationMethod": "wilson"}
    assert await put({"settings": {"ratingCalculationMethod": "wilson"}}) == store
    url = "https://shop.example/review?token={token}"
    store["settings"] = {**store["settings"], "reviewUrl": url}
    assert await put({"settings": {"reviewUrl": url}}) == store
    store["settings"] = {**store["settings"], "reviewUrl": None}
    assert await put({"settings": {"reviewUrl": None}}) == store
    store |= {"name": None, "languages": [], "settings": {**DEFAULTS, "reviewsEnabled": True}}
    assert await put({"name": None, "languages": [], "settings": {"ratingCalculationMethod": None}}) == store


@pytest.fixture
async def put_general(facade: Facade) -> AsyncIterator[Callable[[Json], Awaitable[Json]]]:
    """Change the general settings, and return all of them. After the test they are the defaults again."""

    async def put(body: Json) -> Json:
        assert await facade.command("PUT", "/api/settings", body) == [{"id": "general", "outcome": "applied"}]
        return dict(await facade.get("/api/settings"))

    yield put
    assert await put(GENERAL) == GENERAL


async def test_partial_body_merges_into_settings(
    facade: Facade, put_general: Callable[[Json], Awaitable[Json]]
) -> None:
    assert await facade.get("/api/settings") == GENERAL
    reminder = {**GENERAL["reminder"], "enabled": True, "daysInStatus": 3}
    assert await put_general({"reminder": {"enabled": True, "daysInStatus": 3}}) == {**GENERAL, "reminder": reminder}
    wilson = {"ratingCalculationMethod": "wilson"}
    assert await put_general(wilson) == {**GENERAL, **wilson, "reminder": reminder}
    reminder |= {"limitPeriodDays": 90, "maxAgeDays": 7}
    changed = {"reminder": {"limitPeriodDays": 90, "maxAgeDays": 7}}
    assert await put_general(changed) == {**GENERAL, **wilson, "reminder": reminder}
    unlimited = await put_general({"reminder": {"limitPeriodDays": None}})
    assert unlimited["reminder"] == {**reminder, "limitPeriodDays": None}


@pytest.mark.long
async def test_update_that_changes_nothing_is_unchanged(own_facade: Facade) -> None:
    """Defaults count as what was there before, and the audit log has only what has changed."""
    store, template = f"/api/stores/{new_id('store')}", "/api/notificationTemplates/OrderReviewRequest"

    async def put(path: str, body: Json) -> str:
        (result,) = await own_facade.command("PUT", path, body)
        return str(result["outcome"])

    assert await put(store, {}) == "applied"  # registers the store
    for path in (store, "/api/settings"):
        assert await put(path, {}) == "unchanged"
        assert await put(path, await own_facade.get(path)) == "unchanged"
    general = await own_facade.get("/api/settings")
    assert await put("/api/settings", {**general, "ratingCalculationMethod": "wilson"}) == "applied"
    rules = [{"id": "links", "kind": "links", "outcome": "hold"}]
    settings = (await own_facade.get(store))["settings"] | {"moderationRules": rules}
    assert [await put(store, {"settings": settings}) for _ in range(2)] == ["applied", "unchanged"]
    assert [await put(template, {"subject": "Your opinion?"}) for _ in range(2)] == ["applied", "unchanged"]
    rows = (await own_facade.get("/api/audit"))["results"]
    assert [(row["kind"], row["action"], row["fields"]) for row in rows if row["storeId"] != "Electronics"] == [
        ("template", "change", ["subject"]),
        ("store", "change", ["settings.moderationRules"]),
        ("settings", "change", ["ratingCalculationMethod"]),
        ("store", "register", []),
    ]


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/api/settings", {"ratingCalculationMethod": "median"}),
        ("/api/settings", {"reminder": {"daysInStatus": -1}}),
        ("/api/settings", {"reminder": {"daysInStatus": 1.5}}),
        ("/api/settings", {"reminder": {"maxEmailsPerCustomer": "2"}}),
        ("/api/settings", {"reminder": {"cron": "every day"}}),
        ("/api/settings", {"reminder": {"orderStatus": " "}}),
        ("/api/settings", {"reminder": {"maxAgeDays": -1}}),
        ("/api/settings", {"reminder": {"limitPeriodDays": 0}}),
        ("/api/stores/s", {"settings": {"reviewUrl": "https://shop.example/{tokn}"}}),
        ("/api/stores/s", {"settings": {"reviewUrl": "shop.example/{token}"}}),
        ("/api/stores/s", {"settings": {"storefrontOrigins": ["https://shop.example/"]}}),
        ("/api/stores/s", {"settings": {"storefrontOrigins": ["shop.example"]}}),
        ("/api/stores/s", {"settings": {"reviewsEnabled": "yes"}}),
        ("/api/stores/s", {"settings": {"ratingCalculationMethod": "median"}}),
        ("/api/stores/s", {"settings": {"returnNumberTemplate": "always the same"}}),
        ("/api/stores/s", {"settings": {"returnNumberTemplate": "{date:%y%m%d}-{sequence:05d}{0.__class__}"}}),
        ("/api/stores/s", {"name": "x" * 129}),
        ("/api/stores/s", {"languages": "en"}),
        ("/api/stores/s", {"languages": ["not a language"]}),
        ("/api/stores/s", {"languages": [""]}),
        (f"/api/stores/{'x' * 129}", {}),
        ("/api/stores/%20", {}),
    ],
    ids=str,
)
async def test_settings_out_of_bounds_are_refused(http: httpx.AsyncClient, path: str, wrong: Json) -> None:
    assert problem_of(await http.put(path, json=wrong), 422)["errors"]


async def test_feedback_follows_the_store_settings(facade: Facade) -> None:
    async def reasons(store: str | None, user: str | None = "anna") -> Any:
        query = {"storeId": store, "userId": user, "entityType": "Product", "entityId": "camera"}
        known = {name: value for name, value in query.items() if value is not None}
        answer = await facade.get(f"{REVIEWS}/canLeaveFeedback", **known)
        assert answer == {"canLeaveFeedback": not answer["reasons"], "reasons": answer["reasons"]}
        return answer["reasons"]

    assert await reasons(None, None) == []
    assert await reasons("") == []
    assert await reasons(new_id("store")) == ["unknown-store"]
    assert await reasons(await facade.open_store(), None) == []
    closed = await facade.open_store(reviewsEnabled=False, anonymousReviewsAllowed=False)
    assert await reasons(closed) == ["reviews-disabled"]
    assert await reasons(closed, None) == ["reviews-disabled", "anonymous-not-allowed"]
    named = await facade.open_store(anonymousReviewsAllowed=False)
    assert await reasons(named) == []
    assert await reasons(named, "") == ["anonymous-not-allowed"]


async def test_consumer_applies_the_store_rules(facade: Facade, service: Service, product: str) -> None:
    open_, closed = await facade.open_store(), await facade.open_store(reviewsEnabled=False)
    named = await facade.open_store(anonymousReviewsAllowed=False)
    reviews = [
        submission(product, storeId=closed, title="closed"),
        submission(product, storeId=named, userId=None, title="anonymous"),
        submission(product, storeId=new_id("store"), title="unknown store"),
        submission(product, storeId=open_, userId=None, title="open"),
        submission(product, userId=None, title="without a store"),
    ]
    await service.publish("review-submissions", *(message(r, product) for r in reviews))
    rows = await facade.until_listed(product, 2)
    assert {row["title"] for row in rows} == {"open", "without a store"}

    async def refused() -> list[tuple[str, str]]:
        events = await service.events(f"Product:{product}")
        return [(data["storeId"], data["code"]) for kind, data in events if kind == "SubmissionRefused"]

    found = await eventually(refused, lambda found: len(found) >= 3)
    assert set(found) == {
        (closed, "reviews-disabled"),
        (named, "anonymous-not-allowed"),
        (reviews[2]["storeId"], "unknown-store"),
    }


async def test_refused_command_stays_refused(facade: Facade, service: Service, product: str) -> None:
    store, command = await facade.open_store(reviewsEnabled=False), str(uuid4())
    review = submission(product, storeId=store, id=new_id("review"), commandId=command)

    async def outcomes(command: str) -> list[str]:
        answer = await facade.http.get(f"/api/commands/{command}")
        return [each["outcome"] for each in answer.json()["results"]] if answer.status_code == 200 else []

    await service.publish("review-submissions", message(review, product))
    await eventually(partial(outcomes, command), lambda found: found == ["refused"])
    await facade.open_store(store)
    await service.publish("review-submissions", message(review, product))
    other = submission(product, storeId=store, commandId=str(uuid4()), title="other")
    await service.publish("review-submissions", message({**review, **other}, product))
    (row,) = await facade.until_listed(product, 1)
    assert row["title"] == "other"
    assert await outcomes(command) == ["refused"]
    assert await eventually(partial(outcomes, other["commandId"])) == ["applied"]


async def test_store_is_updated_by_kafka(facade: Facade, http: httpx.AsyncClient, service: Service) -> None:
    id = new_id("store")
    updates: list[Json] = [
        {"id": id, "name": "Shop", "settings": {"reviewsEnabled": True, "anonymousReviewsAllowed": True}},
        {"id": id, "email": "a@example.com", "settings": {"purchaseRequired": False}},
    ]
    await service.publish("store-updates", *(message(update, id) for update in updates))

    async def store() -> Any:
        return (await http.get(f"/api/stores/{id}")).json()

    found = await eventually(store, lambda store: store.get("email") is not None)
    assert found["name"] == "Shop"
    assert found["settings"] == {**DEFAULTS, **EVERYONE}
    await facade.submit(submission(new_id(), storeId=id, userId=None))


async def test_repeated_update_does_not_undo_a_later_one(facade: Facade, http: httpx.AsyncClient) -> None:
    id, key = new_id("store"), once()
    send = partial(http.put, f"/api/stores/{id}", json={"name": "first"}, headers=key)
    first = await retry_until_decided(send)
    assert first.status_code == 200
    await facade.command("PUT", f"/api/stores/{id}", {"name": "second"})
    again = await retry_until_decided(send)
    assert again.json() == first.json()
    assert (await facade.get(f"/api/stores/{id}"))["name"] == "second"


async def test_update_of_damaged_store_becomes_dead_letter(desk: Desk) -> None:
    """It would hold up all later updates in its partition."""
    store = await desk.open_store()
    await desk.database["stores"].update_one({"_id": store}, {"$set": {"settings": None}})
    updating = asyncio.create_task(desk.open_store(store))
    try:
        letters = await eventually(lambda: [each for each in desk.kafka.published if each.topic.endswith(".dlq")])
    finally:
        await cancel_and_wait(updating)
    assert [dict(each.headers)["x-error-code"] for each in letters] == [b"processing-failed"]


@pytest.mark.long
@pytest.mark.parametrize("damage", [{"settings": None}, {"name": 5}, {"languages": [5]}])
async def test_damaged_store_hides_no_other(
    service: Service, facade: Facade, http: httpx.AsyncClient, damage: Json
) -> None:
    other, id, product = await facade.open_store(), await facade.open_store(), new_id()
    await facade.submit_approved(*(submission(product, storeId=store, userId=store) for store in (other, id)))
    wanted = {"entityIds": [product], "entityType": "Product"}
    async with service.mongo() as database:
        await database["stores"].update_one({"_id": id}, {"$set": damage})
        stores = [await http.get("/api/stores"), await http.get(f"/api/stores/{id}")]
        ratings = await http.post("/api/rating/entityRating", json=wanted)
        reviews = await http.post(f"{REVIEWS}/search", json={"entityIds": [product]})
        policy, shop = await http.get(f"/api/stores/{id}/review-policy"), f"/storefront/v1/{id}/Product/{product}/form"
        form = await http.get(shop)
        about = {"storeId": id, "userId": "anna", "entityType": "Product", "entityId": product}
        permission = await http.get(f"{REVIEWS}/canLeaveFeedback", params=about)
        pages = [await http.get(f"/console/stores{path}") for path in ("", f"/{id}")]
        await database["stores"].delete_one({"_id": id})
    listed = {store["id"] for store in body_of(stores[0], list)}
    assert (other in listed, id in listed) == (True, False)
    for damaged in (stores[1], policy, form, permission):
        detail = problem_of(damaged, 500)["detail"]
        assert "is damaged, in the collection stores" in detail
        assert "send it again after the repair. `plaudit doctor` finds such documents" in detail
    assert {row["storeId"] for row in body_of(ratings, list)} == {other, id}
    assert {row["storeId"] for row in body_of(reviews, dict)["results"]} == {other, id}
    assert [page.status_code for page in pages] == [200, 500]
    assert "is damaged, in the collection stores" in pages[1].text


async def test_permission_to_review_a_damaged_object_says_what_to_do(service: Service, http: httpx.AsyncClient) -> None:
    """Without its facts, nobody knows whether it takes reviews."""
    about = {"entityType": "Product", "entityId": new_id()}
    async with service.mongo() as database:
        id = {**about, "storeId": None}
        await database["objects"].insert_one({"_id": id, "facts": None, "told": {}})
        answer = await http.get(f"{REVIEWS}/canLeaveFeedback", params={**about, "userId": "anna"})
        await database["objects"].delete_one({"_id": id})
    detail = problem_of(answer, 500)["detail"]
    assert "is damaged, in the collection objects" in detail
    assert "send it again after the repair. `plaudit doctor` finds such documents" in detail


async def test_stores_are_listed_by_page(service: Service, facade: Facade) -> None:
    """A damaged store leaves no gap, by which a page would seem to be the last one."""
    name = new_id("many")
    first, second, third = ids = [f"{name}-{number}" for number in range(3)]
    stores: list[Json] = [{"_id": id, "name": f"Straße {id}"} for id in ids]

    async def listed(**query: str) -> list[str]:
        return [store["id"] for store in await facade.get("/api/stores", **query)]

    async with service.mongo() as database:
        await database["stores"].insert_many([*stores, {"_id": f"{first}-damaged", "name": name, "settings": None}])
        try:
            assert await listed(searchPhrase=name) == [each for each in await listed() if name in each] == ids
            assert await listed(searchPhrase=name.upper(), take="2") == [first, second]
            assert await listed(searchPhrase=name, take="2", after=first) == [second, third]
            assert await listed(after=first, take="2") == [second, third]
            assert await listed(searchPhrase=f"STRASSE {second}") == [second]
            assert await listed(searchPhrase=name, after=third) == []
        finally:
            await database["stores"].delete_many({"_id": {"$regex": f"^{name}"}})


async def test_damaged_store_is_logged_once(desk: Desk) -> None:
    id = new_id("store")
    await desk.database["stores"].insert_one({"_id": id, "settings": None})
    with capture_logs() as lines:
        for _ in range(2):
            assert await desk.services.stores.all() == []
    assert [line["id"] for line in lines] == [id]
