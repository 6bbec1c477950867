"""Data for search engines: the rating of an object on its page, and the feed of all reviews of a store."""

import asyncio
import io
import json
import os
import time
import zipfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import httpx
import pytest

from domain.feed import MOST_BYTES
from domain.ratings import Entity
from domain.reviews import Review, ReviewStatus
from storage.reviews.repository import ReviewRepository
from tests.support.chromium import chromium
from tests.support.facade import Facade, body_of, new_id, problem_of, submission
from tests.support.memory import Memory
from tests.support.messages import message
from tests.support.product_reviews import FeedReader, reviews_in
from tests.support.service import Json, Service
from tests.support.waiting import eventually

XSS: Final = json.loads((Path(__file__).parents[1] / "support" / "xss.json").read_text())
ORIGIN: Final = "https://shop.example"
FEED_SIZE: Final = int(os.environ.get("PLAUDIT_TEST_FEED_SIZE", "5000"))
MOST_MEMORY: Final = 200_000_000


@pytest.fixture
async def store(facade: Facade) -> str:
    return await facade.open_store(storefrontOrigins=[ORIGIN])


async def jsonld(facade: Facade, store: str, product: str, kind: str = "Product") -> Json:
    answer = await facade.http.get(f"/storefront/v1/{store}/{kind}/{product}/jsonld")
    assert answer.headers["content-type"] == "application/ld+json"
    return body_of(answer, dict)


async def feed(facade: Facade, store: str) -> httpx.Response:
    answer = await facade.http.get(f"/storefront/v1/{store}/product-reviews.xml")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/xml")
    return answer


async def describe(service: Service, product: str, kind: str = "Product", **facts: Any) -> None:
    fact = {"entityType": kind, "entityId": product, **facts}
    await service.publish("object-updates", message(fact, f"{kind}:{product}"))


@pytest.mark.long
async def test_object_page_has_its_rating(service: Service, facade: Facade, store: str, product: str) -> None:
    assert await jsonld(facade, store, product) == {}
    await describe(service, product, url=f"https://shop.example/{product}", gtins=["4006381333931"])
    ratings = [1, *[5] * 10]
    for number, rating in enumerate(ratings):
        await facade.submit_approved(submission(product, rating, storeId=store, userId=f"u{number}"))
    await facade.submit(submission(product, 1, storeId=store, userId="late"))
    data = await eventually(
        partial(jsonld, facade, store, product), lambda found: len(found.get("review", ())) == 10 and "url" in found
    )
    assert (data["@type"], data["name"], data["gtin"]) == ("Product", f"Camera {product}", "4006381333931")
    assert (data["aggregateRating"]["ratingValue"], data["aggregateRating"]["reviewCount"]) == (4.64, 11)
    assert {review["reviewRating"]["ratingValue"] for review in data["review"]} == {5}
    path = f"/storefront/v1/{store}/Product/{product}/jsonld"
    answer = await facade.http.get(path, headers={"origin": ORIGIN})
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert (await facade.http.get(path, headers={"if-none-match": answer.headers["etag"]})).status_code == 304
    problem_of(await facade.http.get(f"/storefront/v1/{new_id('store')}/Product/{product}/jsonld"), 404)


async def test_organizations_are_omitted(service: Service, facade: Facade, store: str, product: str) -> None:
    await describe(service, product, "Organization", url="https://shop.example/")
    await describe(service, product, "Book", url="https://shop.example/")
    for kind in ("Organization", "Book"):
        await facade.submit_approved(submission(product, storeId=store, EntityType=kind, userId=kind))
    found = await eventually(partial(feed, facade, store), lambda answer: bool(reviews_in(answer.content)))
    assert (len(reviews_in(found.content)), b"omitted" in found.content) == (1, False)
    assert await eventually(partial(jsonld, facade, store, product, "Book"), bool)
    assert await jsonld(facade, store, product, "Organization") == {}


