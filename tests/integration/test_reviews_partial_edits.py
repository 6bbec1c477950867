"""Edits that omit the text or the rating: what is omitted stays, and without a stored review they are refused."""

from collections.abc import Sequence
from functools import partial
from itertools import permutations
from typing import Any

import httpx
import pytest

from consumers.reviews import edits as reviews_edits
from tests.support.consumers import Desk
from tests.support.facade import REVIEWS, Facade, errors_of, new_id, once, problem_of, submission
from tests.support.messages import review_message
from tests.support.retries import resend_until_refused
from tests.support.service import Json, Service
from tests.support.waiting import eventually


def partly(whole: Json, /, **fields: Any) -> Json:
    """An edit of this review that names only its id, object, store and author beside these fields."""
    named = ("id", "EntityId", "EntityType", "storeId", "userId")
    return {name: whole[name] for name in named if name in whole} | fields


async def edits_of(service: Service, id: str) -> list[list[str]]:
    """The changed fields of each edit of a review, by its events."""
    return [data["fields"] for kind, data in await service.events_about(id) if kind == "ReviewEdited"]


@pytest.mark.long
async def test_title_or_rating_alone_by_http(facade: Facade, service: Service, product: str) -> None:
    store = await facade.open_store(editsKeepStatus=True)
    review = submission(product, 4, id=new_id("review"), storeId=store)
    (id,) = await facade.submit_approved(review)
    for fields, rating in (
        ({"title": "Corrected"}, 4),
        ({"rating": 2, "review": None}, 2),
        ({"review": "It broke."}, 2),
    ):
        (result,) = await facade.command("POST", REVIEWS, [partly(review, **fields)], once())
        assert result == {"id": id, "outcome": "applied"}
        assert await facade.rating(product) == (rating, 1)
    row = await facade.review(id)
    assert (row["title"], row["review"], row["rating"], row["userName"]) == ("Corrected", "It broke.", 2, "Anna Berg")
    assert await eventually(partial(edits_of, service, id), lambda found: len(found) == 3) == [
        ["title"],
        ["rating"],
        ["review"],
    ]
    page = await facade.get("/api/audit", reviewId=id, action="edit")
    assert [entry["fields"] for entry in page["results"]] == [["review"], ["rating"], ["title"]]
    # As a moderator: without the author.
    moderated = {"id": id, "EntityId": product, "EntityType": "Product", "title": "Moderated"}
    assert await facade.command("POST", REVIEWS, [moderated]) == [{"id": id, "outcome": "applied"}]
    assert await facade.command("POST", REVIEWS, [moderated]) == [{"id": id, "outcome": "unchanged"}]


async def test_without_a_stored_review_nothing_is_accepted(facade: Facade, service: Service, product: str) -> None:
    stored, unknown = [submission(product, id=new_id("review")) for _ in range(2)]

    async def send(*edits: Json) -> httpx.Response:
        return await facade.http.post(REVIEWS, json=edits, headers=once())

    async def send_beside_unknown() -> httpx.Response:
        """Send an edit of a review that no earlier attempt has edited, beside one of an unknown review."""
        stored["id"] = new_id("review")
        await facade.submit(stored)
        return await send(partly(stored, title="Corrected"), partly(unknown, title="Corrected"))

    answer = await resend_until_refused(send_beside_unknown)
    assert errors_of(answer) == [("/1/review", "missing"), ("/1/rating", "missing")]
    assert {error["message"][:23] for error in problem_of(answer, 422)["errors"]} == {"No review has this id, "}
    half = await resend_until_refused(partial(send, partly(unknown, review="Sharp")))
    assert errors_of(half) == [("/0/rating", "missing")]
    nobodys = await send({**partly(unknown), "id": None})
    assert errors_of(nobodys) == [("/0/review", "missing"), ("/0/rating", "missing")]
    for other in ({"userId": "bert"}, {"EntityId": new_id()}):
        taken = await resend_until_refused(partial(send, partly(stored, title="Mine", **other)))
        assert errors_of(taken, 409) == [("/0/id", "id-taken")]
    assert (await facade.review(stored["id"]))["title"] == stored["title"]
    assert await facade.moderate("delete", stored["id"]) == ["applied"]
    gone = await resend_until_refused(partial(send, partly(stored, title="Late")))
    assert errors_of(gone, 409) == [("/0/id", "id-taken")]


@pytest.mark.long
async def test_partial_edits_by_kafka(facade: Facade, service: Service, product: str) -> None:
    review, command = submission(product, 4, id=new_id("review")), new_id("command")
    early = partly(review, title="Early", commandId=command)
    await service.publish("review-submissions", review_message(early))
    refusals = partial(service.refusal_codes, review["id"])
    assert await eventually(refusals) == ["incomplete"]
    outcome = {
        "id": review["id"],
        "outcome": "refused",
        "reason": "incomplete",
        "message": "No review has this id, so `review` and `rating` are required: only an edit may omit them.",
    }
    # Stored after the event: until then the command is not found.
    stored = partial(facade.http.get, f"/api/commands/{command}")
    answer = await eventually(stored, lambda found: bool(found.json().get("results")))
    assert answer.json()["results"] == [outcome]
    # Refused, the id is free for a whole submission.
    late = [review, partly(review, title="Corrected"), partly(review, rating=2), early]
    await service.publish("review-submissions", *map(review_message, late))
    await eventually(partial(facade.listed, "rating", entityIds=[product]), lambda ratings: ratings == [2])
    await service.idle()
    row = await facade.review(review["id"])
    assert (row["title"], row["review"], row["rating"]) == ("Corrected", review["review"], 2)
    assert await refusals() == ["incomplete"]


