"""Every route with every set of permissions: access is granted exactly as declared."""

import asyncio
import re
from collections.abc import AsyncIterator, Collection
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.web.encoded_slashes import EncodedSlashes
from domain.permissions import ALL_PERMISSIONS, Caller, Permission, is_within, known_permissions
from storefront import static_files
from storefront.app import add_storefront
from tests.support.app import app_without_servers, client_of
from tests.support.guarded import AUTHENTICATOR, ISSUER_OF_ALL

OPEN = {"/health/live", "/health/ready", "/asyncapi.json"}
"""Documented routes that are open to all. Each one added here needs a reason."""

OF_SHOPPERS = "/storefront/"
"""Prefix of routes that are open to all as well: storefront pages, and submissions by their visitors."""

UNDOCUMENTED = {
    *("/docs", "/docs/{asset}", "/openapi.json", "/asyncapi"),
    *(getattr(route, "path", "?") for route in static_files.routes()),
}
"""Routes that are open to all and not in the OpenAPI document."""

OF_ANY_CALLER = {"GET /api/commands/{commandId}", "GET /api/me"}
"""Routes for all authenticated callers, about themselves."""

OF_STRANGERS = {"GET /api/images/{imageId}"}
"""Routes that answer everyone, with more for authenticated callers."""

OF_ALL_STORES = {
    *("GET /api/settings", "GET /metrics", "GET /api/keys", "GET /api/health/details", "GET /api/deadLetters"),
    "GET /api/deadLetters/{topic}/{partition}/{offset}",
}
"""Routes refused to callers restricted to stores, besides those for other stores."""

_QUERY = {"entityType": "Product", "entityId": "1", "storeId": "A"}
DECLARED = {
    "GET /api/audit": "audit:read",
    "GET /api/audit/export": "audit:read",
    "GET /api/customerReviews/canLeaveFeedback": "customerReviews:create",
    "GET /api/customerReviews/{id}": "customerReviews:read",
    "GET /api/deadLetters": "dlq:read",
    "GET /api/deadLetters/{topic}/{partition}/{offset}": "dlq:read",
    "GET /api/customerReviews/{id}/flags": "customerReviews:read",
    "GET /api/customerReviews/{id}/impact": "customerReviews:read",
    "GET /api/entityTypes": "customerReviews:read",
    "GET /api/entityTypes/{entityType}/{id}": "customerReviews:read",
    "GET /api/keys": "keys:read",
    "GET /api/reminders/preview": "settings:read",
    "GET /api/health/details": "metrics:read",
    "GET /api/notificationTemplates": "templates:read",
    "GET /api/notificationTemplates/{name}": "templates:read",
    "GET /api/return/available-quantities/{orderId}": "return:read",
    "GET /api/return/{id}": "return:read",
    "GET /api/settings": "settings:read",
    "GET /api/stores": "settings:read",
    "GET /api/stores/{storeId}": "settings:read",
    "GET /api/stores/{storeId}/review-policy": "customerReviews:read",
    "GET /metrics": "metrics:read",
    "DELETE /api/customerReviews": "customerReviews:delete",
    "DELETE /api/notificationTemplates/{name}": "templates:update",
    "POST /api/customerReviews": "customerReviews:create",
    "POST /api/customerReviews/approve": "customerReviews:update",
    "POST /api/customerReviews/changes": "customerReviews:read",
    "POST /api/customerReviews/reject": "customerReviews:update",
    "POST /api/customerReviews/reset": "customerReviews:update",
    "POST /api/customerReviews/reviewList": "customerReviews:read",
    "POST /api/customerReviews/viewedRequestReview": "customerReviews:create",
    "POST /api/notificationTemplates/{name}/preview": "templates:read",
    "POST /api/rating/calculateStore": "customerReviews:ratingRecalc",
    "POST /api/rating/entityRating": "customerReviews:ratingRead",
    "POST /api/rating/objects": "customerReviews:ratingRead",
    "GET /api/rating/objects/{entityType}/{entityId}": "customerReviews:ratingRead",
    "POST /api/return": "return:create",
    "POST /api/stores/{storeId}/moderationRules/try": "settings:read",
    "POST /api/return/search": "return:read",
    "POST /api/return/counts": "return:read",
    "POST /api/orders/search": "return:read",
    "GET /api/orders/{id}": "return:read",
    "POST /api/customerReviews/counts": "customerReviews:read",
    "POST /api/customerReviews/{id}/images/{imageId}/hide": "customerReviews:update",
    "POST /api/customerReviews/{id}/images/{imageId}/show": "customerReviews:update",
    "POST /api/deadLetters/replay": "dlq:replay",
    "POST /api/images": "customerReviews:create",
    "POST /api/customerReviews/search": "customerReviews:read",
    "DELETE /api/return": "return:delete",
    "POST /api/customerReviews/{id}/reply": "customerReviews:reply",
    "DELETE /api/customerReviews/{id}/reply": "customerReviews:reply",
    "POST /api/customerReviews/{id}/votes": "customerReviews:vote",
    "DELETE /api/customerReviews/{id}/votes": "customerReviews:vote",
    "POST /api/customerReviews/{id}/reports": "customerReviews:report",
    "POST /api/customerReviews/{id}/claim": "customerReviews:update",
    "GET /api/customerReviews/{id}/reports": "customerReviews:update",
    "PUT /api/notificationTemplates/{name}": "templates:update",
    "PUT /api/return": "return:update",
    "PUT /api/settings": "settings:update",
    "PUT /api/stores/{storeId}": "settings:update",
}
"""The declared permissions once more, so that a slip in a signature is noticed."""


