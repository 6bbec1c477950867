"""Rate limits, concurrency limits, and protection against cross-site requests and rebound host names."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any, NoReturn

import httpx
import pytest
from pymongo.errors import AutoReconnect
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message

from api.web import limits
from api.web.budgets import Budget
from api.web.concurrency import ConcurrencyLimit
from api.web.hygiene import WebRules
from api.web.limits import MAX_CLIENTS, RateLimit
from api.web.problems import ProblemError
from api.web.process_limits import Limits
from domain.stores import Store, StoreSettings
from plaudit.config import Settings
from plaudit.http_settings import HttpSettings
from plaudit.processes.api import service_names
from storefront.app import add_storefront
from tests.support.app import REVIEW, app_without_servers, client_of, client_without_servers, problem_of
from tests.support.clock import Clock
from tests.support.guarded import AUTHENTICATOR, ISSUER_OF_ALL
from tests.support.waiting import eventually

TYPES = "/api/entityTypes"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client_without_servers() as http:
        yield http


async def test_every_response_has_security_headers(http: httpx.AsyncClient) -> None:
    for path, status in ((TYPES, 200), ("/nowhere", 404), ("/docs", 200), ("/openapi.json", 200)):
        response = await http.get(path)
        assert response.status_code == status
        headers = response.headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        # Over plain HTTP, only the referrer shows from which origin a form was sent.
        assert headers["referrer-policy"] == ("same-origin" if path == "/docs" else "no-referrer")
        assert headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "strict-transport-security" not in headers
        assert "access-control-allow-origin" not in headers
    assert "default-src 'none'" in (await http.get(TYPES)).headers["content-security-policy"]
    secure = await http.get(f"https://plaudit.test{TYPES}")
    assert "strict-transport-security" in secure.headers


@pytest.mark.parametrize("id", ["caf%E9", "%80", "%C3", "%FF%2F", "%E2%82%2F%AC", "%ed%b0%af%2F"])
async def test_paths_with_invalid_utf8_are_refused(http: httpx.AsyncClient, id: str) -> None:
    for method, path in (("PUT", f"/api/stores/{id}"), ("GET", f"/api/customerReviews/{id}"), ("GET", f"/{id}")):
        problem = problem_of(await http.request(method, path), 400)
        assert problem["type"] == "/problems/malformed-path"
        assert "\ufffd" in problem["instance"] or "%EF%BF%BD" in problem["instance"]


async def test_non_ascii_paths_are_accepted(http: httpx.AsyncClient) -> None:
    problem_of(await http.get("/caf%C3%A9%00%EF%BF%BD"), 404)


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ('a=1; costly="' + "\\\\" * 7_000 + '"; b=2', {"a": "1", "b": "2"}),
        ('costly="' + '\\"' * 7_000 + '"', {}),
        ('"\\012', {}),
        ('a=1; quoted="b c"', {"a": "1", "quoted": "b c"}),
        ("__Host-plaudit=-_; plaudit-undo=%7B%22id%22%3A%221%22%7D", None),
    ],
    ids=["between others", "alone", "without a name", "quoted", "ours"],
)
async def test_cookies_with_escapes_are_dropped(sent: str, received: dict[str, str] | None) -> None:
    async def show(request: Request) -> JSONResponse:
        return JSONResponse(request.cookies)

    async with app_without_servers() as app:
        app.add_api_route("/cookies", show)
        async with client_of(app) as http:
            response = await http.get("/cookies", headers={"cookie": sent})
    assert response.json() == (dict(each.split("=") for each in sent.split("; ")) if received is None else received)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://plaudit.test"},
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"origin": "http://plaudit.test.evil.test"},
        {"origin": "http://plaudit.test:8080"},
        {"origin": "http://["},
        {"origin": "http://[::1"},
        {"origin": ""},
    ],
)
async def test_cross_site_changes_are_refused(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    for method, path in (("POST", "/api/customerReviews"), ("PUT", "/api/settings"), ("DELETE", "/nowhere")):
        problem_of(await http.request(method, path, headers=headers), 403)
    # Responses to reads are withheld from the page by its browser.
    assert (await http.get(TYPES, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "same-origin", "origin": "http://plaudit.test"},
        {"sec-fetch-site": "none"},
        {"origin": "http://plaudit.test"},
    ],
)
async def test_same_origin_changes_are_accepted(http: httpx.AsyncClient, headers: dict[str, str]) -> None:
    problem_of(await http.post("/api/customerReviews", headers=headers, content=b"["), 400)


async def test_cors_allows_only_configured_origins() -> None:
    shop = "https://shop.test"
    async with client_without_servers(app={"web": WebRules(cors_origins=(shop,))}) as http:
        asked = {"access-control-request-method": "DELETE", "access-control-request-headers": "authorization,prefer"}
        allowed = await http.options("/api/customerReviews", headers={"origin": shop, **asked})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == shop
        assert "access-control-allow-credentials" not in allowed.headers
        refused = await http.options("/api/customerReviews", headers={"origin": "https://evil.test", **asked})
        assert "access-control-allow-origin" not in refused.headers
        headers = {"origin": shop, "sec-fetch-site": "cross-site"}
        problem_of(await http.post("/api/customerReviews", headers=headers, content=b"["), 400)
        headers["origin"] = "https://evil.test"
        problem_of(await http.post("/api/customerReviews", headers=headers, content=b"["), 403)


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("reviews.example.com", True),
        ("REVIEWS.example.com:8080", True),
        ("a.shops.example.com", True),
        ("shops.example.com", False),
        ("a.b.shops.example.com", False),
        ("evil.test", False),
        ("reviews.example.com.evil.test", False),
        ("reviews.example.com@evil.test", False),
        ("[::1", False),
        ("", False),
        ("localhost:9000", True),
        ("localhost.evil.test", False),
        ("127.0.0.1.evil.test", False),
        ("127.0.0.1", True),
        ("127.8.9.10:8080", True),
        ("[::1]:8080", True),
        ("[::ffff:127.0.0.1]", True),
        ("192.0.2.1", False),
        ("0x7f000001", False),
    ],
)
async def test_only_allowed_hosts_are_served(host: str, is_known: bool) -> None:
    web = WebRules(allowed_hosts=("reviews.example.com", "*.shops.example.com"))
    async with client_without_servers(app={"web": web}) as http:
        response = await http.get(TYPES, headers={"host": host})
        assert response.status_code == (200 if is_known else 421)
        if not is_known:
            assert "PLAUDIT_HTTP__ALLOWED_HOSTS" in problem_of(response, 421)["detail"]


@pytest.mark.parametrize(("path", "status"), [("/health/live", 200), ("/health/ready", 503), (TYPES, 421), ("/", 421)])
async def test_only_probes_may_lack_the_host(path: str, status: int) -> None:
    """As in HTTP/1.0, in which HAProxy asks by default."""
    async with client_without_servers(app={"web": WebRules(allowed_hosts=())}) as http:
        request = http.build_request("GET", path)
        del request.headers["host"]
        assert (await http.send(request)).status_code == status
        assert (await http.get(path, headers={"host": "evil.test"})).status_code == 421


@pytest.mark.parametrize(
    ("server", "host", "is_known"),
    [
        ("192.0.2.1", "192.0.2.1:8080", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "[2001:DB8:0::1]:8080", True),
        ("2001:db8::1", "[2001:db8::2]", False),
    ],
)
async def test_own_address_is_an_allowed_host(server: str, host: str, is_known: bool) -> None:
    async with client_without_servers(app={"web": WebRules(allowed_hosts=())}) as http:
        address = f"[{server}]" if ":" in server else server
        response = await http.get(f"http://{address}{TYPES}", headers={"host": host})
        assert response.status_code == (200 if is_known else 421)


async def test_wildcard_allows_any_host() -> None:
    async with client_without_servers(app={"web": WebRules(allowed_hosts=("*",))}) as http:
        assert (await http.get(TYPES, headers={"host": "evil.test"})).status_code == 200


@pytest.mark.parametrize(
    ("mode", "allowed", "names"),
    [
        ("none", None, ("here.example",)),
        ("none", ("shop.example",), ("here.example", "shop.example")),
        ("api_key", ("shop.example",), ("here.example", "shop.example")),
        ("api_key", None, None),
    ],
)
def test_default_service_names(mode: str, allowed: tuple[str, ...] | None, names: tuple[str, ...] | None) -> None:
    http = HttpSettings(host="here.example", allowed_hosts=allowed)
    assert service_names(Settings.model_validate({"auth": {"mode": mode}, "http": http})) == names


async def test_rate_limit_per_client(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(100)
    monkeypatch.setattr(limits, "monotonic", clock)
    async with client_without_servers(app={"rate_limit": RateLimit(2, burst=3)}, authenticator=AUTHENTICATOR) as http:

        async def status(subject: str) -> int:
            token = ISSUER_OF_ALL.token(["customerReviews:read"], subject=subject)
            return (await http.get(TYPES, headers={"authorization": f"Bearer {token}"})).status_code

        assert [await status("anna") for _ in range(5)] == [200, 200, 200, 429, 429]
        assert await status("berta") == 200
        # Unauthenticated requests don't spend a subject's rate.
        assert [(await http.get(TYPES)).status_code for _ in range(4)] == [401, 401, 401, 429]
        assert await status("berta") == 200
        clock.now += 0.5
        assert [await status("anna") for _ in range(2)] == [200, 429]
        clock.now += 0.25
        token = ISSUER_OF_ALL.token(["customerReviews:read"], subject="anna")
        response = await http.get(TYPES, headers={"authorization": f"Bearer {token}"})
        problem_of(response, 429)
        assert response.headers["retry-after"] == "1"
        # Health checks aren't limited.
        assert (await http.get("/health/live")).status_code == 200


@pytest.mark.parametrize(
    ("host", "others", "is_one"),
    [
        ("192.0.2.7", "::ffff:192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::1", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("testclient", "testclient:", False),
    ],
)
async def test_rate_limit_groups_addresses_by_network(host: str, others: str, is_one: bool) -> None:
    async with app_without_servers(app={"rate_limit": RateLimit(0.0001, 1)}, authenticator=AUTHENTICATOR) as app:
        statuses = []
        for each in (host, others):
            transport = httpx.ASGITransport(app, client=(each, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://plaudit.test") as http:
                statuses.append((await http.get(TYPES)).status_code)
    assert statuses == [401, 429 if is_one else 401]


def test_number_of_counted_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "monotonic", Clock(100))
    rate = RateLimit(1, burst=1)
    for number in range(MAX_CLIENTS + 1):
        rate.take(f"client {number}")
    with pytest.raises(ProblemError):
        rate.take(f"client {MAX_CLIENTS}")
    rate.take("client 0")  # forgotten


@pytest.mark.parametrize("path", ["/openapi.json", "/asyncapi.json", "/asyncapi", "/docs", "/docs/swagger-ui.css"])
async def test_documents_are_rate_limited_by_address(path: str) -> None:
    async with client_without_servers(app={"rate_limit": RateLimit(0.0001, 1)}) as http:
        assert [(await http.get(path)).status_code for _ in range(2)] == [200, 429]


def test_zero_rate_is_unlimited() -> None:
    rate = RateLimit()
    for _ in range(10_000):
        rate.take("anna")


async def test_concurrent_requests_are_bounded() -> None:
    proceed, bodies = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await proceed.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    bounded = ConcurrencyLimit(app, 3, Budget(0, "bodies of"), Budget(0, "answers to"), max_body_bytes=0)

    async def ask(path: str = "/", body: asyncio.Event | None = None, method: str = "GET") -> int:
        sent: list[Message] = []

        async def receive() -> Message:
            if body:
                await body.wait()
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            sent.append(message)

        await bounded({"type": "http", "path": path, "method": method, "headers": []}, receive, send)
        if sent[0]["status"] == 503:
            assert json.loads(sent[1]["body"])["type"] == "/problems/unavailable"
        status: int = sent[0]["status"]
        return status

    async with asyncio.TaskGroup() as group:
        # Requests whose bodies haven't arrived don't block others.
        slow = [group.create_task(ask(body=bodies)) for _ in range(10)]
        await asyncio.sleep(0)
        # Commands get half of the slots.
        held = [group.create_task(ask(method="POST")) for _ in range(2)]
        await asyncio.sleep(0)
        assert await ask(method="DELETE") == 503
        held.append(group.create_task(ask("/api/customerReviews/search", method="POST")))
        await asyncio.sleep(0)
        assert await ask() == 503
        health = group.create_task(ask("/health/live"))
        proceed.set()
        assert [await task for task in (*held, health)] == [200] * 4
        assert await ask() == 200
        bodies.set()
    assert [task.result() for task in slow] == [200] * 10


async def stores_there(ids: Collection[str]) -> dict[str, Store]:
    settings = StoreSettings(reviews_enabled=True, anonymous_reviews_allowed=True, purchase_required=False)
    return {"S": Store("S", None, None, (), settings)}


async def test_queries_leave_places_for_commands() -> None:
    """While MongoDB is unavailable, each page of a shop waits for it; a command needs Kafka alone."""
    waiting, published, away = list[object](), list[object](), asyncio.Event()

    async def search(wanted: object) -> NoReturn:
        waiting.append(wanted)
        await away.wait()
        raise AutoReconnect

    async def publish(messages: Iterable[object]) -> None:
        published.extend(messages)

    async with app_without_servers(limits=Limits(max_concurrent_requests=4)) as app, client_of(app) as http:
        add_storefront(app)
        app.state.services.lookups.stores_for_rules = stores_there
        app.state.services.reviews.search = search
        app.state.services.publisher.publish = publish
        paths = [f"/storefront/v1/S/Product/{number}/reviews" for number in range(4)]
        pages = [asyncio.create_task(http.get(path)) for path in paths]
        await eventually(lambda: len(waiting) + sum(page.done() for page in pages) == 4)
        sent = await http.post("/api/customerReviews", json=[{**REVIEW, "storeId": "S"}])
        away.set()
        assert [page.status_code for page in await asyncio.gather(*pages)] == [503] * 4
    assert (sent.status_code, len(published)) == (202, 1), sent.text
    assert len(waiting) == 3


async def test_deep_nesting_is_refused(http: httpx.AsyncClient) -> None:
    for opening in (b"[", b'{"a":', b'[{"review":'):
        response = await http.post("/api/customerReviews", content=opening * 10_000)
        problem_of(response, 400)
    deep = [{**REVIEW, "unknown": "x"}]
    content = json.dumps(deep).replace('"x"', "[" * 5_000 + "]" * 5_000).encode()
    problem_of(await http.post("/api/customerReviews", content=content), 400)
