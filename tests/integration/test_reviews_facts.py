"""Facts about reviews: the purchases that verify them, and their sources."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from domain.review_tokens import ReviewToken, sign_token
from storage.review_tokens import ReviewTokenRepository
from tests.support.facade import REVIEWS, Facade, body_of, new_id, once, submission
from tests.support.messages import Message, message, review_message
from tests.support.orders import Returns, an_order, order_event
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

FACTS = ("verifiedPurchase", "incentivized", "source", "createdDate")
LATER = "2022-03-15T10:00:00Z"
LONG_AGO = "2020-05-06T07:08:09.123Z"


@pytest.fixture
async def store(facade: Facade) -> str:
    return await facade.open_store()


async def until(facade: Facade, id: str, **facts: Any) -> Json:
    """Wait until a review has these facts; returns it."""

    async def review() -> Json:
        answer = await facade.http.get(f"{REVIEWS}/{id}")
        return dict(answer.json()) if answer.status_code == 200 else {}

    return await eventually(review, lambda shown: facts.items() <= shown.items())


async def test_facts_claimed_by_http_clients_are_ignored(facade: Facade, http: httpx.AsyncClient, product: str) -> None:
    claimed: Json = {"verifiedPurchase": True, "source": "import", "writtenDate": LONG_AGO, "incentivized": True}
    answer = await retry_until_decided(
        partial(http.post, REVIEWS, json=[submission(product, **claimed)], headers=once())
    )
    assert answer.headers["plaudit-ignored"] == "verifiedPurchase, source, writtenDate"
    review = await facade.review(body_of(answer, dict)["ids"][0])
    assert [review[name] for name in FACTS[:3]] == [False, True, "api"]
    assert review["createdDate"] > "2026"
    assert (await facade.review((await facade.submit(submission(product)))[0]))["incentivized"] is False


@pytest.mark.long
async def test_languages_are_given_or_detected(facade: Facade) -> None:
    product, english, german = new_id(), "Sharp pictures, and it lasts.", "Scharfe Bilder, und der Akku hält lange."
    detected, given, short, joined = await facade.submit(
        submission(product, title=None, review=english),
        submission(product, title=None, review=english, language="DE_at"),
        submission(product, title=None, review="x" * 20),
        submission(product, title="Scharfe Bilder, der", review="Akku hält lange"),
    )

    async def languages() -> list[str | None]:
        return [(await facade.review(id))["language"] for id in (detected, given, short, joined)]

    assert await languages() == ["en", "de-AT", None, "de"]
    for id in (detected, given, short):
        await facade.command("POST", REVIEWS, [submission(product, title=None, review=german, id=id)])
    assert await languages() == ["de", "de-AT", "de", "de"]
    # An edited text is detected together with the fields that the edit leaves out; too short ones have no language.
    edit = {"EntityId": product, "EntityType": "Product", "userId": "anna", "rating": 4}
    await facade.command("POST", REVIEWS, [{**edit, "review": "ist gut", "id": joined}])
    await facade.command("POST", REVIEWS, [{**edit, "review": "Gut", "id": short}])
    assert await languages() == ["de", "de-AT", None, "de"]
    assert set(await facade.listed(entityIds=[product], language="DE")) == {detected, given, joined}
    assert await facade.listed(entityIds=[product], language="de-at") == [given]
    assert await facade.listed(entityIds=[product], language="deu") == []


@pytest.mark.long
async def test_submissions_in_one_array_complete_each_other(
    facade: Facade, service: Service, http: httpx.AsyncClient, product: str
) -> None:
    first = submission(product, id=new_id("review"), language="da", source="import", writtenDate=LONG_AGO)
    named = {name: first[name] for name in ("id", "EntityId", "EntityType", "userId", "review", "rating")}
    later: list[Json] = [{**named, "title": "Later"}, {**named, "incentivized": True}]
    array = message([first, *later], f"Product:{product}")
    await service.publish("review-submissions", array, array)
    review = await until(facade, first["id"], source="import", createdDate=LONG_AGO)
    assert (review["title"], review["language"], review["incentivized"]) == ("Later", "da", True)
    await service.idle()
    assert await facade.listed(entityIds=[product]) == [first["id"]]
    assert (await facade.review(first["id"]))["modifiedDate"] == review["modifiedDate"], "the repeat changes nothing"


@pytest.mark.long
async def test_import_keeps_written_date(facade: Facade, service: Service, product: str) -> None:
    imported, plain, future, undated = (new_id("review") for _ in range(4))
    written: Json = {"writtenDate": LONG_AGO}
    messages = [
        review_message(submission(product, id=imported, source="Import", **written)),
        review_message(submission(product, id=plain, source="api", via=None, **written)),
        review_message(submission(product, id=future, source="import", writtenDate="2999-01-01T00:00:00Z")),
        review_message(submission(product, id=undated, source="import")),
    ]
    began = datetime.now(UTC)
    await service.publish("review-submissions", *messages)
    review = await until(facade, imported, source="import", createdDate=LONG_AGO)
    assert review["modifiedDate"] > LONG_AGO
    assert review["writtenDate"] == LONG_AGO
    assert (await until(facade, undated, source="import"))["writtenDate"] is None
    assert (await until(facade, plain, source="kafka"))["createdDate"] > LONG_AGO
    assert (await until(facade, future, source="import"))[
        "createdDate"
    ] < f"{began + timedelta(minutes=5):%Y-%m-%dT%H}:99"
    assert await facade.listed(entityIds=[product], sort="createdDate", take=1) == [imported]
    # The object has changed now, although its review was written long ago.
    other = new_id()
    await service.publish("review-submissions", review_message(submission(other, source="import", **written)))
    changes = partial(facade.http.post, f"{REVIEWS}/changes", json={"modifiedDate": began.isoformat()})
    await eventually(changes, lambda answer: other in answer.json())
    # The record keeps its own time, even once the review is deleted.
    stored = await service.find("reviews", imported)
    await facade.moderate("delete", imported)
    assert (await service.find("reviews", imported))["submittedAt"] == stored["submittedAt"] > began


@pytest.mark.long
async def test_orders_verify_reviews_in_any_order_of_arrival(
    facade: Facade, service: Service, returns: Returns, store: str
) -> None:
    product, customer = new_id(), new_id("customer")
    bought: Json = {"storeId": store, "customerId": customer}
    first, other, elsewhere = await facade.submit(
        submission(product, storeId=store, userId=customer),
        submission(new_id(), storeId=store, userId=customer),
        submission(product, userId=customer),
    )
    before = await facade.review(first)
    assert before["verifiedPurchase"] is False
    order = await returns.ordered({product: 1}, **bought)
    after = await until(facade, first, verifiedPurchase=True)
    assert after == {**before, "verifiedPurchase": True}, "modifiedDate stays"
    (second,) = await facade.submit(submission(product, storeId=store, userId=customer))
    assert (await facade.review(second))["verifiedPurchase"] is True
    assert [(await facade.review(id))["verifiedPurchase"] for id in (other, elsewhere)] == [False, False]
    listed = {v: set(await facade.listed(entityIds=[product], verifiedPurchase=v)) for v in (True, False)}
    assert listed == {True: {first, second}, False: {elsewhere}}
    # An edit and an older event don't change it; a cancellation does, and another order restores it.
    await facade.command("POST", REVIEWS, [{**submission(product, 2, userId=customer, storeId=store), "id": first}])
    assert (await facade.review(first))["verifiedPurchase"] is True
    cancelled = an_order(order, {product: 1}, **bought, status="Cancelled", modifiedDate=LATER)
    await service.publish("order-events", order_event(cancelled))
    for id in (first, second):
        await until(facade, id, verifiedPurchase=False)
    await service.publish("order-events", order_event(an_order(order, {product: 1}, **bought)))
    await service.idle()
    assert (await facade.review(first))["verifiedPurchase"] is False
    given_away = await returns.ordered({product: 1}, **bought)
    await until(facade, first, verifiedPurchase=True)
    # An order that turns out to belong to another customer.
    news = an_order(given_away, {product: 1}, storeId=store, customerId=new_id("customer"), modifiedDate=LATER)
    await service.publish("order-events", order_event(news))
    for id in (first, second):
        await until(facade, id, verifiedPurchase=False)

    async def former() -> Any:
        return (await service.find("orders", given_away)).get("formerCustomers")

    await eventually(former, lambda found: not found)


@pytest.mark.long
async def test_orders_without_a_store_verify_reviews_without_one(facade: Facade, returns: Returns) -> None:
    product, customer = new_id(), new_id("customer")
    await returns.ordered({product: 1}, storeId=None, customerId=customer)
    vendor = submission(new_id(), userId=customer, EntityType="Vendor")
    ids = await facade.submit(submission(product, userId=customer), submission(product, userId=None), vendor)
    assert [(await facade.review(id))["verifiedPurchase"] for id in ids] == [True, False, True]


@pytest.mark.long
async def test_token_verifies_permanently(facade: Facade, service: Service, returns: Returns, store: str) -> None:
    product, customer = new_id(), new_id("customer")
    bought: Json = {"storeId": store, "customerId": customer}
    order = await returns.ordered({product: 2}, **bought)

    async def token(line: str) -> str:
        async with service.mongo() as database:
            key = await ReviewTokenRepository(database).signing_key()
        given = ReviewToken(store, order, line, product, customer, datetime.now(UTC) + timedelta(days=1))
        return sign_token(given, key)

    plain = {**submission(product, storeId=store), "userId": None}
    by_token, by_order = await facade.submit(
        {**plain, "token": await token("a")}, submission(product, storeId=store, userId=customer)
    )
    reviews = [await facade.review(id) for id in (by_token, by_order)]
    assert [(r["source"], r["verifiedPurchase"]) for r in reviews] == [("reminder", True), ("api", True)]
    cancelled = an_order(order, {product: 2}, **bought, isCancelled=True, modifiedDate=LATER)
    await service.publish("order-events", order_event(cancelled))
    await until(facade, by_order, verifiedPurchase=False)
    assert (await facade.review(by_token))["verifiedPurchase"] is True
    # A token sent with an edit counts.
    edit = submission(product, 3, storeId=store, userId=customer, id=by_order, token=await token("b"))
    await service.publish("review-submissions", review_message(edit))
    await until(facade, by_order, rating=3, verifiedPurchase=True, source="api")
    async with service.mongo() as database:
        proof = {"verifiedPurchase": "", "provenByToken": ""}
        assert (await database["reviews"].update_one({"_id": by_order}, {"$unset": proof})).modified_count == 1
    # The same text with a token used for another review proves nothing.
    await service.publish("review-submissions", review_message({**edit, "token": await token("a")}))
    await service.idle()
    assert (await facade.review(by_order))["verifiedPurchase"] is False


@pytest.mark.long
async def test_concurrent_reviews_and_orders(facade: Facade, service: Service, store: str) -> None:
    """Concurrent reviews, orders and cancellations of many customers, each repeated."""
    chance, product = random.Random(7), new_id()
    reviews: list[Message] = []
    orders: list[Message] = []
    expected: dict[str, bool] = {}
    for number in range(300):
        customer, id = new_id("customer"), new_id("review")
        bought, cancelled = chance.random() < 0.7, chance.random() < 0.4
        expected[id] = bought and not cancelled
        reviews.append(review_message(submission(product, id=id, storeId=store, userId=customer)))
        order = an_order(f"{id}-order", {product: 1}, storeId=store, customerId=customer)
        if bought:
            orders.append(order_event(order))
        if bought and cancelled:
            orders.append(order_event({**order, "status": "Cancelled", "modifiedDate": LATER}))
        reviews[-1] = reviews[-1]._replace(key=f"{number}")
    chance.shuffle(reviews)
    chance.shuffle(orders)
    for part in range(0, 300, 60):
        await service.publish("order-events", *orders[part : part + 60], *orders[:20])
        await service.publish("review-submissions", *reviews[part : part + 60], *reviews[:20])
    await service.publish("order-events", *orders[300:])

    async def shown() -> dict[str, bool]:
        answer = await facade.http.post(f"{REVIEWS}/search", json={"entityIds": [product], "take": 1_000})
        return {row["id"]: row["verifiedPurchase"] for row in answer.json()["results"]}

    await eventually(shown, lambda found: found == expected, deadline_s=300)