@pytest.mark.long
async def test_feed_is_complete_and_follows_deletions(
    service: Service, facade: Facade, store: str, product: str
) -> None:
    assert reviews_in((await feed(facade, store)).content) == []
    await describe(service, product, url="https://shop.example/c", name="The camera", brands=["Acme"])
    long = "Sharp pictures. " * 500
    ids = await facade.submit_approved(
        *(submission(product, 4, storeId=store, userId=f"u{number}", review=long) for number in range(3)),
        submission(new_id("unknown"), 5, storeId=store, userId="v"),
    )
    await facade.submit(submission(product, 4, storeId=store, userId="w"))
    answer = await eventually(partial(feed, facade, store), lambda found: len(reviews_in(found.content)) == 3)
    found = {review["review_id"]: review for review in reviews_in(answer.content)}
    assert set(found) == set(ids[:3])
    assert "<!-- reviews omitted because their objects have no url: 1 -->" in answer.text
    review = found[ids[0]]
    assert (review["content"], review["products/product/product_name"]) == (long, "The camera")
    assert (review["review_url"], review["reviewer/name"]) == ("https://shop.example/c", "Anna Berg")
    packed = await facade.http.get(f"/storefront/v1/{store}/product-reviews.zip")
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert archive.read("product-reviews-1.xml") == answer.content
    assert await facade.moderate("delete", ids[0]) == ["applied"]
    assert {each["review_id"] for each in reviews_in((await feed(facade, store)).content)} == set(ids[1:3])
    problem_of(await facade.http.get(f"/storefront/v1/{new_id('store')}/product-reviews.xml"), 404)


