"""An object's rating after each possible decision about a review, also with a concurrent decision."""

from typing import Any

import pytest

from api.app import create_app
from storage.reviews.repository import ReviewRepository
from tests.support.app import client_of, facade_services
from tests.support.consumers import TOPICS, Desk


async def test_decision_between_two_reads_counts_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    review = desk.review(rating=4)
    await desk.submit(desk.records(review))
    await desk.moderate(("approve", review["id"]))
    services = facade_services(desk.database, desk.kafka, TOPICS)
    read = ReviewRepository.get

    async def get(reviews: ReviewRepository, *arguments: Any) -> Any:
        found = await read(reviews, *arguments)
        await desk.moderate(("reject", review["id"]))
        return found

    path = f"/api/customerReviews/{review['id']}/impact"
    async with client_of(create_app(services)) as http:
        with monkeypatch.context() as patched:
            patched.setattr(ReviewRepository, "get", get)
            before = (await http.get(path)).json()
        after = (await http.get(path)).json()
    rated, unrated = {"value": 4.0, "reviewCount": 1}, {"value": 0.0, "reviewCount": 0}
    assert before == {"method": "average", "now": rated, "ifApproved": rated, "ifNotApproved": unrated}
    assert after == {**before, "now": unrated}
    assert await services.ratings.of_entities("Product", [desk.product]) == {}


async def test_damaged_tally_never_shows_negative_counts(desk: Desk) -> None:
    review = desk.review(rating=4)
    await desk.submit(desk.records(review))
    await desk.moderate(("approve", review["id"]))
    await desk.database["ratings"].update_one({"entityId": desk.product}, {"$set": {"count": "1"}})
    services = facade_services(desk.database, desk.kafka, TOPICS)
    async with client_of(create_app(services)) as http:
        impact = (await http.get(f"/api/customerReviews/{review['id']}/impact")).json()
    assert impact["ifNotApproved"] == {"value": 0.0, "reviewCount": 0}
