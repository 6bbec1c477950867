"""Commands: their answers, repetition and refusal; and robustness of the API against any input."""

import asyncio
import json
import uuid
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, body_of, errors_of, new_id, once, problem_of, submission
from tests.support.retries import retry_until_decided, retry_until_served
from tests.support.service import Json, Service
from tests.support.sockets import connection, post_request
from tests.support.waiting import eventually


async def test_commands_are_accepted(http: httpx.AsyncClient) -> None:
    response = await http.post(REVIEWS, json=[submission(new_id()), submission(new_id())])
    answer = body_of(response, dict, 202)
    assert list(answer) == ["commandId", "ids", "outcome"]
    assert answer["outcome"] == "accepted"
    assert len({uuid.UUID(id) for id in [answer["commandId"], *answer["ids"]]}) == 3
    assert "preference-applied" not in response.headers
    ids = [new_id("review"), new_id("review")]
    for action in ("/approve", "/reject", "/reset", ""):
        body = ids if action else {"ids": ids}
        answer = body_of(await http.request("POST" if action else "DELETE", REVIEWS + action, json=body), dict, 202)
        assert (answer["ids"], answer["outcome"]) == (ids, "accepted")


@pytest.mark.long
async def test_wait_until_applied(http: httpx.AsyncClient, facade: Facade) -> None:
    product, unknown, key = new_id(), new_id("review"), {"Idempotency-Key": new_id("key")}
    waiting = {**key, "Prefer": "respond-async, wait=20"}
    response = await retry_until_decided(partial(http.post, REVIEWS, json=[submission(product, 3)], headers=waiting))
    assert response.headers["preference-applied"] == "wait=20"
    answer = body_of(response, dict)
    (id,) = answer["ids"]
    assert answer["outcome"] == "applied"
    assert answer["results"] == [{"id": id, "outcome": "applied"}]
    assert await facade.listed(entityIds=[product]) == [id]

    waiting = {**key, "Prefer": "wait=5"}
    approved = await retry_until_decided(
        partial(http.post, f"{REVIEWS}/approve", json=[id, unknown, id], headers=waiting)
    )
    assert approved.headers["preference-applied"] == "wait=5"
    answer = body_of(approved, dict)
    assert answer["outcome"] == "partial"
    assert answer["ids"] == [id, unknown]
    assert answer["results"] == [{"id": id, "outcome": "applied"}, {"id": unknown, "outcome": "not-found"}]
    assert await facade.rating(product) == (3.0, 1)
    assert await facade.moderate("approve", id) == ["unchanged"]


@pytest.mark.long
async def test_command_is_parked_until_submission_arrives(facade: Facade, product: str) -> None:
    id = new_id("review")
    await facade.approve_early(id)
    await facade.submit(submission(product, 2, id=id))
    await facade.until_rated(product, 2.0, 1)


@pytest.mark.parametrize("prefer", ["wait=0", "wait=soon", "wait=-1", "wait", "return=minimal", 'wait="', ";,;=,,"])
async def test_useless_preferences_are_ignored(http: httpx.AsyncClient, prefer: str) -> None:
    response = await http.post(f"{REVIEWS}/approve", json=[new_id("review")], headers={"Prefer": prefer})
    assert response.status_code == 202
    assert "preference-applied" not in response.headers


async def test_same_key_gives_same_ids(http: httpx.AsyncClient, facade: Facade) -> None:
    product, key = new_id(), {"Idempotency-Key": new_id("key")}
    body = [submission(product, 2), submission(product, 2)]
    answers = await asyncio.gather(*(http.post(REVIEWS, json=body, headers=key) for _ in range(5)))
    first, *others = [body_of(answer, dict, 202) for answer in answers]
    assert others == [first] * 4
    waited = await facade.command("POST", REVIEWS, body, key)
    assert waited == [{"id": id, "outcome": "applied"} for id in first["ids"]]
    assert sorted(await facade.listed(entityIds=[product])) == sorted(first["ids"])
    other = await http.post(REVIEWS, json=body, headers={"Idempotency-Key": new_id("key")})
    assert not set(other.json()["ids"]) & set(first["ids"])


async def test_repeated_approval_after_rejection_changes_nothing(http: httpx.AsyncClient, facade: Facade) -> None:
    product, key = new_id(), once()
    (id,) = await facade.submit(submission(product))
    approve = partial(http.post, f"{REVIEWS}/approve", json=[id], headers=key)
    first = await retry_until_decided(approve)
    assert first.json()["results"] == [{"id": id, "outcome": "applied"}]
    assert await facade.moderate("reject", id) == ["applied"]
    assert (await retry_until_decided(approve)).json() == first.json()
    assert await facade.moderate("reject", id) == ["unchanged"]
    assert await facade.ratings(product) == []
    assert await facade.listed("reviewStatus", entityIds=[product]) == ["Rejected"]
    # A key is scoped to one endpoint: used at another one it makes another command.
    reset = await retry_until_decided(partial(http.post, f"{REVIEWS}/reset", json=[id], headers=key))
    assert reset.json()["results"] == [{"id": id, "outcome": "applied"}]
    assert reset.json()["commandId"] != first.json()["commandId"]


