"""Reviews edited between the queries for a page and for its long texts: no unapproved text is published."""

from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime
from functools import partial

import httpx
import pytest
from fastapi import FastAPI

from api.app import create_app
from domain.delivery import RecordPosition
from domain.objects import ObjectFacts, ObjectKey
from domain.ratings import Entity, RatingTally, TallyKey
from domain.reviews import Review, ReviewStatus
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from storage.database import Database, in_transaction
from storage.objects import ObjectRepository
from storage.ratings.repository import RatingRepository
from storage.reviews.repository import ReviewRepository
from storefront.app import add_storefront
from tests.support.app import NOWHERE, client_of, facade_services
from tests.support.service import Servers, own_database

STORE, CAMERA = "shop", Entity("Product", "camera")
AT = datetime(2026, 3, 14, tzinfo=UTC)
LONG, SECRET = "Sharp pictures. " * 200, "SECRET words of nobody's approval"
ADDRESSES = (f"{STORE}/Product/camera/reviews", f"{STORE}/Product/camera/jsonld", f"{STORE}/product-reviews.xml")


def app_of(database: Database) -> FastAPI:
    """Create the API with its storefront, without Kafka."""
    app = create_app(facade_services(database, Publisher(KafkaConnection(NOWHERE))))
    add_storefront(app)
    return app


@pytest.fixture
async def database(servers: Servers) -> AsyncIterator[Database]:
    async with own_database(servers) as database:
        await database.stores.insert_one({"_id": STORE, "name": "Shop"})
        facts = ObjectFacts().after({"url": "https://shop.example/camera"}, RecordPosition(0, 0, 0))
        described, tally = {ObjectKey(CAMERA, STORE): facts}, {TallyKey(CAMERA, STORE): RatingTally.of([400])}
        await in_transaction(database, partial(ObjectRepository(database).save, described))
        await in_transaction(database, partial(RatingRepository(database).add, tally))
        review = Review("r", CAMERA, None, STORE, "anna", None, None, LONG, 400, AT, AT, status=ReviewStatus.APPROVED)
        await ReviewRepository(database).insert([review])
        yield database


async def text_of(http: httpx.AsyncClient, address: str) -> str:
    answer = await http.get(f"/storefront/v1/{address}")
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("address", ADDRESSES)
async def test_edited_text_is_not_shown(database: Database, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_of(app_of(database)) as http:
        assert LONG.strip() in await text_of(http, address)
    texts = ReviewRepository.texts

    async def edit_first(repository: ReviewRepository, ids: Collection[str], *, approved: bool = False) -> object:
        edit = {"status": int(ReviewStatus.NEW), "review": f"{SECRET} {LONG}"}
        await database.reviews.update_one({"_id": "r"}, {"$set": edit})
        return await texts(repository, ids, approved=approved)

    monkeypatch.setattr(ReviewRepository, "texts", edit_first)
    async with client_of(app_of(database)) as http:
        assert SECRET not in await text_of(http, address)
    assert (await database.reviews.find_one({"_id": "r"}) or {})["status"] == int(ReviewStatus.NEW)
