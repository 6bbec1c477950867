"""Pages of reviews for visitors: what they cost the process and MongoDB."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime

import pytest
from fastapi import FastAPI
from pymongo.errors import AutoReconnect

from domain.objects import ObjectFacts, ObjectKey
from domain.ratings import Entity, RatingTally
from domain.reviews import Review
from domain.stores import Store
from storage.reviews.search import ReviewPage, ReviewSearch
from storefront.app import add_storefront
from tests.support.app import app_without_servers, client_of, problem_of

OBJECT = "/storefront/v1/S/Product/1"
NOW = datetime(2026, 3, 14, tzinfo=UTC)
BYTES = 60_000


async def stores_there(ids: Collection[str]) -> dict[str, Store]:
    return {"S": Store("S")}


async def no_tallies(
    entity_type: str, ids: Collection[str], *, stores: Collection[str] | None, with_histogram: bool
) -> Mapping[str, Mapping[str | None, RatingTally]]:
    """The tallies of the store alone: those of all stores can be thousands."""
    assert stores == {"S"}
    return {}


async def no_facts(keys: Collection[ObjectKey]) -> Mapping[ObjectKey, ObjectFacts]:
    return {}


def review(id: str) -> Review:
    return Review(id, Entity("Product", "1"), None, "S", None, None, None, "", 400, NOW, NOW)


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    async with app_without_servers() as app:
        add_storefront(app)
        services = app.state.services
        services.lookups.stores_for_rules = stores_there
        services.ratings.of_entities = no_tallies
        services.objects.undamaged = no_facts
        yield app


@pytest.mark.parametrize("path", ["/reviews?take=50", "/jsonld"])
async def test_long_texts_are_read_within_the_budget(app: FastAPI, path: str) -> None:
    services, reading, exceeded = app.state.services, 0, list[tuple[int, int]]()

    async def search(wanted: ReviewSearch) -> ReviewPage:
        ids = [f"{wanted.entity_ids}-{number}" for number in range(wanted.take)]
        return ReviewPage([review(id) for id in ids], dict.fromkeys(ids, BYTES))

    async def texts(ids: Collection[str], *, approved: bool) -> dict[str, str]:
        nonlocal reading
        reading += len(ids) * BYTES
        for _ in range(20):
            await asyncio.sleep(0)
            if reading > services.pages.held:
                exceeded.append((reading, services.pages.held))
        reading -= len(ids) * BYTES
        return dict.fromkeys(ids, "a" * BYTES)

    services.reviews.search, services.reviews.texts = search, texts
    async with client_of(app) as http:
        paths = [f"/storefront/v1/S/Product/{number}{path}" for number in range(10)]
        answers = await asyncio.gather(*map(http.get, paths))
    assert [answer.status_code for answer in answers] == [200] * 10
    assert all("a" * BYTES in answer.text for answer in answers if "jsonld" not in path)
    assert not exceeded
    assert services.pages.held == 0


@pytest.mark.parametrize("file", ["product-reviews.xml", "product-reviews.zip"])
async def test_feed_whose_first_reviews_cannot_be_read_is_a_problem(app: FastAPI, file: str) -> None:
    """It is read before the response begins."""
    services = app.state.services

    async def no_reviews(store_id: str) -> tuple[int, int]:
        return 0, 0

    async def search(wanted: ReviewSearch) -> ReviewPage:
        raise AutoReconnect("no server")

    services.store_counts.extent_of_feed, services.reviews.search = no_reviews, search
    async with client_of(app) as http:
        problem_of(await http.get(f"/storefront/v1/S/{file}"), 503)
    assert services.pages.held == 0
