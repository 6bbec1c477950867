"""Rated objects: found by name, listed, and shown with their trend."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest
from pymongo import monitoring

from consumers.ratings import name_rated_objects
from domain.ratings import Entity
from storage.indexes import ensure_indexes
from storage.ratings import objects as ratings_objects
from storage.ratings.objects import RatedObjectRepository
from tests.support.consumers import Desk
from tests.support.facade import Facade, body_of, errors_of, new_id, problem_of, submission
from tests.support.messages import message
from tests.support.ranges import FilterRecorder, recorded_database
from tests.support.service import Json, Servers, Service, own_database
from tests.support.waiting import eventually

OBJECTS = "/api/rating/objects"


async def found(http: httpx.AsyncClient, field: str = "entityId", **search: Any) -> list[Any]:
    page = body_of(await http.post(OBJECTS, json=search), dict)
    return [row[field] for row in page["results"]]


@pytest.mark.long
async def test_rated_objects_are_found_by_id_and_words_of_their_names(facade: Facade, http: httpx.AsyncClient) -> None:
    brand, store = new_id("brand"), await facade.open_store()
    bag, camera, unrated = (new_id() for _ in range(3))
    await asyncio.gather(
        facade.submit_approved(
            submission(camera, 4, EntityName=f"{brand} EOS-R5 Câmera", storeId=store), submission(camera, 2)
        ),
        facade.submit_approved(submission(bag, 5, EntityName=f"Bag for {brand}", storeId=store)),
        facade.submit(submission(unrated, EntityName=f"{brand} Lens", storeId=store)),
    )
    search = partial(found, http)
    await eventually(partial(search, searchPhrase=brand), lambda ids: ids == [camera, bag])
    assert await search(searchPhrase=f"{brand} eos r5 CAM") == [camera]
    assert await search(searchPhrase="eos r5", storeId=store) == [camera]
    assert await search(searchPhrase="os r5", storeId=store) == await search(searchPhrase="?!", storeId=store) == []
    await eventually(partial(search, searchPhrase=camera), lambda ids: ids == [camera, camera])
    assert await search(storeId=store) == [bag, camera]

    first = body_of(await http.post(OBJECTS, json={"storeId": store, "take": 1}), dict)
    assert ([row["entityId"] for row in first["results"]], first["isPartial"]) == ([bag], False)
    assert await search(storeId=store, take=1, after=first["next"]) == [camera]
    other = await http.post(OBJECTS, json={"after": first["next"]})
    assert errors_of(other) == [("/after", "unknown-page")]
    best = body_of(await http.post(OBJECTS, json={"searchPhrase": brand, "take": 1}), dict)
    assert await search(searchPhrase=brand, take=1, after=best["next"]) == [bag]


async def test_object_with_both_values_and_trend(facade: Facade, http: httpx.AsyncClient, product: str) -> None:
    store = await facade.open_store(ratingCalculationMethod="wilson")
    await facade.submit_approved(*(submission(product, rating, storeId=store) for rating in (5, 4, 4)))
    await facade.submit(submission(product, 1, storeId=store))
    details = body_of(await http.get(f"{OBJECTS}/Product/{product}"), dict)
    (rating,) = details["ratings"]
    assert (rating["average"], rating["reviewCount"], rating["ratingCalculationMethod"]) == (4.33, 3, "wilson")
    assert rating["value"] == rating["wilson"] < rating["average"]
    assert rating["histogram"] == {"1": 0, "2": 0, "3": 0, "4": 2, "5": 1}
    weeks = details["trend"]["weeks"]
    assert len(weeks) == 12
    assert sum(week["reviewCount"] for week in weeks[-2:]) == 3, "a week may begin while this runs"
    assert {week["average"] for week in weeks[:-2]} == {None}
    other = await http.get(f"{OBJECTS}/Product/{product}", params={"after": "WyJ4Il0"})
    assert errors_of(other) == [("/after", "unknown-page")]
    problem_of(await http.get(f"{OBJECTS}/Product/{new_id()}"), 404)
    problem_of(await http.get(f"{OBJECTS}/Vendor/{product}"), 404)


@pytest.mark.long
async def test_name_from_object_facts_takes_precedence(
    service: Service, facade: Facade, http: httpx.AsyncClient, product: str
) -> None:
    store, known_name = await facade.open_store(), new_id("told")
    await facade.submit_approved(submission(product, EntityName="Of its first review", storeId=store))
    names = partial(found, http, "entityName", storeId=store)
    await eventually(names, lambda names: names == ["Of its first review"])

    await facade.submit_approved(submission(product, EntityName="Of its second review", storeId=store))
    await facade.submit(submission(product, EntityName="Of one that nobody has read", storeId=store))
    await facade.command("POST", f"/api/rating/calculateStore?storeId={store}")
    await eventually(names, lambda names: names == ["Of its second review"])

    fact: Json = {"entityType": "Product", "entityId": product, "name": known_name}
    await service.publish("object-updates", message(fact, f"Product:{product}"))
    await eventually(names, lambda names: names == [known_name])
    assert await found(http, searchPhrase=known_name) == [product]


async def test_trend_counts_only_approved_reviews(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratings_objects, "MOST_COUNTED", 2)
    now = datetime.now(UTC)
    async with own_database(servers) as database:
        await ensure_indexes(database, remember_days=7)
        product: Json = {"entityType": "Product", "entityId": "camera", "ratingHundredths": 400}
        minute = timedelta(minutes=1)
        reviews = [
            {"_id": str(n), **product, "createdDate": now - n * minute, "status": int(n == 3)} for n in (1, 2, 3)
        ]
        await database["reviews"].insert_many(reviews)
        found = await RatedObjectRepository(database).trend(Entity("Product", "camera"), None, now)
        assert (sum(week.tally.count for week in found.weeks), found.is_partial) == (1, False)


async def test_name_is_removed_with_the_last_approved_review_that_contains_it(desk: Desk) -> None:

    async def document() -> Json:
        await name_rated_objects(desk.services)
        return await desk.database["ratings"].find_one({"entityId": desk.product}) or {}

    words, others = "Annas own words", "Telescope"
    rated, waiting = desk.review(EntityName=words, userId="anna"), desk.review(EntityName=words, userId="anna")
    await desk.submit(desk.records(rated, waiting, plain := desk.review(EntityName=None)))
    await desk.moderate(("approve", rated["id"]), ("approve", plain["id"]))
    assert (await document())["name"] == words
    await desk.submit(desk.records({**waiting, "EntityName": others}))
    assert (await document())["name"] == words, "not the name of the approved review"

    await desk.moderate(("delete", rated["id"]))
    left = await document()
    assert (left["name"], left["count"]) == (None, 1)
    assert not any(word in str(left).lower() for word in ("annas", "telescope"))


class Commands(FilterRecorder):
    """Counter of commands about reviews and ratings."""

    def __init__(self) -> None:
        super().__init__([])
        self.number = 0

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.number += event.command.get(event.command_name) in ("reviews", "ratings")


@pytest.mark.parametrize(("at_once", "queries"), [(1_000, 1), (101, 3)])
async def test_names_of_many_objects_are_read_by_few_queries(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, at_once: int, queries: int
) -> None:
    monkeypatch.setattr("storage.ratings.objects._READ_AT_ONCE", at_once)
    commands, now = Commands(), datetime.now(UTC)
    expected = {"told": "New", "waiting": None, "other": None, "none": None, "old": None, "kept": "Kept"}

    def review(id: str, age: int, name: str | None, status: int = 1, **fields: Any) -> Json:
        created = now - timedelta(minutes=age)
        stored = {"createdDate": created, "entityName": name, "status": status, "storeId": "shop", **fields}
        return {"entityType": "Product", "entityId": id, **stored}

    async with recorded_database(servers, commands) as database:
        await ensure_indexes(database, remember_days=7)
        tallies = [*((id, "shop") for id in expected), ("told", None)]
        await database["ratings"].insert_many(
            [{"entityType": "Product", "entityId": id, "storeId": store} for id, store in tallies]
        )
        await database["reviews"].insert_many(
            [
                *(review("told", age, name) for age, name in ((1, None), (2, ""), (3, "New"), (4, "Old"))),
                *(review("told", 0, "Waits", status=0), review("told", 0, "Elsewhere", storeId=None)),
                *(review("waiting", 0, None), review("waiting", 1, "Own", status=0)),
                *(review("other", 0, "Elsewhere", storeId="other"), review("none", 0, None)),
                *(review("old", age, None) for age in range(100)),
                *(review("old", 100, "Old"), review("kept", 1, "Kept")),
                *(review("kept", 0, "Of another type", entityType="Vendor"), review("kept", 1, "Later", status=2)),
            ]
        )
        rated = RatedObjectRepository(database)
        wanted = await rated.awaiting_names(100)
        before = commands.number
        names = await rated.names_in_reviews(wanted)
        assert commands.number - before == queries
        assert {tally.key.entity.id: names.get(tally.id) for tally in wanted if tally.key.store_id} == expected
        assert [names.get(tally.id) for tally in wanted if not tally.key.store_id] == ["Elsewhere"]


async def test_names_in_reviews_that_are_not_approved_are_not_shown(facade: Facade, http: httpx.AsyncClient) -> None:
    """Neither listed nor found, if the approved reviews have none: nobody has approved these texts."""
    words = {status: new_id(status) for status in ("waiting", "rejected")}
    product, store = new_id(), await facade.open_store()
    (rejected,) = await facade.submit(submission(product, EntityName=words["rejected"], storeId=store))
    await facade.moderate("reject", rejected)
    await facade.submit(submission(product, EntityName=words["waiting"], storeId=store))
    await facade.submit_approved(submission(product, EntityName=None, storeId=store))
    search = partial(found, http)
    await eventually(partial(search, searchPhrase=product), lambda ids: ids == [product])
    assert await search("entityName", storeId=store) == [None]
    assert [await search(searchPhrase=phrase) for phrase in words.values()] == [[], []]


async def test_name_deleted_after_lookup_is_not_written(desk: Desk) -> None:
    rated = desk.review(EntityName="Annas own words")
    await desk.submit(desk.records(rated))
    await desk.moderate(("approve", rated["id"]))
    (unnamed,) = await desk.services.rated_objects.awaiting_names(1)
    await desk.moderate(("delete", rated["id"]))
    await desk.services.rated_objects.save_names([(unnamed, "Annas own words")])
    await name_rated_objects(desk.services)
    assert "Annas" not in str(await desk.database["ratings"].find_one({"entityId": desk.product}))
