"""Stores, their settings, and the general settings."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.facade import REVIEWS, WAIT, Facade, new_id, submission
from tests.support.messages import message
from tests.support.service import Json, Service
from tests.support.waiting import eventually

DEFAULTS = {
    "reviewsEnabled": False,
    "anonymousReviewsAllowed": False,
    "purchaseRequired": True,
    "ratingCalculationMethod": None,
    "returnNumberTemplate": "RET{date:%y%m%d}-{sequence:05d}",
}
GENERAL = {
    "ratingCalculationMethod": "average",
    "reminder": {
        "enabled": False,
        "cron": "*/15 * * * *",
        "daysInStatus": 10,
        "orderStatus": "Complete",
        "maxEmailsPerCustomer": 2,
    },
}


async def test_a_partial_body_merges_into_a_store(facade: Facade, http: httpx.AsyncClient) -> None:
    id = new_id("store")
    path = f"/api/stores/{id}"
    assert (await http.get(path)).status_code == 404

    async def put(body: Json) -> Json:
        assert await facade.command("PUT", path, body) == [{"id": id, "outcome": "applied"}]
        store: Json = (await http.get(path)).json()
        assert store in (await http.get("/api/stores")).json()
        return store

    store: Json = {"id": id, "name": None, "email": None, "languages": [], "settings": DEFAULTS}
    assert await put({}) == store
    store |= {"name": "Photo", "email": "shop@example.com", "languages": ["en-US", "de-DE"]}
    assert await put({k: store[k] for k in ("name", "email", "languages")}) == store
    store["settings"] = {**DEFAULTS, "reviewsEnabled": True}
    assert await put({"settings": {"reviewsEnabled": True}}) == store
    store["settings"] = {**DEFAULTS, "reviewsEnabled": True, "ratingCalculationMethod": "wilson"}
    assert await put({"settings": {"ratingCalculationMethod": "wilson"}, "unknown": {"x": 1}}) == store
    store |= {"name": None, "languages": [], "settings": {**DEFAULTS, "reviewsEnabled": True}}
    assert await put({"name": None, "languages": [], "settings": {"ratingCalculationMethod": None}}) == store


async def test_a_partial_body_merges_into_the_settings(facade: Facade, http: httpx.AsyncClient) -> None:
    async def put(body: Json) -> Any:
        assert await facade.command("PUT", "/api/settings", body) == [{"id": "general", "outcome": "applied"}]
        return (await http.get("/api/settings")).json()

    try:
        assert await put({}) == GENERAL
        reminder = {**GENERAL["reminder"], "enabled": True, "daysInStatus": 3}  # type: ignore[dict-item]
        assert await put({"reminder": {"enabled": True, "daysInStatus": 3}}) == {**GENERAL, "reminder": reminder}
        assert await put({"ratingCalculationMethod": "wilson"}) == {
            "ratingCalculationMethod": "wilson",
            "reminder": reminder,
        }
    finally:
        assert await put(GENERAL) == GENERAL


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/api/settings", {"ratingCalculationMethod": "median"}),
        ("/api/settings", {"ratingCalculationMethod": None}),
        ("/api/settings", {"reminder": {"daysInStatus": -1}}),
        ("/api/settings", {"reminder": {"daysInStatus": 1.5}}),
        ("/api/settings", {"reminder": {"maxEmailsPerCustomer": "2"}}),
        ("/api/settings", {"reminder": {"cron": "every day"}}),
        ("/api/settings", {"reminder": None}),
        ("/api/stores/s", {"settings": {"reviewsEnabled": "yes"}}),
        ("/api/stores/s", {"settings": {"ratingCalculationMethod": "median"}}),
        ("/api/stores/s", {"settings": {"returnNumberTemplate": "always the same"}}),
        ("/api/stores/s", {"settings": {"returnNumberTemplate": "{date:%y%m%d}-{sequence:05d}{0.__class__}"}}),
        ("/api/stores/s", {"name": "x" * 129}),
        ("/api/stores/s", {"languages": "en"}),
        (f"/api/stores/{'x' * 129}", {}),
        ("/api/stores/%20", {}),
    ],
    ids=str,
)
async def test_settings_out_of_bounds(http: httpx.AsyncClient, path: str, wrong: Json) -> None:
    response = await http.put(path, json=wrong)
    assert response.status_code == 422, response.text
    assert response.json()["errors"]


async def test_who_can_leave_feedback(facade: Facade, http: httpx.AsyncClient) -> None:
    async def reasons(store: str | None, user: str | None = "anna") -> list[str]:
        query = {"storeId": store, "userId": user, "entityType": "Product", "entityId": "camera"}
        response = await http.get(
            f"{REVIEWS}/canLeaveFeedback", params={k: v for k, v in query.items() if v is not None}
        )
        assert response.status_code == 200, response.text
        answer = response.json()
        assert list(answer) == ["canLeaveFeedback", "reasons"]
        assert answer["canLeaveFeedback"] is (not answer["reasons"])
        found: list[str] = answer["reasons"]
        return found

    assert await reasons(None, None) == []
    assert await reasons("") == []
    assert "reviews-disabled" in await reasons(new_id("store"))
    assert await reasons(await facade.open_store(), None) == []
    closed = await facade.open_store(reviewsEnabled=False, anonymousReviewsAllowed=False)
    assert await reasons(closed) == ["reviews-disabled"]
    assert await reasons(closed, None) == ["reviews-disabled", "anonymous-not-allowed"]
    named = await facade.open_store(anonymousReviewsAllowed=False)
    assert await reasons(named) == []
    assert await reasons(named, "") == ["anonymous-not-allowed"]


async def test_the_consumer_applies_the_rules_again(facade: Facade, service: Service) -> None:
    open_, closed, named = (
        await facade.open_store(),
        await facade.open_store(reviewsEnabled=False),
        await facade.open_store(anonymousReviewsAllowed=False),
    )
    product = new_id()
    reviews = [
        submission(product, storeId=closed, title="closed"),
        submission(product, storeId=named, userId=None, title="anonymous"),
        submission(product, storeId=new_id("store"), title="unknown store"),
        submission(product, storeId=open_, userId=None, title="open"),
        submission(product, userId=None, title="without a store"),
    ]
    await service.publish("review-submissions", *(message(r, product) for r in reviews))

    async def titles() -> set[str]:
        return set(await facade.listed("title", entityIds=[product]))

    assert await eventually(titles, lambda found: len(found) == 2) == {"open", "without a store"}

    async def refused() -> list[tuple[str, str]]:
        told = await service.events(f"Product:{product}")
        return [(data["storeId"], data["code"]) for kind, data in told if kind == "SubmissionRefused"]

    found = await eventually(refused, lambda found: len(found) >= 3)
    assert set(found) == {
        (closed, "reviews-disabled"),
        (named, "anonymous-not-allowed"),
        (reviews[2]["storeId"], "reviews-disabled"),
    }


async def test_a_store_by_kafka(facade: Facade, http: httpx.AsyncClient, service: Service) -> None:
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
    assert found["settings"] == {
        **DEFAULTS,
        "reviewsEnabled": True,
        "anonymousReviewsAllowed": True,
        "purchaseRequired": False,
    }
    await facade.submit(submission(new_id(), storeId=id, userId=None))


async def test_a_repeated_update_does_not_undo_a_later_one(facade: Facade, http: httpx.AsyncClient) -> None:
    id, key = new_id("store"), {"Idempotency-Key": new_id("key"), **WAIT}
    first = await http.put(f"/api/stores/{id}", json={"name": "first"}, headers=key)
    assert first.status_code == 200
    await facade.command("PUT", f"/api/stores/{id}", {"name": "second"})
    again = await http.put(f"/api/stores/{id}", json={"name": "first"}, headers=key)
    assert again.json() == first.json()
    assert (await http.get(f"/api/stores/{id}")).json()["name"] == "second"
