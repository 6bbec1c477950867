"""Responses of the facade that need neither Kafka nor MongoDB."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from api.web.process_limits import Limits
from domain.permissions import ALL_PERMISSIONS
from tests.support.app import REVIEW, app_without_servers, client_of, client_without_servers, problem_of


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client_without_servers(limits=Limits(max_body_bytes=10_000)) as http:
        yield http


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/api/customerReviews/", "/api/customerReviews/approve/", "/api/stores/", "/%00%c3%bf"]
)
async def test_unknown_paths_return_404(http: httpx.AsyncClient, path: str) -> None:
    problem_of(await http.post(path, json=[]), 404)


async def test_unsupported_method_returns_allowed_methods(http: httpx.AsyncClient) -> None:
    response = await http.options("/api/customerReviews")
    problem_of(response, 405)
    assert response.headers["allow"] == "DELETE, POST"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    "path", ["customerReviews/reviewList", "customerReviews/approve", "orders/search", "return/search", "return/counts"]
)
async def test_fixed_path_is_not_taken_for_an_id(http: httpx.AsyncClient, method: str, path: str) -> None:
    response = await http.request(method, f"/api/{path}")
    assert "POST" in problem_of(response, 405)["detail"]
    assert response.headers["allow"] == "POST"


async def test_compressed_bodies_are_refused(http: httpx.AsyncClient) -> None:
    for coding in ("gzip", "br", "utf8"):
        response = await http.post("/api/customerReviews", json=[{}], headers={"Content-Encoding": coding})
        assert "uncompressed" in problem_of(response, 415)["detail"]
        assert response.headers["accept-encoding"] == "identity"
    for coding in ("identity", "Identity", ""):
        problem_of(await http.post("/api/customerReviews", json=[{}], headers={"Content-Encoding": coding}), 422)


async def test_head_is_answered_like_get(http: httpx.AsyncClient) -> None:
    assert (await http.head("/health/live")).status_code == 200


async def test_large_body_is_refused_by_content_length(http: httpx.AsyncClient) -> None:
    problem_of(await http.post("/api/customerReviews", content=b" " * 10_001), 413)


async def test_large_chunked_body_is_refused(http: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * 1_000

    problem_of(await http.post("/api/customerReviews", content=pieces()), 413)


async def test_errors_are_listed_up_to_a_limit(http: httpx.AsyncClient) -> None:
    problem = problem_of(await http.post("/api/customerReviews", json=[{}] * 1_000), 422)
    assert len(problem["errors"]) == 100
    assert "4000" in problem["detail"]
    assert problem["errors"][0] == {"pointer": "/0/EntityId", "code": "missing", "message": "Field required"}


async def test_errors_do_not_repeat_the_input(http: httpx.AsyncClient) -> None:
    response = await http.post("/api/customerReviews", json=[{**REVIEW, "rating": "secret", "userName": ["secret"]}])
    problem_of(response, 422)
    assert "secret" not in response.text


async def test_duplicate_review_id_is_refused(http: httpx.AsyncClient) -> None:
    response = await http.post("/api/customerReviews", json=[{**REVIEW, "id": "a"}, {**REVIEW, "id": "a"}])
    errors = problem_of(response, 422)["errors"]
    assert [(error["pointer"], error["code"]) for error in errors] == [("/1/id", "duplicate-id")]


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [("", b"", 422), ("", b"{}", 422), ("?ids=", b"", 422), ("?ids=a", b"{", 400), ("?ids=a", b'{"ids":[1]}', 422)],
)
async def test_invalid_deletions_are_refused(http: httpx.AsyncClient, query: str, body: bytes, status: int) -> None:
    problem_of(await http.request("DELETE", f"/api/customerReviews{query}", content=body), status)


async def test_query_parameters_are_validated(http: httpx.AsyncClient) -> None:
    problem = problem_of(await http.get("/api/customerReviews/canLeaveFeedback?entityId=%00"), 422)
    assert {error["pointer"] for error in problem["errors"]} == {"/entityType", "/entityId"}


async def test_query_that_contradicts_the_body_is_named(http: httpx.AsyncClient) -> None:
    response = await http.request("DELETE", "/api/customerReviews/r/votes?userId=a", json={"userId": "b"})
    (error,) = problem_of(response, 422)["errors"]
    assert error["message"] == "The body has this with a different value: send only one of them"


@pytest.mark.parametrize(
    ("since", "is_explained"), [("2026-01-01T00:00:00+02:00", True), ("2026-01-01T00:00%200200", True), ("soon", False)]
)
async def test_plus_sign_that_became_a_space_is_explained(
    http: httpx.AsyncClient, since: str, is_explained: bool
) -> None:
    (error,) = problem_of(await http.get(f"/api/audit?since={since}"), 422)["errors"]
    assert ("write %2B" in error["message"]) is is_explained


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/customerReviews", [REVIEW]),
        ("POST", "/api/customerReviews", [{**REVIEW, "storeId": "Electronics"}]),
        ("POST", "/api/customerReviews/reviewList", {}),
        ("POST", "/api/customerReviews/approve", ["a"]),
        ("GET", "/api/stores", None),
        ("GET", "/health/ready", None),
    ],
)
async def test_unavailable_servers_return_503(http: httpx.AsyncClient, method: str, path: str, body: Any) -> None:
    response = await http.request(method, path, json=body, headers={"prefer": "wait=1"})
    problem_of(response, 503)
    assert int(response.headers["retry-after"]) > 0


async def test_openapi_document_is_complete(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    assert document["info"]["version"] == "1.2.3"
    schemas = document["components"]["schemas"]
    named = {
        f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in document["components"][kind]
    }
    assert set(_references(document)) <= named
    assert "$defs" not in json.dumps(document)
    assert list(schemas["SubmittedReview"]["properties"])[1:] == [
        *("storeId", "userId", "userName", "EntityId", "EntityType", "EntityName", "title", "review", "rating"),
        *("token", "incentivized", "language", "images", "pendingImages"),
    ]
    assert list(schemas["ReviewRow"]["properties"]) == [
        *("id", "entityId", "entityName", "entityType", "reviewStatus", "reviewStatusId", "title", "review"),
        *("rating", "userName", "storeName", "createdDate"),
    ]


async def test_openapi_document_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with app_without_servers() as app, client_of(app) as http:
        before = (await http.get("/openapi.json")).content
        monkeypatch.setattr(app, "openapi", lambda: {})
        assert (await http.get("/openapi.json")).content == before


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            if name == "$ref":
                yield part
            else:
                yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


async def test_all_permissions_without_authentication(http: httpx.AsyncClient) -> None:
    answer = await http.get("/api/me")
    permissions = sorted(ALL_PERMISSIONS)
    assert answer.json() == {"subject": None, "permissions": permissions, "stores": None, "authentication": "none"}
