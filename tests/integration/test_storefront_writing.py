"""Submissions from shop pages: reviews with images, votes and reports, and their refusals."""

import json
import os
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from altcha.v1 import solve_challenge
from PIL import Image

from domain.feedback import visitor_id
from domain.forms import new_stamp
from domain.objects import ObjectKey
from domain.ratings import Entity
from domain.review_tokens import ReviewToken, sign_token
from storage.review_tokens import ReviewTokenRepository
from tests.support.facade import REVIEWS, WAIT, Facade, body_of, errors_of, facade_of, new_id, problem_of, submission
from tests.support.final_responses import final_status, follow_applied
from tests.support.images import opened, picture
from tests.support.retries import retry_until_served
from tests.support.service import Json, Servers, Service, running_service
from tests.support.waiting import eventually

ORIGIN = "https://shop.example"
READ = timedelta(seconds=10)
"""Time that a visitor takes to fill in a form."""

REVIEW: Json = {"rating": 4, "title": "Solid", "review": "It stands in any wind.", "userName": "Ann"}


@dataclass(frozen=True)
class Page:
    """The page of an object in a shop."""

    facade: Facade
    key: bytes
    store: str
    product: str

    @property
    def path(self) -> str:
        return f"/storefront/v1/{self.store}/Product/{self.product}"

    def of(self, product: str) -> "Page":
        return Page(self.facade, self.key, self.store, product)

    def stamp(self, ago: timedelta = READ) -> str:
        """Return the stamp of a form that was opened this long ago."""
        return new_stamp(ObjectKey(Entity("Product", self.product), self.store), datetime.now(UTC) - ago, self.key)

    def token(self, product: str | None = None, days: int = 9) -> str:
        """Return a review token of a customer of the shop."""
        expires = datetime.now(UTC) + timedelta(days=days)
        bought = ReviewToken(self.store, new_id("order"), "1", product or self.product, "anna", expires)
        return sign_token(bought, self.key)

    async def takes(self) -> Json:
        """Return the form's fields about accepted reviews."""
        form = body_of(await self.facade.http.get(f"{self.path}/form"), dict)
        return {name: form[name] for name in ("open", "anonymous")}

    async def send(self, what: str, body: Any, method: str = "POST", **headers: str) -> httpx.Response:
        sent = {"json": body, "headers": {**WAIT, **headers}}
        return await retry_until_served(partial(self.facade.http.request, method, f"{self.path}/{what}", **sent))

    async def write(self, **fields: Any) -> httpx.Response:
        """Send a review like a visitor."""
        return await self.send("reviews", {**REVIEW, "stamp": self.stamp(), "website": "", **fields})

    async def upload(self, content: bytes, **query: str) -> httpx.Response:
        headers = {**WAIT, "Content-Type": "image/png"}
        return await self.facade.http.post(f"{self.path}/images", content=content, params=query, headers=headers)

    async def taken(self, response: httpx.Response) -> Json:
        """Return the answer to an accepted request, once it has taken effect."""
        return await follow_applied(self.facade.http, response)

    async def shown(self) -> list[Json]:
        return list(body_of(await self.facade.http.get(f"{self.path}/reviews"), dict)["results"])

    async def approved(self, **fields: Any) -> str:
        """Submit an approved review of the object; returns its id."""
        (id,) = await self.facade.submit_approved(submission(self.product, storeId=self.store, **fields))
        return id


async def opened_page(service: Service, facade: Facade, product: str, **settings: Any) -> Page:
    """Open a page of an object in a new shop."""
    async with service.mongo() as database:
        keys = await ReviewTokenRepository(database).keys()
    store = await facade.open_store(storefrontOrigins=[ORIGIN], **settings)
    return Page(facade, keys[0], store, product)


@pytest.fixture
async def page(service: Service, facade: Facade, product: str) -> Page:
    return await opened_page(service, facade, product)