STEPS: Sequence[Json] = [
    {"review": "Sharp.", "rating": 4, "title": "First"},
    {"review": "Sharper.", "rating": 5},
    {"title": "Corrected"},
    {"rating": 2},
]


async def results_of(desk: Desk, review: Json, steps: Sequence[Json]) -> Any:
    """The stored review, the outcomes of its submissions, and its events in order."""
    stored, id = await desk.stored(review["id"]), review["id"]
    keys = [(step["commandId"], id) for step in steps]
    answers = await desk.services.outcomes.answers(keys)
    names = ("review", "ratingHundredths", "title", "status", "refused")
    events = [(kind, data.get("fields") or data.get("code")) for kind, data in desk.events() if data["reviewId"] == id]
    # Refusals of new reviews are published before anything of their batch is stored.
    events.sort(key=lambda event: event[0] != "SubmissionRefused")
    return {n: stored.get(n) for n in names}, [(answers[k].outcome, answers[k].reason) for k in keys], events


@pytest.mark.long
async def test_one_batch_has_the_result_of_several(desk: Desk) -> None:
    orders = [order for size in (2, 3, 4) for order in permutations(STEPS, size)]
    whole, single = [[desk.review() for _ in orders] for _ in range(2)]
    submissions = {
        review["id"]: [partly(review, **step, commandId=new_id("command")) for step in order]
        for reviews in (whole, single)
        for review, order in zip(reviews, orders, strict=True)
    }
    batch = desk.records(*(each for review in whole for each in submissions[review["id"]]))
    await desk.submit(batch)
    for review in single:
        for each in submissions[review["id"]]:
            await desk.submit(desk.records(each))
    found, expected = [
        [await results_of(desk, review, submissions[review["id"]]) for review in reviews] for reviews in (whole, single)
    ]
    assert found == expected
    before = len(desk.events())
    await desk.submit(batch)
    assert [await results_of(desk, review, submissions[review["id"]]) for review in whole] == expected
    assert len(desk.events()) == before


@pytest.mark.long
async def test_edits_of_a_review_that_was_not_stored_are_refused(desk: Desk) -> None:
    store = await desk.open_store(oneReviewPerCustomer=True)
    first, second = desk.review(storeId=store), desk.review(storeId=store)
    records = desk.records(first, second, partly(second, title="Corrected"), partly(first, title="Corrected"))
    # The second one loses its claim only when it is stored.
    await desk.submit(records)
    assert (await desk.stored(first["id"]))["title"] == "Corrected"
    assert (await desk.stored(second["id"]))["refused"] == "duplicate-review"
    codes = [data["code"] for kind, data in desk.events() if kind == "SubmissionRefused"]
    assert codes == ["duplicate-review", "incomplete"]
    await desk.submit(records)
    assert [data["code"] for kind, data in desk.events() if kind == "SubmissionRefused"] == codes


async def test_edit_after_a_redelivered_refusal_is_refused(desk: Desk) -> None:
    store = await desk.open_store(reviewsEnabled=False)
    review = desk.review(storeId=store)
    refused = desk.records(review)
    await desk.submit(refused)
    await desk.open_store(store)
    edit = desk.records(partly(review, title="Corrected"))
    await desk.submit([*refused, *edit])
    assert (await desk.stored(review["id"]))["refused"] == "incomplete"
    codes = [data["code"] for kind, data in desk.events() if kind == "SubmissionRefused"]
    assert codes == ["reviews-disabled", "incomplete"]
    await desk.submit([*edit, *desk.records({**review, "review": "Sent again."})])
    assert (await desk.stored(review["id"]))["review"] == "Sent again."


async def test_rules_judge_the_kept_text(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[Json] = [
        {"id": "same", "kind": "duplicate", "outcome": "flag"},
        {"id": "words", "kind": "words", "outcome": "hold", "words": ["scam"]},
        {"id": "low", "kind": "stars", "outcome": "flag", "below": 3, "publishAfterHours": 1},
    ]
    store = await desk.open_store(moderationRules=rules)
    text = "A scam, and this camera is no camera at all."
    reviews = [desk.review(storeId=store, userId=user, review=text, rating=2) for user in ("anna", "bert", "cleo")]
    for review in reviews:
        await desk.submit(desk.records(review))
    before = [(await desk.stored(review["id"]))["flags"] for review in reviews]
    assert before == [["words", "low"], ["same", "words", "low"], ["same", "words", "low"]]
    monkeypatch.setattr(reviews_edits, "_AT_ONCE", len(text) + len("Corrected"))
    run, parts = desk.services.transactions.run, 0

    async def counting(*arguments: Any) -> Any:
        nonlocal parts
        parts += 1
        return await run(*arguments)

    monkeypatch.setattr(desk.services.transactions, "run", counting)
    await desk.submit(desk.records(*(partly(review, title="Corrected") for review in reviews)))
    assert parts == len(reviews)
    after = [await desk.stored(review["id"]) for review in reviews]
    assert [(each["title"], each["review"], each["flags"], each["language"]) for each in after] == [
        ("Corrected", text, flags, "en") for flags in before
    ]
