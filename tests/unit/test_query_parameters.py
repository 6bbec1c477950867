"""Query parameters are accepted by name in any letter case, once; unknown ones are refused."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.app import ROUTERS
from api.web.queries import query_parameters
from api.web.routes import PlainRoute
from storefront.app import ROUTERS as STOREFRONT
from storefront.app import add_storefront
from tests.support.app import app_without_servers, client_of
from tests.support.facade import errors_of
from tests.support.readings import letter_cases


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    async with app_without_servers() as app:
        add_storefront(app)
        yield app


def _queries() -> list[tuple[str, str, str, bool]]:
    """Each parameter of each query: method, path, name, and if it may be repeated."""
    return [
        (
            method,
            re.sub(r"{name}", "OrderReviewRequest", re.sub(r"{\w+(:path)?}", "x", route.path)),
            each.name,
            each.is_several,
        )
        for router in (*ROUTERS, *STOREFRONT)
        for route in router.routes
        if isinstance(route, PlainRoute)
        for method in sorted(route.methods or ())
        for each in query_parameters(route.dependant).values()
    ]


def test_all_api_endpoints_check_their_parameters() -> None:
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, PlainRoute) or not getattr(route, "path", "").startswith("/api/")


@pytest.mark.long
@pytest.mark.parametrize(("method", "path", "name", "is_several"), _queries())
async def test_each_query_parameter(app: FastAPI, method: str, path: str, name: str, is_several: bool) -> None:
    # The invalid idempotency key ends each command here, and requests fail before they reach a server.
    async with client_of(app, headers={"Idempotency-Key": "not a key"}) as http:
        send = partial(_errors, http, method, path)
        assert ("unknown-parameter", f"/{name}q") in await send(f"{name}q=1")
        others = letter_cases(name)
        # Concurrently, since some of them wait a second for the unavailable database.
        for errors in await asyncio.gather(*(send(f"{other}=1") for other in others)):
            assert not [code for code, _ in errors if code.endswith("-parameter")]
        for other in others:
            expected = [] if is_several else [("duplicate-parameter", f"/{name}")]
            assert [each for each in await send(f"{other}=1&{name}=1") if each[0].endswith("-parameter")] == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ids=caf%C3%A9", []),
        ("ids=a&ids=caf%E9", [("not-utf-8", "/ids")]),
        ("ids=%ED%A0%80", [("not-utf-8", "/ids")]),
        ("caf%E9=1&idz=1", [("not-utf-8", "/caf?"), ("unknown-parameter", "/idz")]),
    ],
)
async def test_values_that_are_no_utf_8_are_refused(app: FastAPI, query: str, expected: list[tuple[str, str]]) -> None:
    async with client_of(app) as http:
        assert await _errors(http, "DELETE", "/api/return", query) == expected


async def test_numbers_are_ascii_digits(app: FastAPI) -> None:
    numbers = [
        (method, re.sub(r"{\w+}", "x", path), parameter["name"])
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and _is_integer(parameter["schema"])
    ]
    assert {name for _, _, name in numbers} >= {"take", "skip", "stars"}
    async with client_of(app) as http:
        for method, path, name in numbers:
            for value in ("1_0", "%2B5", "%205", "5%20", "%D9%A5", "5.0", "--5", "-", ""):
                assert await _errors(http, method.upper(), path, f"{name}={value}") == [("int-parsing", f"/{name}")]
            # The range of a negative one is told, unless the endpoint needs the database first.
            told = await _errors(http, method.upper(), path, f"{name}=-1")
            assert told in ([], [("greater-than-equal", f"/{name}")])


def _is_integer(schema: dict[str, Any]) -> bool:
    """True for the schema of an integer, or of an integer or null."""
    return {each.get("type") for each in schema.get("anyOf", (schema,))} - {"null"} == {"integer"}


async def _errors(http: httpx.AsyncClient, method: str, path: str, query: str) -> list[tuple[str, str]]:
    response = await http.request(method, f"{path}?{query}", content=b"{" if method in ("POST", "PUT") else None)
    assert response.status_code >= 400
    return [(code, place) for place, code in errors_of(response)] if response.status_code == 422 else []