def refusal_code(response: httpx.Response) -> str:
    """Return the single error code of a refusal."""
    ((_, code),) = errors_of(response, 403)
    return code


@pytest.mark.long
async def test_approved_review_is_shown_with_its_image(page: Page, service: Service) -> None:
    http = page.facade.http
    response = await http.get(f"{page.path}/form", headers={"origin": ORIGIN})
    form = body_of(response, dict)
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["access-control-allow-origin"] == ORIGIN
    bounds = {
        "leastSeconds": 3,
        "open": True,
        "anonymous": True,
        "mostImages": 5,
        "mostImageBytes": 10 * 1024 * 1024,
        "check": None,
    }
    assert form == {**bounds, "stamp": form["stamp"]}
    # An image may be larger than the bodies of all other requests.
    noise = picture_of_noise(1_400)
    assert len(noise) > 2 * 1024 * 1024
    image = (await page.taken(await page.upload(noise, stamp=form["stamp"])))["id"]
    key = {"Idempotency-Key": new_id("key"), "Origin": ORIGIN}
    body = {**REVIEW, "stamp": page.stamp(), "website": "", "images": [image], "language": "en"}
    response = await page.send("reviews", body, **key)
    (id,) = (await page.taken(response))["ids"]
    assert response.headers["access-control-allow-origin"] == ORIGIN
    assert (await page.taken(await page.send("reviews", body, **key)))["ids"] == [id]
    assert await page.shown() == []
    stored = await page.facade.review(id)
    assert [stored[name] for name in ("source", "userId", "storeId", "verifiedPurchase")] == [
        *("widget", None, page.store, False)
    ]
    await page.facade.moderate("approve", id)
    (review,) = await eventually(page.shown, bool)
    assert (review["title"], review["author"], review["language"]) == ("Solid", "Ann", "en")
    assert [each["id"] for each in review["images"]] == [image]
    file = await http.get(review["images"][0]["small"])
    assert opened(file.content).size == (320, 320)
    assert "127.0.0.1" not in str(await service.find("reviews", id))


async def test_repeat_with_another_stamp_is_the_same_review(page: Page) -> None:
    """The answer was lost, and by the next attempt the form has been renewed."""
    key = {"Idempotency-Key": new_id("key")}
    image = picture()
    ids = set()
    for ago in (READ, 2 * READ):
        headers = {**WAIT, "Content-Type": "image/png", **key}
        upload = partial(page.facade.http.post, f"{page.path}/images", content=image, headers=headers)
        ids.add((await page.taken(await upload(params={"stamp": page.stamp(ago)})))["id"])
    assert len(ids) == 1
    body = {**REVIEW, "images": list(ids)}
    for ago in (READ, 2 * READ):
        sent = await page.send("reviews", {**body, "stamp": page.stamp(ago)}, **key)
        ids |= set((await page.taken(sent))["ids"])
    assert len(ids) == 2
    assert len(await page.facade.listed(entityIds=[page.product])) == 1
    other = await page.send("reviews", {**body, "review": "Another one.", "stamp": page.stamp()}, **key)
    assert problem_of(other, 422)["type"].endswith("idempotency-key-reused")


