"""Attacks on an HTTP API: database operators, unusual paths, malformed and oversized requests."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, errors_of, new_id, problem_of, submission
from tests.support.service import Json, Service
from tests.support.sockets import connection

LIST = f"POST {REVIEWS}/reviewList HTTP/1.1\r\nHost: localhost\r\n"
GET = "GET /api/settings HTTP/1.1\r\nHost: localhost\r\n\r\n"
OPERATORS: tuple[Json, ...] = ({"$ne": None}, {"$gt": ""}, {"$where": "sleep(60000)"}, {"$regex": ".*"})


def _fields(schema: Json, schemas: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every value that a body can hold, including the body itself."""
    yield path
    for option in (schema, *schema.get("anyOf", ()), *schema.get("allOf", ())):
        if "$ref" in option:
            found = schemas[option["$ref"].rpartition("/")[2]]
            yield from (place for place in _fields(found, schemas, path) if place != path)
        for name, part in option.get("properties", {}).items():
            yield from _fields(part, schemas, (*path, name))
        if isinstance(option.get("items"), dict):
            yield from _fields(option["items"], schemas, (*path, 0))


def _with(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return a body that holds only this value, at this path."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


async def _operations(facade: Facade) -> list[tuple[str, str, bool, set[tuple[str | int, ...]]]]:
    """Return the method and path of each operation, whether it has a body, and the paths in that body.

    The paths name an unknown store, or one that accepts reviews from its visitors.
    """
    document = (await facade.http.get("/openapi.json")).json()
    open_store = f"/storefront/v1/{await facade.open_store()}"
    found = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            target = path.replace("/storefront/v1/{storeId}", open_store)
            target = target.replace("{name}", "OrderReviewRequest").replace("{storeId}", "nobody-s")
            places = set(_fields(content["schema"], document["components"]["schemas"])) if content else set()
            found.append((method, target, "requestBody" in operation, places))
    return found


@pytest.mark.long
async def test_database_operators_are_refused_in_every_field(
    service: Service, facade: Facade, http: httpx.AsyncClient
) -> None:
    requests = 0
    for method, path, _, places in await _operations(facade):
        # Objects tolerate unknown fields, so only leaves and lists are tried.
        objects = {longer[:end] for longer in places for end, step in enumerate(longer) if isinstance(step, str)}
        for place in places - objects:
            for operator in OPERATORS:
                response = await http.request(method, path, json=_with(operator, place))
                expected = 400 if response.status_code == 400 else 422
                assert problem_of(response, expected), f"{method} {path} {place} {operator}"
                requests += 1
    assert requests > 200
    async with service.mongo() as database:
        assert await database["stores"].find_one({"_id": "nobody-s"}) is None


@pytest.mark.long
async def test_lone_surrogates_are_refused_in_every_field(facade: Facade, http: httpx.AsyncClient) -> None:
    requests = 0
    for method, path, _, places in await _operations(facade):
        for place in places:
            for value in ("\ud800", "a\udfff", {"\udbff": "a"}, ["\ud800"]):
                response = await http.request(method, path, content=json.dumps(_with(value, place)))
                assert response.status_code == 400, f"{method} {path} {place} {value!a}: {response.text}"
                requests += 1
        # Paths, queries and headers hold the raw bytes, since they have no escapes for surrogates.
        raw = path.replace("nobody-s", "%ED%A0%80").replace("{", "%ED%A0%80").replace("}", "")
        query = "?storeId=%ED%A0%80&reviewId=%ED%A0%80&after=%ED%A0%80&reason=%ED%A0%80&ids=%ED%A0%80"
        for target in (raw, path, path + query):
            headers = {b"Prefer": b"wait=\xed\xa0\x80", b"Idempotency-Key": b"\xed\xa0\x80"}
            response = await http.request(method, target, content=b'"\xed\xa0\x80"', headers=headers)
            assert response.status_code < 500, f"{method} {target}: {response.text}"
            requests += 1
    assert requests > 200


@pytest.mark.long
@pytest.mark.parametrize(
    "text", ['{"$ne": null}', "$where", "{$gt: ''}", ".*", "(a+)+$", "\\", "a[", "'; return true; //"]
)
async def test_operators_in_text_are_taken_literally(facade: Facade, text: str, product: str) -> None:
    ids = await facade.submit(submission(product), submission(product, title=f"Called {text} by all", userId=text))
    assert await facade.listed(entityIds=[product], searchPhrase=text) == ids[1:]
    assert await facade.listed(entityIds=[product], userId=text) == ids[1:]
    for field in ("storeId", "entityType"):
        assert await facade.listed(entityIds=[product], **{field: text}) == []
    for query in ({"storeId": text}, {"subject": text}):
        assert (await facade.http.get("/api/audit", params={**query, "reviewId": text})).json()["totalCount"] == 0
    for name in ("storeId[$ne]", "subject[$ne]", text):
        response = await facade.http.get("/api/audit", params={name: "", "reviewId": text})
        assert [code for _, code in errors_of(response)] == ["unknown-parameter"]
    assert (await facade.http.get(f"{REVIEWS}/{text}".replace("/;", "/%3b"))).status_code in (404, 422)


@pytest.mark.parametrize(
    "path",
    [
        "/api/customerReviews/../settings",
        "/api/customerReviews/%2e%2e/settings",
        "/api/customerReviews/..%2fsettings",
        "//api/settings",
        "/api//settings",
        "/api/./settings",
        "/api/settings/",
        "/api/settings/.",
        "/api/settings;a=b",
        "/api/settings%00",
        "/api/settings%20",
        "/API/settings",
        "/api/Settings",
        "\\api\\settings",
        "/api/%73ettings%2f",
        "http://other.test/api/settings/",
        "/docs/../api/settings",
        "/health/live/../../api/settings",
        "*",
    ],
)
async def test_path_variants_do_not_reach_the_route(service: Service, path: str) -> None:
    for method in ("PUT", "GET"):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"
        status, body = await _raw(service, head + "{}")
        assert status in (400, 404, 405, 422), f"{method} {path}: {status} {body!r}"
        assert b"ratingCalculationMethod" not in body


@pytest.mark.parametrize(
    "request_text",
    [
        pytest.param(LIST + "Content-Length: 2\r\nContent-Length: 20\r\n\r\n{}", id="two lengths"),
        pytest.param(LIST + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GET, id="both"),
        pytest.param(LIST + "Content-Length: -1\r\n\r\n{}", id="negative length"),
        pytest.param(LIST + "Content-Length : 2\r\n\r\n{}", id="space before the colon"),
        pytest.param(LIST + "Transfer-Encoding: xchunked\r\n\r\n{}", id="unknown encoding"),
        pytest.param(GET.replace("\r\n\r\n", "\r\n folded: b\r\n\r\n"), id="folded header"),
        pytest.param(GET.replace("\r\n\r\n", "\r\nbad name: b\r\n\r\n"), id="space in a name"),
        pytest.param(GET.replace("HTTP/1.1", "HTTP/9.9"), id="unknown version"),
    ],
)
async def test_ambiguous_requests_are_refused(service: Service, request_text: str) -> None:
    status, body = await _raw(service, request_text)
    assert status == (501 if "xchunked" in request_text else 400)
    assert b"ratingCalculationMethod" not in body


async def _raw(service: Service, text: str) -> tuple[int, bytes]:
    async with connection(service.port) as client:
        return await client.ask(text.encode())


async def test_dns_rebinding_is_refused(service: Service, http: httpx.AsyncClient) -> None:
    own = f"127.0.0.1:{service.port}"
    for host, status in (("evil.example", 421), (f"evil.example:{service.port}", 421), ("localhost", 202), (own, 202)):
        headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
        response = await http.put(f"/api/stores/{new_id('rebound')}", json={"name": "Taken"}, headers=headers)
        assert response.status_code == status, response.text
        assert (await http.get("/api/stores", headers=headers)).status_code == (421 if status == 421 else 200)


@pytest.mark.long
async def test_oversized_input_is_refused(facade: Facade, http: httpx.AsyncClient) -> None:
    large = b'[{"review": "' + b"a" * 1_100_000 + b'"}]'
    tried = 0
    for method, path, has_body, _ in await _operations(facade):
        if has_body:
            is_image = path.endswith("/images")
            sent, headers = (large * 10, {"Content-Type": "image/jpeg"}) if is_image else (large, {})
            answer = await http.request(method, path, content=sent, headers=headers)
            # A storefront upload without a form stamp is refused before the image is read.
            expected = 403 if is_image and path.startswith("/storefront/") else 413
            assert answer.status_code == expected, f"{method} {path}"
            tried += 1
    assert tried > 20
    many = [new_id() for _ in range(1_001)]
    for path, body in (
        (REVIEWS, [submission(id) for id in many]),
        (f"{REVIEWS}/approve", many),
        (f"{REVIEWS}/reviewList", {"entityIds": many}),
        ("/api/rating/entityRating", {"entityIds": many, "entityType": "Product"}),
        ("/api/return/search", {"objectIds": many}),
        ("/api/return", {"orderId": "a", "lineItems": [{"orderLineItemId": id, "quantity": 1} for id in many]}),
        (f"{REVIEWS}/reviewList", {"take": 1_001}),
        (f"{REVIEWS}/reviewList", {"skip": 2**31}),
        (f"{REVIEWS}/reviewList", {"searchPhrase": "a" * 1_025}),
        (f"{REVIEWS}/reviewList", {"sort": ";".join(["rating"] * 500)}),
    ):
        assert (await http.post(path, json=body)).status_code in (413, 422), f"{path} {json.dumps(body)[:80]}"
    for query in ("take=1001", "skip=-1", f"skip={2**31}", "take=a", f"reviewId={'a' * 129}", "action=everything"):
        assert (await http.get(f"/api/audit?{query}")).status_code == 422, query
