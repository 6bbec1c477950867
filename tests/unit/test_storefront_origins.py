"""Cross-origin requests at the storefront: preflights, and which origins may read an answer."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import NoReturn
from unittest.mock import Mock

import httpx
import pytest
from starlette.responses import Response

from api.web.hygiene import HostNames, WebRules
from api.web.limits import RateLimit
from api.web.problems import ProblemKind
from domain.stores import Store, StoreSettings
from storefront.answers import Answer, Answers
from storefront.app import add_storefront
from storefront.middleware import StorefrontMiddleware
from tests.support.app import app_without_servers, client_of, problem_of

DOCS = Path(__file__).parents[2] / "docs"
SHOP = "https://shop.example"
SUMMARY = "/storefront/v1/S/Product/1/summary"
STORE = Store("S", None, None, (), StoreSettings(storefront_origins=(SHOP,)))


async def stores_there(ids: Collection[str]) -> dict[str, Store]:
    return {"S": STORE}


@pytest.mark.parametrize("configured", ["https://admin.example", "*"])
async def test_only_the_store_decides_which_origins_may_read(configured: str) -> None:
    """Origins of the API's own setting could read freshly loaded answers, but not cached ones."""
    origin = {"origin": "https://admin.example"}
    rules = WebRules(cors_origins=(configured,))
    async with app_without_servers(app={"web": rules}) as app:
        add_storefront(app)
        app.state.services.lookups.stores_for_rules = stores_there
        async with client_of(app) as http:
            for path in (SUMMARY, "/storefront/v1/S/nowhere"):
                assert "access-control-allow-origin" not in (await http.get(path, headers=origin)).headers, path
            own = await http.get(SUMMARY, headers={"origin": SHOP})
            assert own.headers["access-control-allow-origin"] == SHOP
            modules = await http.get("/storefront/v1/plaudit-reviews.js", headers=origin)
            assert modules.headers["access-control-allow-origin"] == "*"
            interface = await http.get("/api/me", headers=origin)
            assert interface.headers["access-control-allow-origin"] == configured


async def test_any_origin_may_read_that_the_service_is_busy_or_unavailable() -> None:
    """The store's origins aren't known yet; without the status, a page could only report a failure."""
    async with app_without_servers(app={"rate_limit": RateLimit(0.0001, 1)}) as app:
        add_storefront(app)
        async with client_of(app) as http:
            for status in (503, 429):
                answer = await http.get(SUMMARY, headers={"origin": SHOP})
                problem_of(answer, status)
                assert answer.headers["access-control-allow-origin"] == SHOP
                assert "Retry-After" in answer.headers["access-control-expose-headers"]
                assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{SUMMARY}?no=such", 422),
        ("GET", SUMMARY.replace("Product", "x" * 513), 422),
        ("GET", SUMMARY.replace("Product", "%FF"), 400),
        ("DELETE", SUMMARY, 405),
    ],
)
async def test_any_origin_may_read_that_a_request_is_wrong(method: str, path: str, status: int) -> None:
    """Its page would report a failed connection instead."""
    async with app_without_servers() as app:
        add_storefront(app)
        async with client_of(app) as http:
            answer = await http.request(method, path, headers={"origin": SHOP})
    problem_of(answer, status)
    assert answer.headers["access-control-allow-origin"] == SHOP


async def test_documented_statuses_are_those_that_any_origin_may_read() -> None:
    """The server's own refusals, such as 408, bypass the application, and have no CORS headers."""
    (named,) = re.findall(r"Any page may\s+read a ([\d, or]+) from before", (DOCS / "http.md").read_text())
    documented, readable = {int(status) for status in re.findall(r"\d+", named)}, set[int]()
    for status in range(400, 600):
        middleware = StorefrontMiddleware(Response(status_code=status), Mock(), Answers(), HostNames(WebRules()))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(middleware), base_url="http://plaudit.test") as http:
            answer = await http.get(SUMMARY, headers={"origin": SHOP})
        if "access-control-allow-origin" in answer.headers:
            readable.add(status)
    assert readable == documented
    assert readable <= {kind.status for kind in ProblemKind}


async def test_cached_answers_and_preflights_are_protected_as_others_are() -> None:
    async def load() -> Answer:
        return Answer(b"{}")

    rules = WebRules(allowed_hosts=("plaudit.test",))
    async with app_without_servers(app={"web": rules}) as app:
        add_storefront(app)
        app.state.services.lookups.stores_for_rules = stores_there
        async with client_of(app) as http:
            refused = await http.get("https://plaudit.test/storefront/v1/S/nowhere")
            await app.state.storefront_answers.of(SUMMARY.encode(), load)
            for method, status in (("GET", 200), ("OPTIONS", 204)):
                headers = {"origin": SHOP, "host": "plaudit.test"}
                answer = await http.request(method, f"https://plaudit.test{SUMMARY}", headers=headers)
                assert answer.status_code == status
                for name in ("strict-transport-security", "content-security-policy", "x-frame-options"):
                    assert answer.headers[name] == refused.headers[name], name
                problem_of(await http.request(method, SUMMARY, headers={**headers, "host": "evil.test"}), 421)


async def preflight(http: httpx.AsyncClient) -> httpx.Response:
    return await http.options(SUMMARY, headers={"origin": SHOP, "access-control-request-method": "GET"})


async def test_preflights_count_as_requests() -> None:
    async with app_without_servers(app={"rate_limit": RateLimit(0.0001, 2)}) as app:
        add_storefront(app)
        app.state.services.lookups.stores_for_rules = stores_there
        async with client_of(app) as http:
            answers = [await preflight(http) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [204, 204, 429]
    problem_of(answers[-1], 429)
    assert int(answers[-1].headers["retry-after"]) >= 1


async def test_failed_preflight_is_answered_with_a_problem() -> None:
    async def fail(ids: Collection[str]) -> NoReturn:
        raise RuntimeError("a defect")

    async with app_without_servers() as app:
        add_storefront(app)
        app.state.services.lookups.stores_for_rules = fail
        async with client_of(app) as http:
            assert "a defect" not in str(problem_of(await preflight(http), 500))
