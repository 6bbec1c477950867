"""Review tokens: the links in reminders, each valid for one review."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from domain.review_tokens import VALIDITY, ReviewToken, sign_token
from storage.review_tokens import ReviewTokenRepository
from tests.support.facade import REVIEWS, Facade, errors_of, new_id, once, submission
from tests.support.images import Images
from tests.support.messages import message
from tests.support.reminders import DAY, Shop, connected_job
from tests.support.retries import retry_until_decided, retry_until_served
from tests.support.service import Json, Servers, Service, running_service
from tests.support.waiting import eventually

pytestmark = pytest.mark.long

TEMPLATE = "https://shop.example/review?product={productId}&store={storeId}&token={token}"
NOW = datetime.now(UTC)
"""The time when these tests were collected: on a busy machine they run much later."""


@pytest.fixture(scope="module")
async def service(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service whose general settings belong to these tests."""
    async with running_service(servers, tmp_path_factory.mktemp("tokens")) as service:
        yield service


@pytest.fixture
async def shop(service: Service) -> AsyncIterator[Shop]:
    """A store that accepts reviews of buyers only, and mails links to a page of its own."""
    async with connected_job(service) as (database, job):
        shop = Shop(service, database, job)
        await shop.open()
        rules = {"anonymousReviewsAllowed": False, "purchaseRequired": True, "reviewUrl": TEMPLATE}
        await database["stores"].update_one({"_id": shop.id}, {"$set": {f"settings.{k}": v for k, v in rules.items()}})
        yield shop


async def tokens_in_mail(shop: Shop, customer: str, *products: str) -> dict[str, str]:
    """Remind a customer of an order; returns the mailed tokens by product."""
    order = await shop.bought(customer, *products, at=NOW - 11 * DAY)
    assert (await shop.job.run(NOW)).reminders >= 1
    (mail,) = await shop.mails(order)
    tokens = {}
    for link in re.findall(r"https://\S+", mail["text"]):
        query = parse_qs(urlsplit(link).query)
        assert query["store"] == [shop.id]
        assert f'<a href="{link}">'.replace("&", "&amp;") in mail["html"], unescape(mail["html"])
        tokens[query["product"][0]] = query["token"][0]
    assert set(tokens) == set(products)
    return tokens


def review(shop: Shop, product: str, token: str, **fields: Any) -> Json:
    """Return a review without a login."""
    given = submission(product, storeId=shop.id, token=token, **fields)
    return {name: value for name, value in given.items() if name != "userId" or "userId" in fields}


def token_of(shop: Shop, product: str = "camera", valid_for: timedelta = DAY) -> ReviewToken:
    """Return the token of a line of a new order of a new customer."""
    return ReviewToken(shop.id, new_id("order"), "1", product, new_id("anna"), NOW + valid_for)


async def until_refused(shop: Shop, id: str, code: str) -> None:
    """Wait until a submission with this id has been refused with this code."""
    await eventually(partial(shop.service.refusal_codes, id), lambda codes: code in codes)


async def refusal(http: httpx.AsyncClient, *reviews: Json) -> list[tuple[str, str]]:
    return errors_of(await retry_until_served(partial(http.post, REVIEWS, json=reviews)), 403)


async def submitted(http: httpx.AsyncClient, given: Json, headers: Mapping[str, str]) -> list[str]:
    """Submit a review that must be accepted; returns its ids."""
    response = await retry_until_decided(partial(http.post, REVIEWS, json=[given], headers=headers))
    assert response.status_code == 200, response.text
    return list(response.json()["ids"])


