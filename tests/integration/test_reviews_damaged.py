"""A copy of a review that somebody inserts by hand, with an id that isn't a text, counts nowhere and stops nothing."""

import json
from datetime import UTC, datetime

import pytest
from bson import ObjectId

from domain.ratings import Entity
from domain.reviews import ReviewStatus
from storage.policy import DecisionCounts
from storage.ratings.objects import RatedObjectRepository
from storage.reviews.search import ReviewSearch
from tests.support.consumers import Desk
from tests.support.facade import Facade, new_id, submission
from tests.support.orders import an_order
from tests.support.service import Json, Service


async def copied(desk: Desk, **fields: object) -> tuple[Json, ObjectId]:
    """Return an approved review, and the id of a copy of it."""
    review, copy = desk.review(**fields), ObjectId()
    await desk.submit(desk.records(review))
    await desk.moderate(("approve", review["id"]))
    await desk.database["reviews"].insert_one({**await desk.stored(review["id"]), "_id": copy})
    return review, copy


async def test_copy_counts_in_no_rating(desk: Desk) -> None:
    await copied(desk)
    ratings, entity = desk.services.ratings, Entity("Product", desk.product)
    assert [each async for each in ratings.differences()] == []
    now = datetime.now(UTC)
    assert await desk.services.transactions.run(lambda work: ratings.recount(entity, now, work.session)) == {}
    trend = await RatedObjectRepository(desk.database).trend(entity, None, now)
    assert sum(week.tally.count for week in trend.weeks) == 1


@pytest.mark.parametrize("status", ReviewStatus)
@pytest.mark.parametrize("exact_below", [1, 1_000])
async def test_copy_counts_in_no_total(desk: Desk, status: ReviewStatus, exact_below: int) -> None:
    review, _ = await copied(desk)
    await desk.database["reviews"].update_many({}, {"$set": {"status": int(status), "queued": int(status)}})
    for search in (ReviewSearch(), ReviewSearch(statuses=[status]), ReviewSearch(ids=[review["id"]])):
        assert await desk.services.reviews.count(search, exact_below=exact_below) == 1


async def test_copy_counts_as_no_decision(desk: Desk) -> None:
    store = await desk.open_store()
    await copied(desk, storeId=store)
    counts = DecisionCounts(desk.database)
    assert (await counts.report(None, None, None)).decisions.total(ReviewStatus.APPROVED) == 1
    assert (await counts.newest(store)).total(ReviewStatus.APPROVED) == 1


async def test_copy_is_no_review_of_its_author(desk: Desk) -> None:
    store = await desk.open_store(oneReviewPerCustomer=True)
    first, _ = await copied(desk, storeId=store, userId=new_id("person"))
    await desk.moderate(("delete", first["id"]))
    second = {**first, "id": new_id("review")}
    await desk.submit(desk.records(second))
    assert (await desk.stored(second["id"]))["userId"] == first["userId"]


@pytest.mark.long
async def test_copy_stops_neither_export_nor_erasure_of_its_author(own_service: Service, own_facade: Facade) -> None:
    person = new_id("person")
    id, other = await own_facade.submit_approved(*(submission(new_id(), userId=person) for _ in range(2)))
    async with own_service.mongo() as database:
        copy = {**(await database["reviews"].find_one({"_id": id}) or {}), "_id": ObjectId()}
        await database["reviews"].insert_one(copy)
        exported = json.loads((await own_service.run("privacy", "export", "--customer", person)).stdout)
        assert {each["id"] for each in exported["reviews"]} == {id, other, str(copy["_id"])}
        erased = json.loads((await own_service.run("privacy", "erase", "--customer", person, "--yes", "--json")).stdout)
        assert (erased["reviews"], erased["damaged"]) == (3, [f"review {copy['_id']}"])
        assert await database["reviews"].find({"userId": person}).to_list() == []


@pytest.mark.parametrize(("field", "value"), [("entityType", {}), ("storeId", {}), ("ratingHundredths", "500")])
async def test_decision_about_review_with_a_field_of_another_type_waits_for_its_repair(
    desk: Desk, field: str, value: object
) -> None:
    review = desk.review()
    await desk.submit(desk.records(review))
    await desk.database["reviews"].update_one({"_id": review["id"]}, {"$set": {field: value}})
    await desk.moderate(("approve", review["id"]))
    (letter,) = [dict(each.headers) for each in desk.kafka.published if each.topic.endswith(".dlq")]
    assert letter["x-error-code"] == b"stored-document"


async def test_commands_about_review_whose_rating_is_null_are_applied(desk: Desk) -> None:
    review, other = desk.review(), desk.review(rating=3)
    await desk.submit(desk.records(review, other))
    await desk.moderate(("approve", review["id"]), ("approve", other["id"]))
    await desk.database["reviews"].update_one({"_id": review["id"]}, {"$set": {"ratingHundredths": None}})
    await desk.moderate(("reject", review["id"]))
    await desk.submit(desk.records({**review, "review": "Edited"}))
    stored = await desk.stored(review["id"])
    assert (stored["status"], stored["review"], stored["ratingHundredths"]) == (ReviewStatus.NEW, "Edited", 400)
    tally = await desk.database["ratings"].find_one({"entityId": desk.product}) or {}
    assert (tally["count"], tally["sumHundredths"]) == (1, 300)


@pytest.mark.parametrize("field", ["entityType", "entityId", "storeId", "userId"])
async def test_order_verifies_reviews_beside_one_whose_identity_is_of_another_type(desk: Desk, field: str) -> None:
    store, customer = await desk.open_store(oneReviewPerCustomer=True), new_id("customer")
    review, other = (desk.review(storeId=store, userId=customer, EntityId=new_id()) for _ in range(2))
    await desk.submit(desk.records(review, other))
    await desk.database["reviews"].update_one({"_id": review["id"]}, {"$set": {field: {}}})
    line = {"id": "a", "productId": other["EntityId"], "quantity": 1}
    await desk.order({**an_order(new_id("order"), {}), "storeId": store, "customerId": customer, "items": [line]})
    assert [each for each in desk.kafka.published if each.topic.endswith(".dlq")] == []
    assert (await desk.stored(other["id"]))["verifiedPurchase"]
