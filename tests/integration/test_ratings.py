"""Ratings follow moderation exactly."""

import asyncio
import random
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, new_id, once, problem_of, submission
from tests.support.ratings import average, histogram, wilson
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

SETTINGS = "/api/settings"


async def test_average_follows_approve_reset_reject_and_delete(facade: Facade, product: str) -> None:
    three, four = await facade.submit(submission(product, 3), submission(product, 4))
    assert await facade.ratings(product) == []
    assert await facade.moderate("approve", three, four) == ["applied", "applied"]
    place = {"storeName": None, "storeId": None, "entityId": product, "entityType": "Product"}
    assert await facade.ratings(product) == [{**place, "value": 3.5, "reviewCount": 2}]
    for action in ("reset", "reject", "delete"):
        assert await facade.moderate("approve", three) == ["unchanged" if action == "reset" else "applied"]
        assert await facade.rating(product) == (3.5, 2)
        assert await facade.moderate(action, three) == ["applied"]
        assert await facade.rating(product) == (4.0, 1)
    await facade.moderate("delete", four)
    assert await facade.ratings(product) == []


@pytest.mark.long
async def test_moderation_in_every_state(facade: Facade, product: str) -> None:
    (id,) = await facade.submit(submission(product, 2))
    status = "New"
    steps = {"approve": "Approved", "reject": "Rejected", "reset": "New"}
    for action in ["reset", "approve", "approve", "reject", "reject", "reset", "reject", "approve", "reset"]:
        assert await facade.moderate(action, id) == ["unchanged" if steps[action] == status else "applied"]
        status = steps[action]
        assert await facade.listed("reviewStatus", entityIds=[product]) == [status]
        assert await facade.rating(product) == ((2.0, 1) if status == "Approved" else (0, 0))


async def test_two_decimals_are_kept_exactly(facade: Facade) -> None:
    product, ratings = new_id(), [1.1, 2.2, 3.33, 4.99, 1, 5]
    await facade.submit_approved(*(submission(product, rating) for rating in ratings))
    assert await facade.rating(product) == (average(ratings), 6)
    assert sorted(await facade.listed("rating", entityIds=[product])) == sorted(ratings)


async def test_ratings_by_store_and_without_store(facade: Facade, http: httpx.AsyncClient) -> None:
    a, b = sorted([await facade.open_store(), await facade.open_store()])
    one, other = new_id(), new_id()
    ids = await facade.submit_approved(
        submission(one, 1),
        submission(one, 2, storeId=a),
        submission(one, 3, storeId=b),
        submission(one, 4, storeId=b),
        submission(other, 5, storeId=b),
        submission(one, 5, EntityType="Vendor"),
    )

    def rows(ratings: list[Json]) -> list[tuple[str, str | None, float, int]]:
        return [(r["entityId"], r["storeId"], r["value"], r["reviewCount"]) for r in ratings]

    expected = [(one, None, 1.0, 1), (one, a, 2.0, 1), (one, b, 3.5, 2)]
    assert rows(await facade.ratings(other, one, new_id(), one)) == [(other, b, 5.0, 1), *expected]
    assert rows(await facade.ratings(one, other)) == [*expected, (other, b, 5.0, 1)]
    vendor = await http.post("/api/rating/entityRating", json={"entityIds": [one], "entityType": "Vendor"})
    assert rows(vendor.json()) == [(one, None, 5.0, 1)]
    await facade.moderate("reset", ids[2])
    assert rows(await facade.ratings(one)) == [*expected[:2], (one, b, 4.0, 1)]