async def test_token_is_valid_for_one_review_of_its_order_line(
    shop: Shop, http: httpx.AsyncClient, facade: Facade
) -> None:
    tokens = await tokens_in_mail(shop, customer := new_id("anna"), "camera", "tripod")
    camera, tripod = tokens["camera"], tokens["tripod"]
    assert await refusal(http, review(shop, "tripod", camera)) == [("/0", "token-mismatch")]
    assert await refusal(http, review(shop, "camera", camera, userId="bert")) == [("/0", "token-mismatch")]
    assert await refusal(http, {**review(shop, "camera", camera), "storeId": None}) == [("/0", "token-mismatch")]
    assert await refusal(http, review(shop, "camera", camera[:-2] + "xx")) == [("/0", "token-invalid")]
    assert await refusal(http, {**review(shop, "camera", camera), "token": None}) == [("/0", "anonymous-not-allowed")]
    twice = [review(shop, "camera", camera), review(shop, "tripod", tripod), review(shop, "camera", camera)]
    assert await refusal(http, *twice) == [("/2", "token-used")]
    headers = once()
    for _ in range(2):
        (id,) = await submitted(http, review(shop, "camera", camera), headers)
    assert await refusal(http, review(shop, "camera", camera)) == [("/0", "token-used")]
    stored = await shop.database["reviews"].find_one({"_id": id})
    assert stored is not None
    assert (stored["userId"], stored["storeId"]) == (customer, shop.id)
    assert camera not in str(stored)
    # Nor do reminders ask again for a reviewed product, even if the review was deleted.
    await facade.command("DELETE", REVIEWS, {"ids": [id]})
    assert (await shop.job.run(NOW + 10 * DAY)).reminders == 1
    mails = [mail for mail in await shop.service.values("mail-commands") if mail["customerId"] == customer]
    assert [[item["productId"] for item in mail["items"]] for mail in mails] == [["camera", "tripod"], ["tripod"]]
    # Its older link is as valid as the newer one, and both together are valid for one review.
    await submitted(http, review(shop, "tripod", tripod), once())
    again = parse_qs(urlsplit(re.findall(r"https://\S+", mails[1]["text"])[0]).query)["token"][0]
    assert again != tripod
    assert await refusal(http, review(shop, "tripod", again)) == [("/0", "token-used")]


async def test_token_expiry_and_keys(shop: Shop, http: httpx.AsyncClient) -> None:
    key = await ReviewTokenRepository(shop.database).signing_key()
    assert await ReviewTokenRepository(shop.database).signing_key() == key
    token, old = token_of(shop), token_of(shop, valid_for=-timedelta(seconds=1))
    assert await refusal(http, review(shop, "camera", sign_token(old, key))) == [("/0", "token-expired")]
    assert await refusal(http, review(shop, "camera", sign_token(token, b"o" * 32))) == [("/0", "token-invalid")]
    await submitted(http, review(shop, "camera", sign_token(token, key)), once())


async def test_reminders_sign_with_first_key_for_ninety_days(shop: Shop) -> None:
    first, second = b"first-key-of-the-configuration-0", b"second-key-of-the-configuration-"
    order = await shop.bought(customer := new_id("anna"), "camera", at=NOW - 11 * DAY)
    async with connected_job(shop.service, [first, second]) as (_, job):
        assert (await job.run(NOW)).reminders == 1
    (mail,) = await shop.mails(order)
    expected = ReviewToken(shop.id, order, "0", "camera", customer, (NOW + VALIDITY).replace(microsecond=0))
    assert sign_token(expected, first) in mail["text"]


async def test_concurrent_submissions_with_one_token_are_one_review(shop: Shop) -> None:
    """Concurrent submissions to many partitions, each delivered twice, with forged, expired and foreign ones among
    them."""
    key = await ReviewTokenRepository(shop.database).signing_key()
    product = new_id("camera")
    token, old = token_of(shop, product), token_of(shop, product, -timedelta(hours=1))
    wrong = {
        "token-invalid": review(shop, product, sign_token(token, b"o" * 32)),
        "token-expired": review(shop, product, sign_token(old, key)),
        "token-mismatch": review(shop, new_id("tripod"), sign_token(token, key)),
    }
    bad = {new_id("review"): (code, each) for code, each in wrong.items()}
    ids = [new_id("review") for _ in range(30)]
    good = [review(shop, product, sign_token(token, key), id=id) for id in ids]
    sent = [*good, *({**each, "id": id} for id, (_, each) in bad.items())]
    await asyncio.gather(
        *(
            shop.service.publish("review-submissions", *(message(each, f"{each['id']}-{turn}") for each in sent))
            for turn in range(2)
        )
    )
    refused: dict[str, str] = {}

    async def decided() -> bool:
        events = await shop.service.values("events")
        refused.update({e["reviewId"]: e["code"] for e in events if e.get("code", "").startswith("token-")})
        return len(refused.keys() & {*ids, *bad}) == len(sent) - 1

    async def stored_reviews() -> list[Any]:
        return [d async for d in shop.database["reviews"].find({"entityId": product, "storeId": shop.id})]

    await eventually(decided)
    # The others may be refused for the used token before its review is stored.
    stored = await eventually(stored_reviews)
    assert len(stored) == 1
    assert stored[0]["userId"] == token.customer_id
    assert {id: refused[id] for id in bad} == {id: code for id, (code, _) in bad.items()}
    assert {refused[id] for id in ids if id != stored[0]["_id"]} == {"token-used"}
    assert not any(sign_token(token, key) in str(event) for event in await shop.service.values("events"))


