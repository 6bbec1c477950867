"""Reviews are edited by submitting their ids: by authors and moderators, and no older text wins."""

import asyncio
import json
import random
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.lookups import Lookups
from domain.permissions import Permission
from storage.database import Database
from storage.repositories import Repositories
from storage.shapes import StoredDocumentError
from tests.support.facade import REVIEWS, Facade, errors_of, new_id, once, submission
from tests.support.final_responses import final_status
from tests.support.messages import Message, message, moderation, review_message
from tests.support.retries import resend_until_refused, retry_until_served
from tests.support.secured import running_secured
from tests.support.service import Json, Servers, Service, kind_of
from tests.support.waiting import eventually

CREATE, READ, UPDATE = Permission.CREATE_REVIEWS, Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS
REFUSED = "SubmissionRefused"
SHOWN = ("title", "review", "rating", "userName", "entityName", "reviewStatus")


async def edit(facade: Facade, review: Json, **headers: str) -> Json:
    """Submit a review with a known id; returns its result."""
    (result,) = await facade.command("POST", REVIEWS, [review], headers)
    return {name: value for name, value in result.items() if name != "id"}


async def events_of(service: Service, kind: str, id: str) -> list[Json]:
    """Return the events of this kind about a review."""
    return [data for each, data in await service.events_about(id) if each == kind]


async def one_event(service: Service, kind: str, id: str) -> Json:
    (event,) = await eventually(partial(events_of, service, kind, id))
    return event


async def shown(facade: Facade, id: str) -> Json:
    row = await facade.review(id)
    return {name: row[name] for name in SHOWN}


@pytest.mark.parametrize("keeps", [False, True])
async def test_author_edits_review(facade: Facade, service: Service, product: str, keeps: bool) -> None:
    store = await facade.open_store(editsKeepStatus=keeps)
    first = submission(product, 4, id=new_id("review"), storeId=store)
    await facade.submit_approved(first)
    changed = {**first, "rating": 2, "review": "It broke."}
    del changed["title"], changed["EntityName"], changed["userName"]
    assert await edit(facade, changed) == {"outcome": "applied"}
    status = "Approved" if keeps else "New"
    assert await shown(facade, first["id"]) == {
        "title": first["title"],
        "review": "It broke.",
        "rating": 2,
        "userName": first["userName"],
        "entityName": first["EntityName"],
        "reviewStatus": status,
    }
    assert await facade.rating(product) == ((2.0, 1) if keeps else (0, 0))
    event = await one_event(service, "ReviewEdited", first["id"])
    assert event | {"at": ""} == {
        "reviewId": first["id"],
        "entityType": "Product",
        "entityId": product,
        "storeId": store,
        "fields": ["review", "rating"],
        "editedBy": "author",
        "editor": None,
        "statusBefore": "Approved",
        "statusAfter": status,
        "at": "",
    }
    (entry, approval) = (await facade.get("/api/audit", reviewId=first["id"]))["results"]
    assert (entry["action"], entry["subject"], entry["fields"]) == ("edit", "anna", ["review", "rating"])
    assert (approval["action"], approval["fields"]) == ("approve", [])
    assert await facade.get("/api/audit", reviewId=first["id"], action="edit") == {"totalCount": 1, "results": [entry]}
    assert "broke" not in json.dumps(entry)
    assert await edit(facade, changed) == {"outcome": "unchanged"}


