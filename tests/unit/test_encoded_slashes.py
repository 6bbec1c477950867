"""Percent-encoded slashes in path parameters are part of the parameter at every route, and no separator."""

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console import static_files
from console.app import add_console
from storefront.app import add_storefront
from tests.support.app import app_without_servers, client_of
from tests.support.facade import problem_of
from tests.support.guarded import HeaderDoor, OpenDoor

REVIEW = "/api/customerReviews/{id}"


def echo(route: Route) -> ASGIApp:
    """An application that returns the matched route and its parameters."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse({"route": route.path, "parameters": scope["path_params"]})(scope, receive, send)

    return app


@pytest.fixture(scope="module")
async def whole() -> AsyncIterator[FastAPI]:
    """The facade with the console and the storefront."""
    async with app_without_servers() as app:
        add_storefront(app)
        add_console(app, OpenDoor())
        yield app


@pytest.fixture
def app(whole: FastAPI, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The same, but its routes only return their path and parameters."""
    for route in whole.routes:
        if isinstance(route, Route):
            monkeypatch.setattr(route, "app", echo(route))
    return whole


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as http:
        yield http


def with_parameters(app: FastAPI) -> Iterator[tuple[str, Route]]:
    """Each route with parameters, once for each of its methods, without those for all that no other route takes."""
    for route in app.routes:
        if isinstance(route, Route) and route.param_convertors and not route.path.endswith("/{rest:path}"):
            for method in sorted(route.methods or ()):
                yield method, route


async def request_raw(
    app: ASGIApp, raw_path: str | None, path: str | None = None, method: str = "GET"
) -> tuple[int, bytes]:
    """The status and the body of the response to this path, not normalised by a client."""
    answer: dict[str, Any] = {"body": b""}

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        answer["status"] = message.get("status", answer.get("status"))
        answer["body"] += message.get("body", b"")

    raw = {} if raw_path is None else {"raw_path": raw_path.encode()}
    scope: Scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"},
        **{"path": path if path is not None else unquote(raw_path or ""), **raw, "query_string": b"", "root_path": ""},
        **{"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)},
    }
    await app(scope, receive, send)
    return answer["status"], answer["body"]


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        *("A/12", "/", "//x", "x/", "../../etc/passwd", "x/votes", "x/y/impact", "/api/me"),
        *("x%2Fy", "x%2F/y", "x%252Fy/", "100%", "100%/", "%00/\0", "?a=b#c/;+& \\", "é/ü/日本"),
        *("plain", "ü ß", "x?y", "x%25", "x\ny", "\n", "x/\n"),
    ],
)
async def test_path_parameters_accept_any_text(app: FastAPI, http: httpx.AsyncClient, text: str) -> None:
    seen, wrong = 0, {}
    for method, route in with_parameters(app):
        wanted = {name: f"{name}{text}" for name in route.param_convertors}
        path = route.path_format.format(**{name: quote(value, safe="") for name, value in wanted.items()})
        response = await http.request(method, path)
        seen += 1
        if method != "HEAD" and response.json() != {"route": route.path, "parameters": wanted}:
            wrong[f"{method} {route.path}"] = response.text
        elif response.status_code != 200:
            wrong[f"{method} {route.path}"] = str(response.status_code)
    assert wrong == {}
    assert seen > 60


@pytest.mark.parametrize(
    ("written", "text"),
    [
        *(("x%2fy", "x/y"), ("%2F%2f", "//"), ("x%252Fy", "x%2Fy"), ("x%25252Fy%2F", "x%252Fy/"), ("%%2F", "%/")),
        *(("%2%2F", "%2/"), ("%2F%", "/%"), ("%zz%2F", "%zz/"), ("%2F%00", "/\0"), ("%3F%23%2F%25", "?#/%")),
        *(("%2e%2e%2F%2E%2E", "../.."), ("%C3%BC%2F", "ü/")),
        *(("%EF%BF%BD%2F", "\ufffd/"), ("%5C%2F", "\\/"), ("%2e%2e", ".."), ("%25", "%"), ("%", "%")),
        ("%0A%2F", "\n/"),
    ],
)
async def test_each_character_is_decoded_once(app: FastAPI, written: str, text: str) -> None:
    expected = JSONResponse({"route": REVIEW, "parameters": {"id": text}}).body
    assert await request_raw(app, f"/api/customerReviews/{written}") == (200, expected)


