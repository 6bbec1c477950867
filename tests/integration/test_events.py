"""Events about reviews, and the headers of all published messages."""

import json
from functools import partial

import pytest

from domain.timestamps import from_milliseconds, timestamp
from tests.support.facade import Facade, new_id, submission
from tests.support.messages import review_message
from tests.support.ratings import histogram
from tests.support.service import Service
from tests.support.waiting import eventually


@pytest.mark.long
async def test_refused_submission_is_announced_and_accepted_later(facade: Facade, service: Service) -> None:
    store, product, id = await facade.open_store(reviewsEnabled=False), new_id(), new_id("review")
    review = review_message(submission(product, 5, storeId=store, id=id))
    await service.publish("review-submissions", review)
    (event,) = await eventually(partial(service.keyed, "events", f"Product:{product}"))
    headers = dict(event.headers)
    assert headers["ce_type"] == b"plaudit.SubmissionRefused"
    assert headers["ce_specversion"] == b"1.0"
    assert {"ce_id", "ce_source", "ce_time", "content-type"} < set(headers)
    data = json.loads(event.value)
    assert data.pop("message")
    (sent,) = await service.keyed("review-submissions", f"Product:{product}")
    assert data.pop("at") == timestamp(from_milliseconds(sent.timestamp))
    place = {"entityType": "Product", "entityId": product, "storeId": store}
    assert data == {**place, "reviewId": id, "code": "reviews-disabled"}
    assert await facade.listed(entityIds=[product]) == []
    assert await facade.moderate("approve", id) == ["not-found"]
    assert {letter.key for letter in await service.dead_letters()}.isdisjoint({event.key})

    await facade.open_store(store)
    await service.publish("review-submissions", review)
    await facade.until_listed(product, 1)
    assert await facade.moderate("approve", id) == ["applied"]
    assert await facade.rating(product) == (5.0, 1)


@pytest.mark.long
async def test_events_describe_reviews_and_ratings(facade: Facade, service: Service) -> None:
    product, store = new_id(), await facade.open_store()
    (id,) = await facade.submit(submission(product, 4, storeId=store))
    for action in ("approve", "approve", "reset", "reject", "delete", "delete"):
        await facade.moderate(action, id)
    found = await eventually(lambda: service.events(f"Product:{product}"), lambda found: len(found) >= 7)
    kinds = "ReviewSubmitted ReviewApproved RatingChanged ReviewReset RatingChanged ReviewRejected ReviewDeleted"
    assert [kind for kind, _ in found] == kinds.split()
    assert {event["storeId"] for _, event in found} == {store}
    assert [event["reviewId"] for kind, event in found if kind.startswith("Review")] == [id] * 5
    ratings = [event for kind, event in found if kind == "RatingChanged"]
    assert [(r["reviewCount"], r["average"]) for r in ratings] == [(1, 4.0), (0, 0.0)]
    assert [r["histogram"] for r in ratings] == [histogram([4]), histogram([])]
    first, second = (rating["revision"] for rating in ratings)
    assert first < second


async def test_published_messages_are_cloud_events(facade: Facade, service: Service) -> None:
    product = new_id()
    (id,) = await facade.submit_approved(submission(product))
    topics = dict.fromkeys(("review-submissions", "events"), f"Product:{product}")
    for topic, key in {**topics, "review-changes": id}.items():
        for record in await eventually(partial(service.keyed, topic, key)):
            headers = dict(record.headers)
            assert headers["ce_specversion"] == b"1.0"
            assert headers["ce_type"].startswith(b"plaudit.")
            assert headers["content-type"] == b"application/json"
            assert {"ce_id", "ce_source", "ce_time"} < set(headers)
