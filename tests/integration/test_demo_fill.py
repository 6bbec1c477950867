"""`plaudit demo --fill`: a demo shop whose reviews are deterministic and may be filled in repeatedly."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import pytest

from domain.reviews import ReviewStatus
from plaudit.tools.demo_shop.reviews import demo_review, demo_reviews
from plaudit.tools.demo_shop.texts import LANGUAGES
from storefront.demo_products import PRODUCTS, STORE_ID
from tests.support.facade import Facade
from tests.support.service import Json, Servers, Service, running_service
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

COUNT = 40


@pytest.fixture(scope="module")
async def filled(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    async with running_service(servers, tmp_path_factory.mktemp("demo")) as service:
        result = await service.run("demo", "--fill", str(COUNT))
        assert f"{COUNT} reviews" in result.stdout
        yield service


async def rows(http: httpx.AsyncClient) -> Sequence[Json]:
    """Return all reviews of the shop with all their details."""
    search = {"storeId": STORE_ID, "sort": "id:asc", "take": 1_000}
    answer = (await http.post("/api/customerReviews/search", json=search)).raise_for_status()
    return list(answer.json()["results"])


async def test_shop_matches_generated_reviews(filled: Service) -> None:
    expected = demo_reviews(COUNT)
    facts = [(r.helpful, r.not_helpful, r.photos, r.is_bought, bool(r.reply)) for r in expected]
    async with filled.client() as http:

        async def now() -> Sequence[Json]:
            return await rows(http)

        def facts_in(shown: Sequence[Json]) -> list[tuple[int, int, int, bool, bool]]:
            return [
                (row["helpful"], row["notHelpful"], len(row["images"]), row["verifiedPurchase"], bool(row["reply"]))
                for row in shown
            ]

        # Votes, replies and orders are consumed independently of reviews, and images are rebuilt later.
        found = await eventually(now, lambda shown: facts_in(shown) == facts)
        assert [row["id"] for row in found] == [review.id for review in expected]
        assert [row["reviewStatus"] for row in found] == [review.status.label for review in expected]
        assert [row["language"] for row in found if len(row["review"]) > 40] == [
            review.language for review in expected if len(review.text) > 40
        ]
        ages = {row["createdDate"][:7] for row in found}
        assert len(ages) > 10
        shown = await Facade(http).get(f"/storefront/v1/{STORE_ID}/Product/{PRODUCTS[0].id}/summary")
        approved = [r for r in expected if r.product is PRODUCTS[0] and r.status is ReviewStatus.APPROVED]
        assert shown["reviewCount"] == len(approved)


async def test_filling_again_changes_nothing(filled: Service) -> None:
    waiting = next(review.id for review in demo_reviews(COUNT) if review.status is ReviewStatus.NEW)
    approved = next(review.id for review in demo_reviews(COUNT) if review.status is ReviewStatus.APPROVED)
    async with filled.client() as http:
        facade = Facade(http)
        assert await facade.moderate("approve", waiting) == ["applied"]
        assert await facade.moderate("reject", approved) == ["applied"]
        changed_settings = {"settings": {"reviewsEnabled": False, "moderationRules": []}}
        (
            await http.put(f"/api/stores/{STORE_ID}", json=changed_settings, headers={"Prefer": "wait=30"})
        ).raise_for_status()
        store = await facade.get(f"/api/stores/{STORE_ID}")

        async def current_rows() -> Sequence[Json]:
            return await rows(http)

        expected_votes = sum(review.helpful for review in demo_reviews(COUNT))
        before = await eventually(current_rows, lambda now: sum(row["helpful"] for row in now) == expected_votes)
        await filled.run("demo", "--fill", str(COUNT))
        assert await rows(http) == before
        assert await facade.get(f"/api/stores/{STORE_ID}") == store


def test_reviews_are_believable() -> None:
    reviews = demo_reviews(500)
    assert reviews[:COUNT] == demo_reviews(COUNT)
    assert {review.language for review in reviews} == set(LANGUAGES)
    stars = [sum(review.stars == n for review in reviews) for n in range(1, 6)]
    assert stars[4] > stars[3] > stars[2] < stars[0] + stars[1]
    assert len({review.text for review in reviews}) > 0.9 * len(reviews)
    assert all(demo_review(number).text.strip() for number in range(500))


async def test_fill_without_service_is_explained(servers: Servers, tmp_path: Path) -> None:
    result = await Service(servers, tmp_path).run("demo", "--fill", "5", code=1)
    assert "Start it first: make up" in result.stderr
    wrong = await Service(servers, tmp_path).run("demo", "--fill", "0", code=2)
    assert "--fill" in wrong.stderr