async def test_submissions_are_all_or_nothing(http: httpx.AsyncClient, facade: Facade, product: str) -> None:
    good, missing = submission(product), submission(product)
    del missing["review"]
    response = await http.post(REVIEWS, json=[good, submission(product, 9), missing, submission("", title=["x"])])
    errors = problem_of(response, 422)["errors"]
    assert [error["pointer"] for error in errors] == ["/1/rating", "/2/review", "/3/EntityId", "/3/title"]
    assert all(set(error) == {"pointer", "code", "message"} for error in errors)
    # A review published before the next submission would be listed by then.
    await facade.submit(submission(product, title="the only one"))
    assert await facade.listed("title", entityIds=[product]) == ["the only one"]


OUT_OF_BOUNDS: dict[str, list[Any]] = {
    "EntityId": [None, "x" * 129, "  "],
    "EntityType": [5, "x" * 129],
    "EntityName": ["x" * 1_025],
    "title": ["x" * 1_025],
    "userName": ["x" * 129],
    "userId": [{"$ne": None}],
    "storeId": [["a"], "x" * 129],
    "review": ["", " \n\t", "x" * 20_001, None],
    "rating": [0, 0.99, 5.01, 3.333, "5", True, None, {"$gt": 0}, 10**400],
    "id": [7, "x" * 129],
}


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field, values in OUT_OF_BOUNDS.items() for value in values],
    ids=lambda each: repr(each)[:24],
)
async def test_submissions_out_of_bounds_are_refused(http: httpx.AsyncClient, field: str, value: Any) -> None:
    response = await http.post(REVIEWS, json=[{**submission("camera"), field: value}])
    (error,) = problem_of(response, 422)["errors"]
    assert error["pointer"] == f"/0/{field}"


async def test_submissions_at_their_bounds_are_accepted(facade: Facade) -> None:
    product = new_id().ljust(128, "é")
    largest: Json = {
        "userName": "é" * 128,
        "EntityType": "T" * 128,
        "EntityName": "é" * 1_024,
        "title": "é" * 1_024,
        "review": "é" * 20_000,
        "id": new_id("review").ljust(128, "é"),
    }
    await facade.submit(submission(product, 1, **largest), submission(product, 5, review="\u00a0.\n"))
    rows = (await facade.page(entityIds=[product], sort="rating"))["results"]
    assert [row["rating"] for row in rows] == [1, 5]
    assert rows[0] | {"review": largest["review"], "title": largest["title"]} == rows[0]
    many = await facade.submit(*(submission(product, EntityType="Many") for _ in range(1_000)))
    assert len(set(many)) == 1_000


async def test_too_many_items_are_refused(http: httpx.AsyncClient) -> None:
    ids = [f"{n}" for n in range(1_001)]
    problem_of(await http.request("DELETE", REVIEWS, json={"ids": ids}), 422)
    problem_of(await http.request("DELETE", REVIEWS, json={"ids": ids[:600]}, params={"ids": ids[:600]}), 422)


async def test_store_refuses_each_review_with_its_code(http: httpx.AsyncClient, facade: Facade, product: str) -> None:
    closed = await facade.open_store(reviewsEnabled=False)
    named = await facade.open_store(anonymousReviewsAllowed=False)
    buyers = await facade.open_store(purchaseRequired=True)
    stores = [None, closed, named, named, new_id("store"), buyers]
    reviews = [submission(product, storeId=store) for store in stores]
    reviews[2]["userId"] = ""
    assert errors_of(await retry_until_served(partial(http.post, REVIEWS, json=reviews)), 403) == [
        ("/1", "reviews-disabled"),
        ("/2", "anonymous-not-allowed"),
        ("/4", "unknown-store"),
        ("/5", "purchase-required"),
    ]
    await facade.submit(submission(product, title="the only one"))
    assert await facade.listed("title", entityIds=[product]) == ["the only one"]


async def test_other_problems(service: Service, http: httpx.AsyncClient) -> None:
    problem_of(await http.post(f"{REVIEWS}/reviewList", json={"sort": "password:desc"}), 400)
    problem_of(await http.post(f"{REVIEWS}/reviewList", json={"sort": "rating:sideways"}), 400)
    problem_of(await http.get("/api/nothing/here"), 404)
    problem_of(await http.get(f"{REVIEWS}/{new_id()}"), 404)
    not_allowed = await http.put(f"{REVIEWS}/approve", json=["a"])
    problem_of(not_allowed, 405)
    assert "POST" in not_allowed.headers["allow"]
    assert {*(await http.get(REVIEWS)).headers["allow"].split(", ")} == {"POST", "DELETE"}
    problem_of(await http.post(REVIEWS, content=b'["' + b"x" * 1024 * 1024 + b'"]'), 413)

    async def endless() -> Any:
        for _ in range(40):
            yield b" " * 32 * 1024

    problem_of(await http.post(REVIEWS, content=endless()), 413)
    async with connection(service.port) as client:
        # A client that announces the close and keeps sending before it reads.
        await client.send(post_request(REVIEWS, b"[", length=5_000_000).replace(b"Host", b"Connection: close\r\nHost"))
        for _ in range(50):
            await client.send(b" " * 100_000)
            await asyncio.sleep(0.01)
        assert (await client.answer())[0] == 413
    xml = {"Content-Type": "application/xml"}
    problem_of(await http.post(REVIEWS, content=b"<a/>", headers=xml), 415)
    problem_of(await http.request("DELETE", REVIEWS, content=b"ids=a", headers=xml), 415)