@pytest.mark.parametrize("stores", [None, frozenset[str](), frozenset({"a"}), frozenset({"a", "b"})])
@pytest.mark.parametrize("store", [None, "", "a", "c"])
def test_access_to_stores(stores: frozenset[str] | None, store: str | None) -> None:
    assert Caller("anna", frozenset(), stores).may_touch(store) is (stores is None or store in stores)
    assert is_within(stores, store) is (stores is None or store in stores)


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize(("author", "is_own"), [(None, True), ("anna", True), ("bert", False), ("", False)])
def test_writing_as_other_authors_needs_permission(author: str | None, is_own: bool, others: bool) -> None:
    permissions = ALL_PERMISSIONS if others else ALL_PERMISSIONS - {Permission.CREATE_REVIEWS_FOR_OTHERS}
    assert Caller("anna", permissions).may_write_as(author) is (is_own or others)


def test_known_permissions() -> None:
    names = [*Permission, "settings", "SETTINGS:READ", ""]
    assert known_permissions(names) == ALL_PERMISSIONS == frozenset(Permission)
    for permission in Permission:
        caller = Caller(None, known_permissions([permission.value]))
        assert {each for each in Permission if caller.may(each)} == {permission}


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    async with app_without_servers(authenticator=AUTHENTICATOR) as app:
        add_storefront(app)
        yield app


def _operations(app: FastAPI) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
    }


def _needs(operation: dict[str, Any]) -> set[str]:
    """The permissions that the OpenAPI document declares for an operation; empty if it is open to all."""
    return {name for scheme in operation["security"] for names in scheme.values() for name in names}


def _client(app: FastAPI, token: str | None) -> httpx.AsyncClient:
    # Commands with this key are refused: only access is checked, and nothing is published.
    headers = {"idempotency-key": "not a key"} | ({"authorization": f"Bearer {token}"} if token else {})
    return client_of(app, headers=headers)


def _parameters(app: FastAPI, operation: str) -> set[str]:
    return {each["name"] for each in _operations(app)[operation].get("parameters", ())}


async def _send(app: FastAPI, http: httpx.AsyncClient, operation: str) -> httpx.Response:
    method, path = operation.split()
    content = b"{" if method in ("POST", "PUT") else None
    query = {name: value for name, value in _QUERY.items() if name in _parameters(app, operation)}
    return await http.request(
        method, re.sub(r"{name}|{\w+}", "OrderReviewRequest", path), params=query, content=content
    )


def test_each_route_declares_its_permission(app: FastAPI) -> None:
    operations = _operations(app)
    undeclared = [name for name, operation in operations.items() if "security" not in operation]
    assert not undeclared
    needed = {name: _needs(operation) for name, operation in operations.items()}
    open_paths = {name.split()[1] for name, operation in operations.items() if not operation["security"]}
    assert {path for path in open_paths if not path.startswith(OF_SHOPPERS)} == OPEN
    assert {name.split()[1] for name in operations if OF_SHOPPERS in name} <= open_paths
    assert {name for name, needs in needed.items() if not needs and operations[name]["security"]} == {
        *(OF_ANY_CALLER | OF_STRANGERS)
    }
    assert {name: next(iter(needs)) for name, needs in needed.items() if len(needs) == 1} == DECLARED
    assert {name for needs in needed.values() for name in needs} <= {permission.value for permission in Permission}


def test_openapi_document_has_every_route(app: FastAPI) -> None:
    documented = {re.sub(r":path}", "}", path) for path in app.openapi()["paths"]}
    served = {re.sub(r":path}", "}", getattr(route, "path", "?")) for route in app.routes[1:]}
    assert isinstance(app.routes[0], EncodedSlashes)
    assert served - documented == UNDOCUMENTED


def test_openapi_document_declares_authentication(app: FastAPI) -> None:
    schemes = app.openapi()["components"]["securitySchemes"]
    assert schemes["permissions"]["type"] == "http"
    assert schemes["permissions"]["scheme"] == "bearer"
    assert (schemes["apiKeys"]["in"], schemes["apiKeys"]["name"]) == ("header", "X-API-Key")
    for name, operation in _operations(app).items():
        declared = [each for each in operation["security"] if each]
        assert [each["apiKeys"] for each in declared if "apiKeys" in each] == [
            each["permissions"] for each in declared if "permissions" in each
        ], name


INSTEAD = {"POST /api/customerReviews": Permission.MODERATE_REVIEWS}
"""Endpoints that another permission opens as well: moderators may edit reviews, but not submit them."""