@pytest.mark.slow
async def test_hostile_texts_stay_text(service: Service, facade: Facade, store: str, product: str) -> None:
    await describe(service, product, url="https://shop.example/c", name=XSS[0], brands=XSS)
    for number, text in enumerate(XSS):
        hostile = {"title": text, "review": text, "userName": text, "EntityName": text, "userId": f"u{number}"}
        (id,) = await facade.submit_approved(submission(product, storeId=store, **hostile))
        await facade.command("POST", f"/api/customerReviews/{id}/reply", {"text": text, "author": text})
    answer = await eventually(partial(feed, facade, store), lambda found: len(reviews_in(found.content)) == len(XSS))
    assert sorted(review["content"] for review in reviews_in(answer.content)) == sorted(XSS)
    shown = (await facade.http.get(f"/storefront/v1/{store}/Product/{product}/jsonld")).text
    async with chromium() as browser:
        page = await browser.new_page()
        requests: list[str] = []
        page.on("dialog", lambda dialog: requests.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        await page.set_content(f'<script type="application/ld+json">{shown}</script><p>after</p>')
        assert await page.evaluate("document.body.innerText + document.querySelectorAll('body *').length") == "after1"
        read = await page.evaluate("JSON.parse(document.querySelector('script').textContent)")
        assert requests == []
    assert read == json.loads(shown)
    assert {review["reviewBody"] for review in read["review"]} <= set(XSS)


async def fill(service: Service, store: str, products: int, size: int) -> None:
    """Create this many approved reviews, of about 560 characters each, of objects with URLs."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(products):
        await describe(service, f"{store}-{number}", url=f"https://shop.example/{number}")
    async with service.mongo() as database:
        await eventually(partial(database["objects"].count_documents, {}), lambda count: count == products)
        reviews = ReviewRepository(database)
        for first in range(0, size, 2_000):
            at = [begin + timedelta(seconds=number) for number in range(first, min(first + 2_000, size))]
            await reviews.insert(_many(store, products, first, at))


def _many(store: str, products: int, first: int, moments: list[datetime]) -> list[Review]:
    return [
        Review(
            id=f"{store}-{first + number}",
            entity=Entity("Product", f"{store}-{number % products}"),
            entity_name="Camera",
            store_id=store,
            user_id=f"u{number}",
            user_name="Anna Berg",
            title="As good as they say",
            text="Sharp pictures, & the battery lasts. " * 15,
            rating=450,
            created=at,
            modified=at,
            status=ReviewStatus.APPROVED,
        )
        for number, at in enumerate(moments)
    ]


@pytest.mark.long
@pytest.mark.scaled
async def test_large_feed_takes_little_memory(own_service: Service, own_facade: Facade, tmp_path: Path) -> None:
    store = await own_facade.open_store()
    await fill(own_service, store, 50, FEED_SIZE)
    memory = Memory(own_service.processes["api"].pid)
    path, began = f"/storefront/v1/{store}/product-reviews.xml", time.monotonic()
    with (tmp_path / "feed").open("wb") as file:
        async with own_facade.http.stream("GET", path, follow_redirects=True) as answer:
            async for piece in answer.aiter_raw():
                file.write(piece)
    seconds = time.monotonic() - began
    files = list(sizes_of(tmp_path / "feed"))
    print(f"\n{seconds:.1f} s, files: {files}, memory: {memory.peak()} at most, {memory.growth()} of it for the feed")  # noqa: T201
    assert sum(reviews for reviews, _ in files) == FEED_SIZE
    assert max(size for _, size in files) <= MOST_BYTES
    assert memory.peak() < MOST_MEMORY

    async def three_at_once() -> list[tuple[int, bool]]:
        """The statuses of feeds that are opened together, and whether they name a time to wait."""
        feed_of = partial(own_facade.http.stream, "GET", path, follow_redirects=True)
        async with AsyncExitStack() as stack:
            feeds = await asyncio.gather(*(stack.enter_async_context(feed_of()) for _ in range(3)))
            return sorted((each.status_code, "retry-after" in each.headers) for each in feeds)

    # Slow readers leave room for others: a client may read two feeds at a time. On a busy machine, one may be over
    # before the third begins.
    await eventually(three_at_once, lambda found: found == [(200, False), (200, False), (503, True)])


def sizes_of(feed: Path) -> Iterator[tuple[int, int]]:
    """Yield the number of reviews and of bytes of each file of a feed, validated against its schema."""
    if not zipfile.is_zipfile(feed):
        with feed.open("rb") as file:
            yield _size_of(file)
        return
    with zipfile.ZipFile(feed) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                yield _size_of(file)


def _size_of(file: IO[bytes]) -> tuple[int, int]:
    reader, reviews, size = FeedReader(), 0, 0
    while piece := file.read(100_000):
        size += len(piece)
        reviews += sum(1 for _ in reader.reviews(piece))
    reader.close()
    return reviews, size


@pytest.mark.long
@pytest.mark.parametrize("damage", [{"facts": None}, {"facts.gtins": [5]}])
async def test_damaged_facts_of_an_object_hide_no_review_of_others(
    service: Service, facade: Facade, store: str, product: str, damage: Json
) -> None:
    """The page of the object itself has its rating, but not the lost facts."""
    damaged, closed = new_id("damaged"), new_id("closed")
    for each in (product, damaged):
        await describe(service, each, url=f"https://shop.example/{each}")
        await facade.submit_approved(submission(each, storeId=store, userId=each))
    await describe(service, closed, reviewsEnabled=False)
    await eventually(partial(feed, facade, store), lambda found: len(reviews_in(found.content)) == 2)

    async def is_open(id: str) -> bool:
        return bool((await facade.get(f"/storefront/v1/{store}/Product/{id}/form"))["open"])

    await eventually(partial(is_open, closed), lambda found: not found)
    async with service.mongo() as database:
        wanted = {"_id.entityId": damaged}
        await database["objects"].update_one(wanted, {"$set": damage})
        answers = [
            await facade.http.get(f"/storefront/v1/{store}/{path}")
            for path in ("product-reviews.xml", f"Product/{damaged}/jsonld", f"Product/{damaged}/form")
        ]
        await database["objects"].delete_one(wanted)
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    (review,) = reviews_in(answers[0].content)
    assert review["review_url"] == f"https://shop.example/{product}"
    data = answers[1].json()
    assert (data["aggregateRating"]["reviewCount"], "url" in data) == (1, False)
    assert answers[2].json()["open"] is True