@pytest.mark.long
async def test_reused_key_with_forgotten_outcome_edits_nothing(
    own_service: Service, own_facade: Facade, product: str
) -> None:
    """Outcomes are kept for a day, while the review id derived from a key stays the same."""
    page = await opened_page(own_service, own_facade, product, editsKeepStatus=True)
    http, text = own_facade.http, str(REVIEW["review"])

    async def by_page(key: str, text_sent: str) -> httpx.Response:
        body = {**REVIEW, "review": text_sent, "stamp": page.stamp()}
        return await page.send("reviews", body, **{"Idempotency-Key": key})

    async def by_facade(user: str | None, key: str, text_sent: str) -> httpx.Response:
        body = submission(product, storeId=page.store, userId=user, review=text_sent)
        return await http.post(REVIEWS, json=[body], headers={**WAIT, "Idempotency-Key": key})

    ways: list[Callable[[str, str], Awaitable[httpx.Response]]]
    ways = [by_page, partial(by_facade, None), partial(by_facade, "anna")]
    sent = [(way, new_id("key")) for way in ways for _ in range(2)]
    first = [await follow_applied(http, await way(key, text)) for way, key in sent]
    ids = [answer["ids"][0] for answer in first]
    assert await own_facade.moderate("approve", *ids) == ["applied"] * len(ids)
    async with own_service.mongo() as database:
        await database.outcomes.delete_many({})
    await own_service.restart("api")  # clears its cache of commands, which lasts ten minutes
    for (way, key), id in zip(sent[::2], ids[::2], strict=True):
        (result,) = await own_facade.results(await way(key, "Buy it elsewhere."))
        assert (result["id"], result["outcome"], result["reason"]) == (id, "refused", "id-taken")
    for (way, key), id in zip(sent[1::2], ids[1::2], strict=True):
        (result,) = (await follow_applied(http, await way(key, text)))["results"]
        assert result == {"id": id, "outcome": "unchanged"}
    assert [each["text"] for each in await page.shown()] == [text] * len(ids)