async def test_change_of_method_takes_effect_at_once(facade: Facade) -> None:
    own, general, product = await facade.open_store(), await facade.open_store(), new_id()
    values = [5, 4, 4.5]
    stores = (None, own, general)
    await facade.submit_approved(*(submission(product, v, storeId=store) for store in stores for v in values))

    async def methods() -> dict[str | None, float]:
        return {rating["storeId"]: rating["value"] for rating in await facade.ratings(product)}

    async def calculate(path: str, method: str | None) -> None:
        change = {"ratingCalculationMethod": method}
        await facade.command("PUT", path, change if path == SETTINGS else {"settings": change})

    mean, bound, store = 4.5, wilson(values), f"/api/stores/{own}"
    assert mean != bound
    assert await methods() == {None: mean, own: mean, general: mean}
    await calculate(store, "wilson")
    assert await methods() == {None: mean, own: bound, general: mean}
    try:
        await calculate(SETTINGS, "wilson")
        assert await methods() == {None: bound, own: bound, general: bound}
        await calculate(store, "average")
        assert await methods() == {None: bound, own: mean, general: bound}
        await calculate(store, None)
        assert await methods() == {None: bound, own: bound, general: bound}
    finally:
        await calculate(SETTINGS, "average")
    assert await methods() == {None: mean, own: mean, general: mean}


@pytest.mark.long
@pytest.mark.parametrize("ratings", [[1], [5], [3, 4], [5] * 30, [1, 5, 2.75, 3.33]])
async def test_wilson_equals_the_formula(facade: Facade, ratings: list[float]) -> None:
    store, product = await facade.open_store(ratingCalculationMethod="wilson"), new_id()
    await facade.submit_approved(*(submission(product, r, storeId=store) for r in ratings))
    assert await facade.rating(product) == (wilson(ratings), len(ratings))


@pytest.mark.long
async def test_thousand_reviews_approved_by_twenty_concurrent_requests(facade: Facade, service: Service) -> None:
    product, chance = new_id(), random.Random(7)
    ratings = [chance.randint(100, 500) / 100 for _ in range(1_000)]
    ids = await facade.submit(*(submission(product, rating) for rating in ratings))
    # Every review is in at least one request, and many are in several.
    shares = [{*ids[start::20], *chance.sample(ids, 30)} for start in range(20)]
    outcomes = await asyncio.gather(*(facade.moderate("approve", *share) for share in shares))
    assert sum(some.count("applied") for some in outcomes) == 1_000
    assert await facade.rating(product) == (average(ratings), 1_000)
    await service.run("ratings", "verify")

    # And back, by contradictory requests: whatever the result, list and rating agree.
    actions = [(("approve", "reject", "reset")[n % 3], chance.sample(ids, 100)) for n in range(20)]
    await asyncio.gather(*(facade.moderate(action, *some) for action, some in actions))
    approved = await facade.listed("rating", entityIds=[product], reviewStatus="Approved", take=1_000)
    assert await facade.rating(product) == (average(approved), len(approved))
    await service.run("ratings", "verify")


@pytest.mark.long
async def test_wrong_tally_is_found_and_repaired(facade: Facade, http: httpx.AsyncClient, service: Service) -> None:
    store, product, lost, stray = await facade.open_store(), new_id(), new_id(), new_id()
    reviews = [*(submission(product, r, storeId=store) for r in (3, 4)), submission(lost, 2, storeId=store)]
    await facade.submit_approved(*reviews)

    async def corrupt() -> None:
        async with service.mongo() as database:
            ratings = database["ratings"]
            await ratings.update_one({"entityId": product}, {"$inc": {"count": 1, "sumHundredths": 500}})
            await ratings.delete_one({"entityId": lost})
            invented = {"entityType": "Product", "entityId": stray, "storeId": store}
            wrong = {"count": 1, "sumHundredths": 500, "histogram": [0, 0, 0, 0, 1]}
            await ratings.update_one(invented, {"$set": wrong}, upsert=True)
        assert await facade.rating(product) == (4.0, 3)
        assert await facade.rating(stray) == (5.0, 1)
        assert await facade.rating(lost) == (0, 0)

    async def right() -> bool:
        ratings = [await facade.rating(entity) for entity in (product, lost, stray)]
        return ratings == [(3.5, 2), (2.0, 1), (0, 0)]

    await corrupt()
    found = await service.run("ratings", "verify", code=1)
    assert all(entity in found.stdout for entity in (product, lost, stray))
    ordered = await http.post("/api/rating/calculateStore", params={"storeId": store})
    assert ordered.status_code == 202
    await eventually(right)
    # An object with both reviews and ratings of the store is recounted twice.
    await service.idle()

    await corrupt()
    await service.run("ratings", "rebuild")
    await eventually(right)
    await service.run("ratings", "verify")