async def test_token_stays_used_when_edit_with_it_is_refused(shop: Shop, http: httpx.AsyncClient) -> None:
    key = await ReviewTokenRepository(shop.database).signing_key()
    token, image = token_of(shop), await Images(http).upload()
    other = submission("camera", id=new_id("review"), images=[image])
    first = review(shop, "camera", sign_token(token, key), id=new_id("review"))
    edit = {**first, "review": "Blurred.", "images": [image]}
    # In one batch of the consumer, where only the transaction detects that the image belongs to the other review by
    # then.
    messages = [message(each, "Product:camera") for each in (other, first, edit)]
    await shop.service.publish("review-submissions", *messages)
    await until_refused(shop, first["id"], "image-of-another")
    await shop.service.idle()
    used = await shop.database["usedReviewTokens"].find_one({"_id.orderId": token.order_id})
    assert used is not None
    assert used["reviewId"] == first["id"]


async def test_viewed_request_gets_no_reminder(shop: Shop, http: httpx.AsyncClient, facade: Facade) -> None:
    customer = new_id("gerd")
    order = await shop.bought(customer, "camera", at=NOW - 11 * DAY)
    path = f"{REVIEWS}/viewedRequestReview"
    for outcome in ("applied", "unchanged"):
        seen = {"customerOrderId": order, "storeId": shop.id}
        assert await facade.command("POST", path, seen) == [{"id": order, "outcome": outcome}]
    unknown = new_id("order")
    results = await facade.command("POST", path, {"customerOrderId": unknown}, once())
    assert results == [{"id": unknown, "outcome": "not-found"}]
    assert errors_of(await http.post(path, json={"storeId": shop.id})) == [("/customerOrderId", "missing")]
    assert (await http.post(path, json={"customerOrderId": order})).status_code == 202
    await shop.job.run(NOW)
    assert await shop.mails(order) == []


async def test_objects_with_disabled_reviews(shop: Shop, http: httpx.AsyncClient, facade: Facade) -> None:
    closed, open_ = new_id("lamp"), new_id("camera")

    async def publish_facts(**facts: Any) -> None:
        value = {"entityType": "Product", "entityId": closed, **facts}
        await shop.service.publish("object-updates", message(value, f"Product:{closed}"))

        async def known() -> bool:
            id = {"entityType": "Product", "entityId": closed, "storeId": facts.get("storeId")}
            stored = await shop.database["objects"].find_one({"_id": id}) or {}
            expected = {name: fact for name, fact in facts.items() if name != "storeId" and fact is not None}
            return {**stored.get("facts", {}), **expected} == stored.get("facts")

        await eventually(known)

    await publish_facts(name="Lamp", reviewsEnabled=False, gtins=["4006381333931"])
    await publish_facts(name="Lamp 2", reviewsEnabled=None)
    one = submission(closed, userId=new_id("anna"))
    del one["EntityName"]
    # The API knows within a second that an object accepts no reviews.
    posted = await eventually(lambda: http.post(REVIEWS, json=[one]), lambda answer: answer.status_code == 403)
    assert errors_of(posted, 403) == [("/0", "reviews-disabled")]
    query = {"storeId": shop.id, "userId": "x", "entityType": "Product", "entityId": closed}
    assert "reviews-disabled" in (await facade.get(f"{REVIEWS}/canLeaveFeedback", **query))["reasons"]
    # Upstream systems learn of the refusal by an event.
    by_kafka = new_id("review")
    await shop.service.publish("review-submissions", message({**one, "id": by_kafka}, f"Product:{closed}"))
    await until_refused(shop, by_kafka, "reviews-disabled")
    only = await shop.bought(new_id("emil"), closed, at=NOW - 11 * DAY)
    both = await shop.bought(new_id("fritz"), closed, open_, at=NOW - 11 * DAY)
    report = await shop.job.run(NOW)
    assert (report.reminders, dict(report.skipped)) == (1, {"products-disabled": 1})
    (mail,) = await shop.mails(only, both)
    assert [item["productId"] for item in mail["items"]] == [open_]
    await publish_facts(storeId=shop.id, reviewsEnabled=True)
    assert "reviews-disabled" not in (await facade.get(f"{REVIEWS}/canLeaveFeedback", **query))["reasons"]
    await publish_facts(reviewsEnabled=True)
    (id,) = await facade.submit(one)
    assert (await facade.get(f"{REVIEWS}/{id}"))["entityName"] == "Lamp 2"