@pytest.mark.parametrize(
    "path",
    [
        *("/api%2FcustomerReviews/x", "/api/customerReviews%2Fx", "%2Fapi/customerReviews/x", "/api/stores%2F"),
        *("/api/customerReviews/x%2Fy/nothing", "/api/customerReviews/x%2Fy/", "/api/customerReviews/x/y%2Fvotes/z"),
        *("/storefront%2Fv1/s/Product/1/summary", "/storefront/v1/s/Product/1%2Fsummary", "/health%2Flive"),
        *("/storefront/v1/s/Product/x%2Fy/z/summary", "/api/return/x%2Fy/z", "/metrics%2F"),
    ],
)
async def test_encoded_slash_is_no_separator(app: FastAPI, http: httpx.AsyncClient, path: str) -> None:
    response = await http.get(path if path.startswith("/") else f"/{path}")
    assert problem_of(response, 404)["detail"].startswith("There is nothing at this path")


@pytest.mark.parametrize(
    "path",
    [
        *("/metrics", "/health/live", "/docs", "/api/me", "/api/stores/x/review-policy"),
        *("/storefront/v1/s/Product/1/summary", "/storefront/v1/plaudit-reviews.js"),
    ],
)
async def test_encoded_line_feed_is_part_of_a_path(whole: FastAPI, path: str) -> None:
    """`/metrics%0A` isn't `/metrics`, which a proxy may keep from others."""
    assert (await request_raw(whole, f"{path}%0A"))[0] == 404


async def test_problem_names_a_path_with_a_line_feed(whole: FastAPI) -> None:
    async with client_of(whole) as http:
        response = await http.post("/api/stores/x%0Ay%2F%0A", json={})
    assert problem_of(response, 405)["instance"] == "/api/stores/x%0Ay%2F%0A"


async def test_plain_slash_is_a_separator(http: httpx.AsyncClient) -> None:
    assert (await http.get("/api/return/x/y")).status_code == 404
    assert (await http.get("/storefront/v1/s/Product/x/y/summary")).status_code == 404


async def test_unsupported_methods_with_encoded_slashes(whole: FastAPI) -> None:
    async with client_of(whole) as http:
        response = await http.post("/api/customerReviews/x%2Freply/reports%2F", json={})
        assert problem_of(response, 404)["instance"] == "/api/customerReviews/x%2Freply/reports%2F"
        for method in ("PATCH", "OPTIONS"):
            response = await http.request(method, "/api/stores/x%2Fy%20%25")
            assert problem_of(response, 405)["instance"] == "/api/stores/x%2Fy%20%25"
            assert response.headers["allow"] == "GET, HEAD, PUT"
        assert (await http.post("/storefront/v1/x%2Fy/Product/a%2Fb/summary")).headers["allow"] == "GET, HEAD"
        assert (await http.head("/docs/x%2Fy")).status_code == 404


async def test_encoded_slashes_do_not_traverse_folders(whole: FastAPI) -> None:
    mounts = [route.path for route in whole.routes if isinstance(route, Mount)]
    assert mounts == ["/demo/static", "/console/static/{version}"]
    async with client_of(whole) as http:
        for file in ("console.js", "console/row.js"):
            assert (await http.get(f"{static_files.PREFIX}/{file}")).status_code == 200
    up = ["..%2F", "%2e%2e%2f", "%2E%2E/", "..%2f..%2F", "x%2F..%2F..%2F", "%2F", "..%5C", "%252e%252e%252f", ".%2F"]
    for folder in ("/demo/static", "/console/static", static_files.PREFIX, "/docs", "/storefront/v1"):
        for way in up:
            for file in ("console/app.py", "etc/passwd", "console.js", "console/row.js"):
                status, body = await request_raw(whole, f"{folder}/{way}{file}")
                assert status in (404, 503), f"{folder}/{way}{file}"
                assert b"import" not in body
                assert b"root:" not in body


async def test_root_path_prefix_is_stripped(app: FastAPI) -> None:
    transport = httpx.ASGITransport(app, root_path="/shop")
    async with httpx.AsyncClient(transport=transport, base_url="http://plaudit.test") as http:
        response = await http.get("/shop/api/customerReviews/x%2Fy")
        assert response.json() == {"route": REVIEW, "parameters": {"id": "x/y"}}
        assert (await http.get("/shop%2Fapi/customerReviews/x%2Fy")).status_code == 404


async def test_missing_or_different_raw_path(app: FastAPI) -> None:
    """The decoded path is used then."""
    for raw in (None, "", "/elsewhere/x%2Fy"):
        assert (await request_raw(app, raw, "/api/customerReviews/x"))[0] == 200
        assert (await request_raw(app, raw, "/api/customerReviews/x/y"))[0] == 404


async def test_sign_in_redirect_keeps_the_encoding() -> None:
    async with app_without_servers() as app, client_of(app) as http:
        add_console(app, HeaderDoor())
        for path in ("/console/reviews/x%2Fy", "/console/stores/a%3Fb%23c%25/rules", "/console/returns/%C3%BC"):
            response = await http.get(path, params={"done": "saved"})
            assert response.status_code == 303
            (to,) = parse_qs(urlsplit(response.headers["location"]).query)["to"]
            assert to == f"{path}?done=saved"
