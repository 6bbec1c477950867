"""Requests repeated with their key after the circumstances changed: answered with the first outcome, while other
requests are refused."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from domain.review_tokens import ReviewToken, sign_token
from storage.review_tokens import ReviewTokenRepository
from tests.support.facade import REVIEWS, Facade, body_of, errors_of, new_id, once, problem_of, submission
from tests.support.images import Images
from tests.support.retries import resend_until_refused, retry_until_decided, retry_until_served
from tests.support.service import Json, Service
from tests.support.waiting import eventually


async def applied(http: httpx.AsyncClient, path: str, body: Any, headers: dict[str, str]) -> Json:
    """Return the response to a command that must have been applied. A repeat is sent again while the database is too
    slow to find the first outcome: until then it is checked like a new command."""
    post = partial(http.post, path, json=body, headers=headers)
    answer = body_of(await eventually(post, lambda response: response.status_code == 200), dict)
    assert answer["outcome"] == "applied"
    return answer


async def test_repeated_submission_to_store_closed_since(http: httpx.AsyncClient, facade: Facade, product: str) -> None:
    store, key = await facade.open_store(), once()
    body = [submission(product, n, storeId=store, userId=new_id("u"), userName=None) for n in (3, 4)]
    first = await applied(http, REVIEWS, body, key)
    await facade.open_store(store, reviewsEnabled=False)
    assert await applied(http, REVIEWS, body, key) == first
    # Another request with that key, and the same one with another key.
    for other in (body[:1], [body[0], {**body[1], "title": "Another one"}], [*body, submission(product)]):
        send = partial(http.post, REVIEWS, json=other, headers=key)
        problem = problem_of(await resend_until_refused(send, meanwhile=[403]), 422)
        assert problem["type"].endswith("idempotency-key-reused")
    answer = await resend_until_refused(lambda: http.post(REVIEWS, json=body, headers=once()))
    assert errors_of(answer, 403) == [("/0", "reviews-disabled"), ("/1", "reviews-disabled")]
    assert sorted(await facade.listed(entityIds=[product])) == sorted(first["ids"])


@pytest.mark.long
async def test_repeated_submission_with_token_expired_since(
    service: Service, http: httpx.AsyncClient, facade: Facade, product: str
) -> None:
    async with service.mongo() as database:
        token_key = (await ReviewTokenRepository(database).keys())[0]
    store = await facade.open_store(anonymousReviewsAllowed=False, purchaseRequired=True)
    for seconds in (8, 30, 120):
        key, expires = once(), datetime.now(UTC) + timedelta(seconds=seconds)
        token = sign_token(ReviewToken(store, new_id("order"), "1", product, new_id("anna"), expires), token_key)
        body = [submission(product, storeId=store, userId=None, token=token)]
        answer = await retry_until_decided(partial(http.post, REVIEWS, json=body, headers=key))
        if answer.status_code == 200 or datetime.now(UTC) < expires:
            break  # otherwise the token has expired before it was checked
    first = body_of(answer, dict)
    assert first["outcome"] == "applied"
    await asyncio.sleep((expires - datetime.now(UTC)).total_seconds() + 1)
    assert await applied(http, REVIEWS, body, key) == first
    answer = await retry_until_served(partial(http.post, REVIEWS, json=body, headers=once()))
    assert errors_of(answer, 403) == [("/0", "token-expired")]


async def test_repeated_edit_with_image_removed_since(http: httpx.AsyncClient, facade: Facade, product: str) -> None:
    images, key = Images(http), once()
    image = await images.upload()
    (review,) = await facade.submit(submission(product))
    body = [submission(product, id=review, images=[image])]
    first = await applied(http, REVIEWS, body, key)
    await facade.submit(submission(product, id=review, images=[]))
    assert await applied(http, REVIEWS, body, key) == first
    answer = await resend_until_refused(lambda: http.post(REVIEWS, json=body, headers=once()))
    assert errors_of(answer, 403) == [("/0/images", "unknown-image")]
    assert (await facade.review(review))["images"] == []


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("votes", {"userId": "zoe", "helpful": True}),
        ("reports", {"reason": "spam", "explanation": "An advertisement", "email": "b@x.org", "goodFaith": True}),
    ],
)
async def test_repeated_feedback_on_review_reset_since(
    http: httpx.AsyncClient, facade: Facade, product: str, what: str, body: Json
) -> None:
    (review,) = await facade.submit_approved(submission(product))
    path, key = f"{REVIEWS}/{review}/{what}", once()
    first = await applied(http, path, body, key)
    await facade.moderate("reject", review)
    assert await applied(http, path, body, key) == first
    problem_of(await http.post(path, json=body, headers=once()), 404)
    other = {**body, "userId": "bert"} if what == "votes" else {**body, "explanation": "Another one"}
    assert problem_of(await http.post(path, json=other, headers=key), 422)["type"].endswith("idempotency-key-reused")


async def test_repeated_vote_on_review_no_longer_shown(http: httpx.AsyncClient, facade: Facade, product: str) -> None:
    store = await facade.open_store()
    (review,) = await facade.submit_approved(submission(product, storeId=store))
    path, key = f"/storefront/v1/{store}/Product/{product}/votes", once()
    body = {"reviewId": review, "voter": new_id("browser-of-somebody"), "helpful": True}
    first = await applied(http, path, body, key)
    await facade.moderate("reject", review)
    assert await applied(http, path, body, key) == first
    problem_of(await http.post(path, json=body, headers=once()), 404)
    assert (await facade.review(review))["helpful"] == 1