async def test_allowed_exactly_where_declared(app: FastAPI) -> None:
    async def check(permissions: frozenset[Permission], name: str, operation: dict[str, Any]) -> None:
        async with _client(app, ISSUER_OF_ALL.token(sorted(permissions))) as http:
            response = await _send(app, http, name)
        is_refused = response.status_code == 403 and response.json()["type"] == "/problems/forbidden"
        may = _needs(operation) <= permissions or INSTEAD.get(name) in permissions
        assert is_refused == (not may), f"{name} {permissions}: {response.text}"
        assert response.status_code != 401, name
        if is_refused:
            assert next(iter(_needs(operation))) in response.json()["detail"]

    def sets(name: str, operation: dict[str, Any]) -> set[frozenset[Permission]]:
        """No permissions, all, each opening one alone, and all but those: the others together do not open it."""
        opening = {Permission(need) for need in _needs(operation)} | ({INSTEAD[name]} if name in INSTEAD else set())
        alone = {frozenset({permission}) for permission in opening}
        return {frozenset(), ALL_PERMISSIONS, ALL_PERMISSIONS - opening} | alone

    operations = _operations(app).items()
    # Concurrently, since each request waits for the unavailable MongoDB.
    await asyncio.gather(*(check(permissions, *each) for each in operations for permissions in sets(*each)))


@pytest.mark.parametrize("permissions", [[Permission.UPDATE_RETURNS], ALL_PERMISSIONS - {Permission.CREATE_RETURNS}])
async def test_update_of_returns_does_not_allow_creation(app: FastAPI, permissions: Collection[Permission]) -> None:
    wanted = {"orderId": "o", "lineItems": [{"orderLineItemId": "a", "quantity": 1}]}
    token = ISSUER_OF_ALL.token(sorted(permissions))
    async with client_of(app, headers={"authorization": f"Bearer {token}"}) as http:
        response = await http.put("/api/return", json=wanted)
    assert (response.status_code, response.json()["type"]) == (403, "/problems/forbidden")
    assert "return:create" in response.json()["detail"]


@pytest.mark.long
async def test_callers_restricted_to_stores_are_refused_shared_resources(app: FastAPI) -> None:
    async def ask(stores: list[str] | None) -> set[str]:
        token = ISSUER_OF_ALL.token(sorted(ALL_PERMISSIONS), stores=stores)
        async with _client(app, token) as http:
            names = [name for name in _operations(app) if name.startswith("GET ")]
            responses = await asyncio.gather(*(_send(app, http, name) for name in names))
        return {name for name, response in zip(names, responses, strict=True) if response.status_code == 403}

    # Restricted to all stores that `_send` names.
    assert await ask(["A", "OrderReviewRequest"]) == OF_ALL_STORES
    assert await ask(None) == set()


@pytest.mark.long
async def test_unauthenticated_callers_are_refused(app: FastAPI) -> None:
    for token in (None, "nonsense"):
        async with _client(app, token) as http:
            operations = _operations(app)
            responses = await asyncio.gather(*(_send(app, http, name) for name in operations))
            for (name, operation), response in zip(operations.items(), responses, strict=True):
                is_answered = not operation["security"] or (token is None and name in OF_STRANGERS)
                assert (response.status_code == 401) == (not is_answered), name
                if response.status_code == 401:
                    assert response.json()["type"] == "/problems/unauthenticated"
                    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.long
async def test_everyone_is_allowed_without_authentication() -> None:
    async with app_without_servers() as app, _client(app, "nonsense") as http:
        responses = await asyncio.gather(*(_send(app, http, name) for name in _operations(app)))
    assert not {response.status_code for response in responses} & {401, 403}


async def test_head_needs_the_permission_of_get(app: FastAPI) -> None:
    async with _client(app, ISSUER_OF_ALL.token()) as http:
        assert (await http.head("/api/settings")).status_code == 403
        assert (await http.head("/health/live")).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "bearer {}"},
        {"authorization": "BEARER   {}"},
        {"authorization": "Bearer {}", "x-api-key": "of a gateway"},
        {"authorization": "Bearer {}", "x-api-key": ""},
    ],
)
async def test_accepted_forms_of_authentication(app: FastAPI, headers: dict[str, str]) -> None:
    token = ISSUER_OF_ALL.token(["metrics:read"])
    async with _client(app, None) as http:
        sent = {name: value.format(token) for name, value in headers.items()}
        assert (await http.get("/api/settings", headers=sent)).status_code == 403


@pytest.mark.parametrize(
    "authorization", ["Basic YTpi", "Bearer", "Bearer ", "{}", "Token {}", "Bearer {} x", "Bearer\t{}"]
)
async def test_refused_forms_of_authentication(app: FastAPI, authorization: str) -> None:
    token = ISSUER_OF_ALL.token(ALL_PERMISSIONS)
    async with _client(app, None) as http:
        headers = {"authorization": authorization.format(token)}
        assert (await http.get("/api/settings", headers=headers)).status_code == 401
        # A token in the URL would appear in logs, so it is ignored there.
        assert (await http.get(f"/api/settings?access_token={token}&api_key={token}")).status_code == 401