async def test_histogram_follows_moderation_and_edits(facade: Facade, product: str) -> None:
    author = new_id()
    ratings = [1.49, 1.5, 3, 4.49, 4.5, 5]
    ids = await facade.submit_approved(*(submission(product, rating, userId=author) for rating in ratings))
    assert await facade.histogram(product) == histogram(ratings) == {"1": 1, "2": 1, "3": 1, "4": 1, "5": 2}
    await facade.moderate("reject", ids[0])
    await facade.moderate("delete", ids[1])
    assert await facade.histogram(product) == histogram(ratings[2:])
    edit = {**submission(product, 2.5, userId=author), "id": ids[5]}
    await facade.command("POST", REVIEWS, [edit])
    assert await facade.histogram(product) == histogram(ratings[2:5])
    await facade.moderate("approve", ids[5])
    assert await facade.histogram(product) == histogram([*ratings[2:5], 2.5])
    (plain,) = await facade.ratings(product)
    assert "histogram" not in plain


@pytest.mark.long
async def test_tally_without_histogram(facade: Facade, service: Service, product: str) -> None:
    ids = await facade.submit_approved(submission(product, 3), submission(product, 4))
    async with service.mongo() as database:
        await database["ratings"].update_one({"entityId": product}, {"$unset": {"histogram": ""}})
    assert await facade.histogram(product) is None
    # Later additions alone don't make a histogram.
    await facade.submit_approved(submission(product, 5))
    assert (await facade.histogram(product), await facade.rating(product)) == (None, (4.0, 3))
    found = await service.run("ratings", "verify", code=1)
    assert product in found.stdout
    assert "not known" in found.stdout
    await service.run("ratings", "rebuild")

    async def is_known() -> bool:
        return await facade.histogram(product) == histogram([3, 4, 5])

    await eventually(is_known)
    await service.run("ratings", "verify")
    await facade.moderate("reset", *ids)
    assert await facade.histogram(product) == histogram([5])


async def test_calculation_of_a_store_can_be_awaited(facade: Facade) -> None:
    store, product = await facade.open_store(), new_id()
    await facade.submit_approved(submission(product, 3, storeId=store))
    (result,) = await facade.command("POST", f"/api/rating/calculateStore?storeId={store}")
    assert result == {"id": store, "outcome": "applied"}
    assert await facade.rating(product) == (3.0, 1)
    query, headers = {"storeId": new_id("store")}, once()
    calculate = partial(facade.http.post, "/api/rating/calculateStore", params=query, headers=headers)
    unheard_of = await retry_until_decided(calculate)
    assert [each["outcome"] for each in problem_of(unheard_of, 409)["results"]] == ["not-found"]


async def test_rating_requests_at_their_bounds(facade: Facade, http: httpx.AsyncClient) -> None:
    assert await facade.ratings() == []
    assert await facade.ratings(*(new_id() for _ in range(1_000))) == []
    bodies: list[Any] = [{"entityIds": ["a"]}, {"entityIds": "a", "entityType": "P"}, {"entityType": "P"}, []]
    for wrong in bodies:
        problem_of(await http.post("/api/rating/entityRating", json=wrong), 422)


@pytest.mark.long
async def test_rating_is_updated_when_wait_ends(facade: Facade, product: str) -> None:
    for count in range(1, 21):
        (id,) = (await facade.http.post(REVIEWS, json=[submission(product, 5)])).json()["ids"]
        await facade.moderate("approve", id)
        assert await facade.rating(product) == (5.0, count)
