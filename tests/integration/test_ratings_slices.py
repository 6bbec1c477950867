"""Ratings are compared with their reviews slice by slice, and no boundary of a slice hides a difference."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Final

import pytest

from domain.ratings import Entity
from storage.database import Database, in_transaction
from storage.indexes import ensure_indexes
from storage.ratings import repository as ratings_module
from storage.ratings.repository import RatingRepository
from tests.support.facade import Facade, submission
from tests.support.service import Json, Servers, Service, own_database

# In the order of MongoDB: by bytes. One is a prefix of another, one is empty, and one sorts after all of ASCII.
OBJECTS: Final = [
    Entity(type, id)
    for type in ("Product", "Productx", "Vendor", "Ölfarbe")
    for id in ("", "1", "10", "2", "a", "b", "~", "€", "\U0001f4f7")
]
Differing = set[tuple[Entity, str | None, int, int]]
"""Object, store, and the stored and counted reviews of each difference."""

STORES: Final = (None, "", "A")
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def reviews_of(entity: Entity, count: int) -> list[Json]:
    """Return reviews in several stores; every fourth one isn't approved."""
    return [
        {
            **{"_id": f"{entity.type}/{entity.id}/{number}", "entityType": entity.type, "entityId": entity.id},
            **{"storeId": STORES[number % len(STORES)], "status": int(number % 4 != 3)},
            "ratingHundredths": 100 + 50 * number,
        }
        for number in range(count)
    ]


async def differing(database: Database, slice_size: int) -> Differing:
    """Return the differences, asserting that none is reported twice."""
    found = RatingRepository(database).differences(slice_size)
    differences = [(key.entity, key.store_id, stored.count, counted.count) async for key, stored, counted in found]
    assert len(set(differences)) == len(differences)
    return set(differences)


@pytest.fixture
async def database(servers: Servers) -> AsyncIterator[Database]:
    """Objects with none to eight reviews each, and their tallies."""
    async with own_database(servers) as database:
        await ensure_indexes(database, remember_days=21)
        await database["reviews"].insert_many([each for n, o in enumerate(OBJECTS) for each in reviews_of(o, n % 9)])
        ratings = RatingRepository(database)
        for entity in OBJECTS:
            await in_transaction(database, partial(ratings.recount, entity, NOW))
        yield database


@pytest.mark.long
async def test_differences_at_every_slice_boundary(database: Database) -> None:
    tallies = database["ratings"]
    assert await differing(database, 1) == set()
    expected: Differing = set()
    for number, entity in enumerate(OBJECTS):
        place = {"entityType": entity.type, "entityId": entity.id}
        found = await tallies.find_one({**place, "storeId": "A"})
        if number % 3 == 0:  # superfluous: there are no reviews in that store
            await tallies.insert_one({**place, "storeId": "B", "count": 7, "sumHundredths": 700, "histogram": None})
            expected.add((entity, "B", 7, 0))
        elif found is not None and number % 3 == 1:
            await tallies.update_one({"_id": found["_id"]}, {"$inc": {"count": 1}})
            expected.add((entity, "A", found["count"] + 1, found["count"]))
        elif found is not None:
            await tallies.delete_one({"_id": found["_id"]})
            expected.add((entity, "A", 0, found["count"]))
    lost = {"storeId": None, "count": 1, "sumHundredths": 100, "histogram": None}
    await tallies.insert_many([{"entityId": "1", **lost}, {"entityType": "Product", **lost}])
    expected |= {(Entity("?", "1"), None, 1, 0), (Entity("Product", "?"), None, 1, 0)}
    assert len(expected) > 20
    for size in range(1, 40):
        assert await differing(database, size) == expected, size
    assert await differing(database, 10_000) == expected


async def test_every_object_is_recounted_once(database: Database) -> None:
    ratings = RatingRepository(database)
    reviewed = {each for n, each in enumerate(OBJECTS) if n % 9}
    await database["ratings"].insert_one({"entityType": "Odd", "entityId": "1", "storeId": "B", "count": 1})
    await database["reviews"].insert_one({"_id": "lost", "entityId": "1"})
    found = [each async for each in ratings.entities()]
    assert (len(found), set(found)) == (len(set(found)), reviewed | {Entity("Odd", "1")})
    assert [each async for each in ratings.entities("B")] == [Entity("Odd", "1")]


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_every_object_of_a_store_is_recounted_once(
    database: Database, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(ratings_module, "_SLICE", size)
    # One has a tally without a review, and one a review without a tally.
    await database["ratings"].insert_one({"entityType": "Odd", "entityId": "1", "storeId": "A", "count": 1})
    await database["reviews"].insert_one({"_id": "r", "entityType": "Odd", "entityId": "2", "storeId": "A"})
    in_a = {each for n, each in enumerate(OBJECTS) if n % 9 >= 3}
    found = [each async for each in RatingRepository(database).entities("A")]
    assert (len(found), set(found)) == (len(set(found)), in_a | {Entity("Odd", "1"), Entity("Odd", "2")})


@pytest.mark.slow
async def test_comparison_is_exact_during_moderation(own_facade: Facade, own_service: Service) -> None:
    chance = random.Random(5)
    ids = await own_facade.submit(*(submission(f"p{n % 40}", 1 + n % 5) for n in range(400)))
    await own_facade.submit_approved(*(submission(f"p{n}x", 3) for n in range(40)))
    moderated = asyncio.Event()

    async def moderate() -> None:
        for turn in range(24):
            await own_facade.moderate(("approve", "reset", "approve", "delete")[turn % 4], *chance.sample(ids, 60))
        moderated.set()

    async def compare(database: Database, expected: Differing) -> int:
        turns = 0
        while not moderated.is_set() or turns < 3:
            assert await differing(database, chance.randint(1, 60)) == expected
            turns += 1
        return turns

    async with own_service.mongo() as database:
        assert await differing(database, 7) == set()
        wrong = {"$set": {"count": 9}}
        for entity_id in ("p0x", "p39x"):
            assert (await database["ratings"].update_one({"entityId": entity_id}, wrong)).modified_count == 1
        await database["ratings"].delete_one({"entityId": "p20x"})
        expected: Differing = {(Entity("Product", "p0x"), None, 9, 1), (Entity("Product", "p39x"), None, 9, 1)}
        expected.add((Entity("Product", "p20x"), None, 0, 1))
        _, turns = await asyncio.gather(moderate(), compare(database, expected))
    assert turns >= 3