async def test_names_like_operators_are_taken_literally(facade: Facade) -> None:
    store, product = f"$store.{new_id()}", f"$where.{new_id()}"
    await facade.open_store(store)
    await facade.submit_approved(submission(product, 3, storeId=store, userName="$user", review="$$NOW $title"))
    (row,) = (await facade.page(entityIds=[product], searchPhrase="$$now $"))["results"]
    assert (row["review"], row["userName"], row["storeName"]) == ("$$NOW $title", "$user", store)
    assert await facade.rating(product) == (3.0, 1)
    own = f"$ref.{new_id()}"
    await facade.submit(submission(product, id=own))
    assert await facade.moderate("delete", own) == ["applied"]
    assert (await facade.get(f"/api/stores/{store}"))["id"] == store


HOSTILE: list[bytes] = [
    b'"\\u0000"',
    b'"a\\u0000b"',
    b'"\\ud800"',
    b'"\\udfff\\ud800"',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"-1e400",
    b"1" * 5_000,
    b"-0",
    b"9223372036854775808",
    b"1e-400",
    b"[" * 10_000 + b"]" * 10_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"__proto__": {"x": 1}}',
    b'"' + b"x" * 100_000 + b'"',
]


@pytest.mark.long
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:16].decode(errors="replace"))
async def test_hostile_values_cause_no_server_error(http: httpx.AsyncClient, value: bytes) -> None:
    review = json.dumps(submission("camera")).encode()
    listed = ("reviewStatus", "entityType", "searchPhrase", "startDate", "startRating", "endRating", "sort", "take")
    requests = [
        *(("POST", f"{REVIEWS}{action}", b"[%b]" % value) for action in ("", "/approve")),
        ("DELETE", REVIEWS, b'{"ids":[%b]}' % value),
        *(
            ("POST", REVIEWS, b'[%b,"%b":%b}]' % (review[:-1], field, value))
            for field in (b"rating", b"EntityId", b"storeId", b"review", b"id")
        ),
        *(("POST", f"{REVIEWS}/reviewList", b'{"%b":%b}' % (field.encode(), value)) for field in (*listed, "skip")),
        ("POST", "/api/rating/entityRating", b'{"entityType":"Product","entityIds":[%b]}' % value),
        ("POST", f"{REVIEWS}/changes", b'{"modifiedDate":%b}' % value),
        ("PUT", "/api/settings", b'{"ratingCalculationMethod":%b}' % value),
        ("PUT", f"/api/stores/{new_id('store')}", b'{"name":%b}' % value),
    ]
    answers = await asyncio.gather(*(http.request(m, path, content=body) for m, path, body in requests))
    for (method, path, body), answer in zip(requests, answers, strict=True):
        assert answer.status_code < 500, (method, path, body[:200], answer.text)
        if answer.status_code >= 400:
            problem_of(answer, answer.status_code)


@pytest.mark.parametrize(
    "path",
    [
        f"{REVIEWS}/%00",
        f"{REVIEWS}/%ED%A0%80",
        f"{REVIEWS}/%FF",
        f"{REVIEWS}/{'x' * 5_000}",
        f"{REVIEWS}/..%2f..%2fetc%2fpasswd",
        f"{REVIEWS}//",
        "/api/stores/%00",
        "/api/stores/$where",
        f"{REVIEWS}/canLeaveFeedback?storeId=%00&entityType=%00&entityId=%FF",
        f"{REVIEWS}/canLeaveFeedback",
        f"{REVIEWS}/canLeaveFeedback?storeId[$ne]=&entityType=a&entityId=b",
        "/%",
        "/api/%2e%2e/%zz",
    ],
)
async def test_hostile_paths_cause_no_server_error(service: Service, path: str) -> None:
    async with connection(service.port) as client:
        status, answer = await client.ask(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("latin-1"))
    assert status < 500, answer


async def test_health_and_documents(http: httpx.AsyncClient) -> None:
    assert (await http.get("/health/live")).json()["status"] == "pass"
    # Each server may take two seconds to answer.
    ready = partial(http.get, "/health/ready")
    await eventually(ready, lambda response: response.json().get("checks") == {"mongodb": "pass", "kafka": "pass"})
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert {REVIEWS, f"{REVIEWS}/reviewList", "/api/rating/entityRating"} <= set(paths)
    assert (await http.get("/docs")).status_code == 200
    head = await http.head("/health/live")
    assert (head.status_code, head.content) == (200, b"")