def picture_of_noise(side: int) -> bytes:
    out = BytesIO()
    Image.frombytes("RGB", (side, side), os.urandom(3 * side * side)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.long
async def test_invalid_forms_are_refused(page: Page, http: httpx.AsyncClient) -> None:
    other = page.of(new_id())
    assert refusal_code(await page.write(stamp=None)) == "stamp-missing"
    assert refusal_code(await page.write(stamp="")) == "stamp-missing"
    assert refusal_code(await page.write(stamp="1.x")) == "stamp-invalid"
    assert refusal_code(await page.write(stamp=other.stamp())) == "stamp-invalid"
    assert refusal_code(await page.write(stamp=page.stamp(-timedelta(hours=1)))) == "too-fast"
    assert refusal_code(await page.write(stamp=page.stamp(timedelta(hours=25)))) == "stamp-expired"
    assert refusal_code(await page.write(website="https://spam.example")) == "website-filled"
    problem = problem_of(await page.write(stamp=None), 403)
    assert "request `form`" in problem["errors"][0]["message"]
    assert problem["errors"][0]["pointer"] == "/stamp"
    # A page can't set the author, or another object, store or id.
    for field in ("userId", "storeId", "EntityId", "id", "source", "incentivized"):
        assert errors_of(await page.write(**{field: "x"})) == [(f"/{field}", "unknown-field")]
    assert "Did you mean userName?" in (await page.write(usrName="x")).text
    assert errors_of(await page.write(rating=6)) == [("/rating", "less-than-equal")]
    for image in (new_id(), "01985c1e-0000-7000-8000-000000000001"):
        assert (await page.write(images=[image])).status_code == (422 if image.startswith("camera") else 403)
    assert await page.facade.listed(entityIds=[page.product]) == []
    counted = (await http.get("/metrics")).text
    assert 'plaudit_submissions_total{outcome="website-filled"}' in counted


@pytest.mark.parametrize(
    "headers",
    [
        *({"origin": "https://x.example"}, {"origin": "null"}, {"origin": "http://["}, {"origin": ORIGIN + ":8443"}),
        {"sec-fetch-site": "cross-site"},
    ],
)
async def test_pages_of_other_origins_are_refused(page: Page, headers: dict[str, str]) -> None:
    review = {**REVIEW, "stamp": page.stamp()}
    vote = {"reviewId": new_id("review"), "helpful": True, "voter": "v" * 32}
    for what, body in (("reviews", review), ("votes", vote), ("reports", {"reviewId": "r"}), ("images", {})):
        problem = problem_of(await page.send(what, body, **headers), 403)
        assert "storefrontOrigins" in problem["detail"], what


async def test_own_pages_may_write(page: Page) -> None:
    host = str(page.facade.http.base_url)
    own = {"origin": host.rstrip("/"), "sec-fetch-site": "same-origin"}
    await page.taken(await page.send("reviews", {**REVIEW, "stamp": page.stamp()}, **own))


@pytest.mark.long
async def test_store_rules_and_review_tokens(service: Service, facade: Facade, product: str) -> None:
    strict = {"anonymousReviewsAllowed": False, "purchaseRequired": True}
    page = await opened_page(service, facade, product, **strict)
    assert await page.takes() == {"open": True, "anonymous": False}
    refused = problem_of(await page.write(), 403)
    assert [(each["pointer"], each["code"]) for each in refused["errors"]] == [("", "anonymous-not-allowed")]
    assert "`token`" in refused["detail"]  # a page has no other way to name the author
    token = page.token()
    assert refusal_code(await page.write(token=token[:-2] + "xx")) == "token-invalid"
    assert refusal_code(await page.write(token=page.token(days=-1))) == "token-expired"
    assert refusal_code(await page.write(token=page.token(product="tripod"))) == "token-mismatch"
    elsewhere = await opened_page(service, facade, product)
    assert refusal_code(await elsewhere.write(token=token)) == "token-mismatch"
    (id,) = (await page.taken(await page.write(token=token)))["ids"]
    stored = await facade.review(id)
    assert [stored[name] for name in ("source", "userId", "verifiedPurchase")] == ["reminder", "anna", True]
    assert refusal_code(await page.write(token=token)) == "token-used"
    problem_of(await page.of(new_id()).write(token=token), 403)
    closed = await opened_page(service, facade, product, reviewsEnabled=False)
    assert await closed.takes() == {"open": False, "anonymous": False}
    assert refusal_code(await closed.write()) == "reviews-disabled"


@pytest.mark.long
async def test_votes_of_a_browser_can_be_exported_and_erased(page: Page, service: Service) -> None:
    id, browser = await page.approved(), new_id("browser-of-somebody")

    async def vote(helpful: bool | None, voter: str = browser) -> httpx.Response:
        vote_body = {"reviewId": id, "voter": voter}
        if helpful is None:
            return await page.send("votes", vote_body, method="DELETE")
        return await page.send("votes", {**vote_body, "helpful": helpful})

    for helpful in (True, True, None, False):
        await page.taken(await vote(helpful))
    for withdrawn in (True, None, None):
        await page.taken(await vote(withdrawn, f"{browser} who thinks better of it"))
    await page.taken(await vote(True, new_id("browser-of-another")))
    stored = await page.facade.review(id)
    assert (stored["helpful"], stored["notHelpful"]) == (1, 1)
    missing = await page.send("votes", {"reviewId": id, "voter": browser})
    assert errors_of(missing) == [("/helpful", "missing")]
    assert errors_of(await vote(True, "short")) == [("/voter", "string-too-short")]
    person = visitor_id(page.store, browser)
    exported = json.loads((await service.run("privacy", "export", "--customer", person)).stdout)
    assert [each["reviewId"] for each in exported["votes"]] == [id]
    assert browser not in str(exported)
    await service.run("privacy", "erase", "--customer", person, "--yes")
    after = await page.facade.review(id)
    assert (after["helpful"], after["notHelpful"]) == (1, 0)


@pytest.mark.long
async def test_votes_per_address_are_limited(page: Page) -> None:
    id = await page.approved()

    async def vote(number: int) -> httpx.Response:
        return await page.send("votes", {"reviewId": id, "helpful": True, "voter": f"browser-{number:020}"})

    for number in range(10):
        await page.taken(await vote(number))
    response = await vote(10)
    assert "10 votes an hour" in problem_of(response, 429)["detail"]
    assert 0 < int(response.headers["retry-after"]) <= 360
    assert (await page.facade.review(id))["helpful"] == 10


@pytest.mark.long
async def test_votes_and_reports_need_a_review_of_the_page(page: Page) -> None:
    elsewhere = await page.facade.open_store()
    (new,) = await page.facade.submit(submission(page.product, storeId=page.store))
    (foreign,) = await page.facade.submit_approved(submission(page.product, storeId=elsewhere))
    other = await page.of(new_id()).approved()
    for id in (new, foreign, other, new_id("review")):
        vote = {"reviewId": id, "helpful": True, "voter": "v" * 32}
        report = {"reviewId": id, "reason": "spam", "explanation": "An advertisement", "goodFaith": True}
        for refused in (await page.send("votes", vote), await page.send("reports", report)):
            assert problem_of(refused, 404)["detail"] == "There is no approved review of this object with this id."
    assert errors_of(
        await page.send("votes", {"reviewId": new, "helpful": True, "voter": "v" * 32, "userId": "u"})
    ) == [("/userId", "unknown-field")]


async def test_report_reaches_moderators(page: Page) -> None:
    id = await page.approved()
    report = {"reviewId": id, "reason": "personal-data", "explanation": "My street", "email": "b@example.org"}
    assert errors_of(await page.send("reports", report)) == [("/goodFaith", "missing")]
    await page.taken(await page.send("reports", {**report, "goodFaith": True}, Origin=ORIGIN))
    (listed,) = (await page.facade.get(f"{REVIEWS}/{id}/reports"))["results"]
    assert (listed["reason"], listed["email"], listed["userId"]) == ("personal-data", "b@example.org", None)
    http, again = page.facade.http, partial(page.send, "reports", {**report, "goodFaith": True})
    statuses = [await final_status(http, await again()) for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 429]


async def test_invalid_uploads_are_refused(page: Page) -> None:
    image = picture()
    assert refusal_code(await page.upload(image)) == "stamp-missing"
    assert refusal_code(await page.upload(image, stamp=page.of("other").stamp())) == "stamp-invalid"
    assert refusal_code(await page.upload(image, stamp=page.stamp(timedelta(hours=25)))) == "stamp-expired"
    problem_of(await page.upload(b"GIF89a", stamp=page.stamp()), 415)
    problem_of(await page.upload(b"\x89PNG\r\n\x1a\n" + bytes(10 * 1024 * 1024), stamp=page.stamp()), 413)
    assert errors_of(await page.upload(image, stamp=page.stamp(), userId="anna")) == [("/userId", "unknown-parameter")]
    await page.taken(await page.upload(image, stamp=page.stamp(timedelta(0))))


@pytest.mark.long
async def test_service_with_challenge_and_custom_rates(servers: Servers, tmp_path: Path, product: str) -> None:
    settings = {"PLAUDIT_STOREFRONT__CHECK": "true", "PLAUDIT_STOREFRONT__REVIEWS_PER_HOUR": "2"}
    async with running_service(servers, tmp_path, **settings) as service, facade_of(service) as facade:
        page = await opened_page(service, facade, product)
        assert refusal_code(await page.write()) == "check-missing"
        assert refusal_code(await page.write(check="e30=")) == "check-failed"
        solution = await solve(page)
        assert refusal_code(await page.of(new_id()).write(check=solution)) == "check-failed"
        for _ in range(2):
            await page.taken(await page.write(check=solution))
        problem = problem_of(await page.write(check=solution), 429)
        assert "2 reviews an hour" in problem["detail"]
        other = page.of(new_id())
        await page.taken(await other.write(check=await solve(other)))
        assert await eventually(partial(facade.listed, entityIds=[page.product]), lambda ids: len(ids) == 2)


async def solve(page: Page) -> str:
    """Solve a challenge; returns the solution as a browser sends it."""
    check = body_of(await page.facade.http.get(f"{page.path}/form"), dict)["check"]
    found = solve_challenge(check["challenge"], check["salt"], check["algorithm"], check["maxnumber"])
    assert found is not None
    return b64encode(json.dumps({**check, "number": found.number}).encode()).decode()
