"""Ids with slashes, against a running service: everything can be read and changed under its encoded path."""

from urllib.parse import quote

import pytest

from tests.support.console_pages import page_of
from tests.support.facade import REVIEWS, Facade, new_id, once, submission
from tests.support.final_responses import follow_applied

ORIGIN = "https://shop.example"


def escaped(text: str) -> str:
    return quote(text, safe="")


@pytest.fixture
async def store(facade: Facade) -> str:
    """Create a store whose id has a slash and other characters special in URLs."""
    return await facade.open_store(f"{new_id('store')}/ü%2F?#", storefrontOrigins=[ORIGIN])


async def test_store_id_with_slash(facade: Facade, store: str) -> None:
    here = f"/api/stores/{escaped(store)}"
    assert (await facade.get(here))["id"] == store
    assert await facade.get(f"{here}/review-policy") != {}
    for path in (f"/console/stores/{escaped(store)}", f"/console/stores/{escaped(store)}/rules"):
        assert escaped(store) in await page_of(facade.http, path)


@pytest.mark.long
async def test_review_id_with_slash(facade: Facade, store: str) -> None:
    product, id = f"{new_id('sku')}/12", f"{new_id('review')}/votes"
    await facade.submit_approved(submission(product, 4, id=id, storeId=store, userId="u"))
    here = f"{REVIEWS}/{escaped(id)}"
    assert (await facade.get(here))["id"] == id
    for part, body in (
        ("votes", {"userId": "v", "helpful": True}),
        ("reply", {"text": "Thanks.", "author": "Shop"}),
        ("reports", {"reason": "spam", "explanation": "No", "email": "b@example.org", "goodFaith": True}),
    ):
        assert [each["outcome"] for each in await facade.command("POST", f"{here}/{part}", body)] == ["applied"], part
    assert (await facade.get(f"{here}/reports"))["totalCount"] == 1
    assert (await facade.get(f"{here}/impact")) != {}
    assert escaped(id) in await page_of(facade.http, f"/console/reviews/{escaped(id)}")


@pytest.mark.long
async def test_storefront_paths_with_slashes(facade: Facade, store: str) -> None:
    """An object of type `Product/x` differs from one of type `Product` with an id like `x/…`, even for the same
    idempotency key."""
    id, key = new_id("sku"), once()
    preflight = await facade.http.options(
        f"/storefront/v1/{escaped(store)}/Product/{id}/votes",
        headers={"origin": ORIGIN, "access-control-request-method": "POST"},
    )
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, ORIGIN)
    for type, entity in (("Product/x", id), ("Product", f"x/{id}")):
        here = f"/storefront/v1/{escaped(store)}/{escaped(type)}/{escaped(entity)}"
        await facade.submit_approved(submission(entity, 4, EntityType=type, storeId=store, userId="u"))
        (review,) = (await facade.get(f"{here}/reviews"))["results"]
        assert (await facade.get(f"{here}/summary"))["reviewCount"] == 1
        assert (await facade.get(f"{here}/jsonld"))["aggregateRating"]["reviewCount"] == 1
        assert "stamp" in await facade.get(f"{here}/form")
        vote = {"reviewId": review["id"], "helpful": True, "voter": "v" * 16}
        await follow_applied(facade.http, await facade.http.post(f"{here}/votes", json=vote, headers=key))