async def test_moderator_edits_row_of_a_list(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store()
    (id,) = await facade.submit_approved(submission(product, 4, storeId=store))
    (row,) = (await facade.page(entityIds=[product]))["results"]
    assert "storeId" not in row
    assert await edit(facade, {**row, "title": "Corrected", "rating": 5}) == {"outcome": "applied"}
    after = await facade.review(id)
    assert (after["title"], after["reviewStatus"], after["storeName"]) == ("Corrected", "Approved", store)
    assert after["createdDate"] == row["createdDate"]
    assert await facade.rating(product) == (5.0, 1)
    event = await one_event(service, "ReviewEdited", id)
    assert (event["editedBy"], event["fields"], event["statusAfter"]) == ("moderator", ["rating", "title"], "Approved")
    await facade.command("PUT", f"/api/stores/{store}", {"settings": {"reviewsEnabled": False}}, once())
    assert await edit(facade, {**row, "title": "Corrected again"}) == {"outcome": "applied"}
    send = partial(facade.http.post, REVIEWS, json=[{**row, "userId": "anna", "title": "Mine"}])
    assert errors_of(await resend_until_refused(send), 403) == [("/0", "reviews-disabled")]


@pytest.mark.long
async def test_edits_by_kafka(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store()
    first = submission(product, 4, id=new_id("review"), storeId=store)
    second, third = {**first, "review": "Second"}, {**first, "review": "Third", "rating": 1}
    await service.publish("review-submissions", *map(review_message, (first, second, third)))
    await eventually(partial(facade.listed, "review", entityIds=[product]), lambda texts: texts == ["Third"])
    # The same messages again, at new offsets and in another order: none is new.
    again = [review_message(each) for each in (second, first, second, third, first)]
    await service.publish("review-submissions", *again)
    await service.idle()
    assert (await shown(facade, first["id"]))["review"] == "Third"
    assert len(await events_of(service, "ReviewEdited", first["id"])) == 2
    assert await facade.moderate("approve", first["id"]) == ["applied"]
    rivals = [{**third, "userId": "bert", "review": "Not mine"}, {**third, "storeId": new_id(), "review": "Elsewhere"}]
    await service.publish("review-submissions", *map(review_message, rivals))
    refusals = await eventually(
        partial(events_of, service, "SubmissionRefused", first["id"]), lambda found: len(found) > 1
    )
    assert {refusal["code"] for refusal in refusals} <= {"id-taken", "unknown-store"}
    assert (await shown(facade, first["id"]))["review"] == "Third"
    assert await facade.rating(product) == (1.0, 1)


async def test_stored_review_is_published(facade: Facade, service: Service, product: str) -> None:
    (id,) = await facade.submit(submission(product, 4.5))
    event = await one_event(service, "ReviewSubmitted", id)
    assert event == {
        "reviewId": id,
        "entityType": "Product",
        "entityId": product,
        "storeId": None,
        "rating": 4.5,
        "flags": [],
        "at": (await facade.review(id))["createdDate"],
    }


@pytest.mark.long
async def test_command_never_edits_twice(facade: Facade, service: Service, product: str) -> None:
    id, key = new_id("review"), once()
    first = submission(product, 4, id=id)
    assert (await edit(facade, first, **key))["outcome"] == "applied"
    assert (await edit(facade, {**first, "review": "Second"}))["outcome"] == "applied"
    assert (await edit(facade, first, **key))["outcome"] == "applied"  # the first answer
    command = new_id("command")
    third = {**first, "review": "Third", "commandId": command}
    await service.publish(
        "review-submissions", review_message(third), review_message({**third, "review": "Not a repeat"})
    )
    await service.idle()
    assert (await shown(facade, id))["review"] == "Third"


@pytest.mark.long
@pytest.mark.kafka
async def test_permissions_to_edit(servers: Servers, tmp_path: Path, product: str) -> None:
    async with running_secured(servers, tmp_path) as secured:
        async with secured.facade() as admin:
            store, other = [await admin.open_store() for _ in range(2)]
        review = submission(product, 4, id=new_id("review"), storeId=store)
        nobodys = {**submission(product, 3, id=new_id("review"), storeId=store), "userId": None}

        async def sends(subject: str, permissions: Sequence[str], body: Json, **token: Any) -> int:
            async with secured.client({*permissions, READ}, sub=subject, **token) as http:
                return await final_status(http, await http.post(REVIEWS, json=[body], headers=once()))

        def text(word: str, of: Json = review) -> Json:
            return {**of, "review": word}

        assert await sends("anna", [CREATE], review) == 200
        assert await sends("anna", [CREATE], nobodys) == 200
        assert await sends("anna", [CREATE], nobodys) == 200  # the same again
        assert await sends("anna", [CREATE], text("Mine?", nobodys)) == 409
        assert await sends("bert", [CREATE], text("Mine?")) == 409
        assert await sends("bert", [CREATE], {**text("Mine?"), "userId": "bert"}) == 409
        assert await sends("anna", [], text("Mine")) == 403
        assert await sends("maria", [UPDATE], submission(product)) == 403
        assert await sends("maria", [UPDATE], text("Elsewhere"), stores=[other]) == 409
        assert await sends("maria", [UPDATE], text("Corrected"), stores=[store]) == 200
        assert await sends("maria", [UPDATE], text("Corrected", nobodys)) == 200
        without = {name: value for name, value in text("Mine").items() if name not in ("userId", "storeId")}
        assert await sends("anna", [CREATE], without) == 200
        async with secured.facade() as admin:
            assert (await admin.review(review["id"]))["review"] == "Mine"
            page = await admin.get("/api/audit", reviewId=review["id"])
            assert [entry["subject"] for entry in page["results"]] == ["anna", "maria"]


@pytest.mark.slow
@pytest.mark.kafka
async def test_concurrent_edits_moderations_and_redeliveries(facade: Facade, service: Service, product: str) -> None:
    """1,000 edits by HTTP and Kafka, with concurrent approvals, deletions and redeliveries of the first submissions."""
    reviews = [submission(product, 3, id=new_id("review"), userId=f"user{n}") for n in range(50)]
    # Redelivered as sent: another message with the same text would be an edit.
    await service.publish("review-submissions", *map(review_message, reviews))
    await facade.until_listed(product, len(reviews))
    chance, last = random.Random(7), {review["id"]: review for review in reviews}
    deleted: set[str] = set()

    async def edits(number: int) -> None:
        mine = reviews[number::10]
        for n in range(100):
            review = {**chance.choice(mine), "review": f"{number}/{n}", "rating": chance.randint(1, 5)}
            if n % 2:
                answer = await facade.http.post(REVIEWS, json=[review])
                assert answer.status_code in (202, 409), answer.text
                if answer.status_code == 409:
                    continue
            else:
                await service.publish("review-submissions", review_message(review))
            last[review["id"]] = review

    async def others() -> None:
        for _ in range(100):
            ids = [review["id"] for review in chance.sample(reviews, 5)]
            await service.publish("review-submissions", *[review_message(r) for r in chance.sample(reviews, 5)])
            await service.publish("moderation-commands", *[moderation("approve", id) for id in ids])
        for review in reviews[:10]:
            deleted.add(review["id"])
            await service.publish("moderation-commands", moderation("delete", review["id"]))

    await asyncio.gather(others(), *map(edits, range(10)))
    await service.idle()
    rows = {row["id"]: row for row in (await facade.page(entityIds=[product], take=1_000))["results"]}
    assert set(rows) == set(last) - deleted
    wrong = {id: (row["review"], last[id]["review"]) for id, row in rows.items() if row["review"] != last[id]["review"]}
    assert not wrong
    # Some may not stay approved: an author's edit sets a review back to New.
    events = await service.records("events")
    assert {json.loads(each.value)["reviewId"] for each in events if kind_of(each) == "ReviewApproved"} & set(last)
    approved = [row["rating"] for row in rows.values() if row["reviewStatus"] == "Approved"]
    mean = Decimal(sum(approved)) / len(approved) if approved else Decimal(0)
    rounded = mean.quantize(Decimal("0.01"), ROUND_HALF_UP)
    assert await facade.rating(product) == (float(rounded), len(approved))


async def send_concurrently(facade: Facade, service: Service, reviews: Sequence[Json]) -> None:
    """Send reviews concurrently, alternating HTTP and Kafka, with distinct keys."""
    by_kafka = [message(review, new_id("key")) for review in reviews[1::2]]
    posts = [facade.http.post(REVIEWS, json=[review], headers=once()) for review in reviews[::2]]
    await asyncio.gather(service.publish("review-submissions", *by_kafka), *posts)
    await service.idle()


async def posted(facade: Facade, *reviews: Json) -> httpx.Response:
    """The response to reviews, sent once the rules of their stores can be looked up."""
    return await retry_until_served(partial(facade.http.post, REVIEWS, json=reviews))


async def refused(facade: Facade, store: str, product: str, user: str = "anna") -> list[str]:
    about = {"storeId": store, "userId": user, "entityType": "Product", "entityId": product}
    reasons: list[str] = (await facade.get(f"{REVIEWS}/canLeaveFeedback", **about))["reasons"]
    return reasons


@pytest.mark.long
@pytest.mark.kafka
async def test_one_review_for_each_customer(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store(oneReviewPerCustomer=True)
    assert await refused(facade, store, product) == []
    reviews = [submission(product, 4, id=new_id("review"), storeId=store, title=f"{n}") for n in range(50)]
    await send_concurrently(facade, service, reviews)
    (row,) = await facade.until_listed(product, 1)
    assert await refused(facade, store, product) == ["duplicate-review"]
    assert await refused(facade, store, product, "bert") == []
    # Each one acknowledged by Kafka is reported as refused, with the reason; the stored one isn't.
    lost = {review["id"] for review in reviews[1::2]} - {row["id"]}

    async def reasons() -> dict[str, str]:
        events = [json.loads(each.value) for each in await service.records("events") if kind_of(each) == REFUSED]
        ids = {review["id"] for review in reviews}
        return {event["reviewId"]: event["code"] for event in events if event["reviewId"] in ids}

    found = await eventually(reasons, lambda found: found.keys() >= lost)
    assert set(found.values()) == {"duplicate-review"}
    assert row["id"] not in found
    # It can be edited, and rejected ones count; deletion frees the place.
    mine = next(review for review in reviews if review["id"] == row["id"])
    assert await edit(facade, {**mine, "review": "Changed"}) == {"outcome": "applied"}
    await facade.moderate("reject", row["id"])
    again = submission(product, 4, storeId=store, title="again")
    assert errors_of(await posted(facade, again), 403) == [("/0", "duplicate-review")]
    await facade.moderate("delete", row["id"])
    twice = [{**again, "EntityId": new_id()}] * 2
    assert errors_of(await posted(facade, *twice), 403) == [("/1", "duplicate-review")]
    (id,) = await facade.submit(again)
    assert await facade.listed(entityIds=[product]) == [id]


@pytest.mark.kafka
@pytest.mark.long
async def test_reviews_older_than_the_setting_count(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store()
    await facade.submit(*[submission(product, 4, storeId=store) for _ in range(2)])
    await facade.open_store(store, oneReviewPerCustomer=True)
    id = new_id("review")
    await service.publish("review-submissions", review_message(submission(product, id=id, storeId=store)))
    assert (await one_event(service, "SubmissionRefused", id))["code"] == "duplicate-review"
    # A refused author may send it again once the place is free.
    await facade.moderate("delete", *await facade.listed(entityIds=[product]))
    again: Message = review_message(submission(product, id=id, storeId=store))
    await service.publish("review-submissions", again, again)
    await facade.until_listed(product, 1)


async def test_damaged_review_does_not_affect_lookups_of_others(database: Database) -> None:
    of = Repositories(database)
    lookups = Lookups(of.ratings, of.stores, of.objects, of.reviews)
    await database["reviews"].insert_one({"_id": "damaged", "writtenAt": 5})
    requests = [lookups.holders(["free"]), lookups.holders(["damaged"])]
    free, damaged = await asyncio.gather(*requests, return_exceptions=True)
    assert (free, type(damaged)) == ({}, StoredDocumentError)
