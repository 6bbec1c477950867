"""Signing in to the console with an API key, and signing out."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest

from domain import base64url
from tests.support.browser import Browser
from tests.support.facade import Facade, new_id, submission
from tests.support.service import Servers, Service
from tests.support.waiting import eventually, free_port

pytestmark = pytest.mark.long

KEY = b64encode(bytes(range(32))).decode()
PATIENCE_S = 120
COOKIE = "__Host-plaudit"
QUEUE = "/console/queue"
MODERATOR = (
    *("customerReviews:read", "customerReviews:update", "customerReviews:create"),
    *("customerReviews:createForOthers", "settings:update"),
)


@dataclass
class Console:
    """A service whose console requires API keys, and the address of a second API instance."""

    service: Service
    elsewhere: str
    keys: list[str] = field(default_factory=list)

    async def key(self, *stores: str) -> str:
        """Return a key of a moderator, limited to these stores, or for all."""
        options = [each for name in MODERATOR for each in ("--permission", name)]
        bounds = [each for name in stores for each in ("--store", name)]
        return (await self.service.run("keys", "create", f"anna-{new_id()}", *options, *bounds)).stdout.strip()

    def http(self, key: str) -> httpx.AsyncClient:
        """Return a client of the API."""
        return httpx.AsyncClient(base_url=self.service.address, timeout=PATIENCE_S, headers={"x-api-key": key})

    @asynccontextmanager
    async def browser(self, key: str | None = None, *, elsewhere: bool = False) -> AsyncIterator[Browser]:
        """A browser, signed in if a key is given."""
        address = self.elsewhere if elsewhere else self.service.address
        async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_S) as http:
            browser = Browser(http)
            if key:
                entered = await browser.post(f"/console/sign-in?to={QUEUE}", {"key": key})
                assert (entered.status_code, entered.url.path) == (200, QUEUE), entered.text
            yield browser

    async def review(self, key: str, **fields: str) -> str:
        """Submit a review that waits for a decision; returns its id."""
        async with self.http(key) as http:
            id, product = new_id(), new_id()
            await Facade(http).submit(submission(product, 4, id=id, **fields))
            return id


@pytest.fixture(scope="module")
async def console(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    service = Service(servers, tmp_path_factory.mktemp("console"), environment={"PLAUDIT_AUTH__MODE": "api_key"})
    async with service.running():
        own, service.port = service.port, free_port()
        service.start("api", "second-api")
        elsewhere, service.port = service.address, own
        async with httpx.AsyncClient(base_url=elsewhere, timeout=PATIENCE_S) as http:

            async def ready() -> bool:
                try:
                    return (await http.get("/health/ready")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(ready)
        yield Console(service, elsewhere)


async def test_sign_in_and_out(console: Console) -> None:
    key = await console.key()
    review = await console.review(key)
    async with console.browser() as browser:
        sign_in_page = await browser.get(f"{QUEUE}?order=newest&only=low")
        assert (sign_in_page.url.path, sign_in_page.status_code) == ("/console/sign-in", 200)
        entered = await browser.submit(sign_in_page, key=f" {key}\n")
        assert str(entered.url).endswith(f"{QUEUE}?order=newest&only=low")
        session = browser.cookie(COOKIE)
        assert session
        # The page waits for some seconds; sent again with the same key the form shows the outcome.
        form = {"action": "approve", "expected": "New", "key": new_id()}
        decide = partial(browser.post, f"/console/reviews/{review}/decide", form)
        await eventually(decide, lambda page: "Approved." in page.text)
        left = await browser.post("/console/sign-out", {})
        assert (left.url.path, "You are signed out." in left.text) == ("/console/sign-in", True)
        assert browser.cookie(COOKIE) is None
        # A copy of the cookie is useless: at this instance at once, at the others within seconds.
        browser.keep(COOKIE, session)
        assert (await browser.get(QUEUE)).url.path == "/console/sign-in"
        again = await browser.post(f"/console/reviews/{review}/decide", {"action": "reject", "expected": "Approved"})
        assert (again.status_code, "You are signed out" in again.text) == (401, True)
        async with console.http(key) as http:
            assert (await Facade(http).review(review))["reviewStatus"] == "Approved"


async def test_open_stream_ends_with_session(console: Console) -> None:
    async with console.browser(await console.key()) as browser, console.browser() as other:
        session = browser.cookie(COOKIE)
        headers = {"cookie": f"{COOKIE}={session}", "accept": "text/event-stream"}
        async with other.http.stream("GET", f"{QUEUE}/news", headers=headers) as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "retry: 1000"
            assert (await browser.post("/console/sign-out", {})).url.path == "/console/sign-in"
            async with asyncio.timeout(60):
                async for _ in lines:
                    pass  # events caused by other tests


async def test_ended_session_is_over_at_every_instance(console: Console) -> None:
    key = await console.key()
    async with console.browser(key) as browser, console.browser(elsewhere=True) as copy:
        copy.keep(COOKIE, browser.cookie(COOKIE) or "")
        assert (await copy.get(QUEUE)).url.path == QUEUE
        await browser.post("/console/sign-out", {})
        await eventually(lambda: copy.get(QUEUE), lambda page: page.url.path == "/console/sign-in")
        # Another session with the same key continues.
        async with console.browser(key) as other:
            assert (await other.get(QUEUE)).url.path == QUEUE


async def test_revoked_key_ends_session(console: Console) -> None:
    key = await console.key()
    async with console.browser(key) as browser:
        await console.service.run("keys", "revoke", key.split("_")[1])
        response = await eventually(
            lambda: browser.get(f"{QUEUE}?only=low"), lambda page: page.url.path == "/console/sign-in"
        )
        assert response.url.params["to"] == f"{QUEUE}?only=low"


async def test_each_sign_in_has_its_own_session(console: Console) -> None:
    key, other = await console.key(), await console.key()
    async with console.browser(key) as browser:
        first = browser.cookie(COOKIE) or ""
        # A session that somebody else placed in the browser before isn't the one that follows.
        await browser.post("/console/sign-in", {"key": other})
        second = browser.cookie(COOKIE)
        assert second not in (None, first)
        await browser.post("/console/sign-out", {})
        browser.keep(COOKIE, first)
        assert (await browser.get(QUEUE)).url.path == QUEUE


async def test_changed_cookie_is_refused(console: Console) -> None:
    async with console.browser(await console.key()) as browser:
        value = browser.cookie(COOKIE) or ""
        sealed = base64url.decoded(value)
        for place in range(0, len(sealed), 7):
            changed = bytearray(sealed)
            changed[place] ^= 1
            browser.keep(COOKIE, base64url.encoded(bytes(changed)))
            assert (await browser.get(QUEUE, follow=False)).headers["location"].startswith("/console/sign-in"), place
        for other in ("", "x", "é".encode().hex(), value[:-1], f"{value}A", "A" * 4_000):
            browser.keep(COOKIE, other)
            assert (await browser.get(QUEUE, follow=False)).status_code == 303, other
        browser.keep(COOKIE, value)
        assert (await browser.get(QUEUE)).url.path == QUEUE


@pytest.mark.parametrize("site", [None, "none", "same-site", "cross-site"])
async def test_cross_site_requests_are_refused(console: Console, site: str | None) -> None:
    key = await console.key()
    review = await console.review(key)
    async with console.browser(key) as browser:
        form = {"action": "approve", "expected": "New", "key": new_id()}
        for path, fields in (
            (f"/console/reviews/{review}/decide", form),
            ("/console/sign-out", {}),
            ("/console/sign-in", {"key": key}),
        ):
            assert (await browser.post(path, fields, site=site)).status_code == 403, path
        assert "Approved" not in (await browser.get(f"/console/reviews/{review}")).text.partition("<aside")[0]
        assert (await browser.get(QUEUE)).url.path == QUEUE


async def test_key_of_a_store_sees_only_its_store(console: Console) -> None:
    own, other = new_id("A"), new_id("B")
    everywhere, key = await console.key(), await console.key(own)
    async with console.http(everywhere) as http:
        for store in (own, other):
            await Facade(http).open_store(store)
    mine = await console.review(everywhere, storeId=own)
    theirs = await console.review(everywhere, storeId=other)
    async with console.browser(key) as browser:
        assert (await browser.get(f"/console/reviews/{mine}")).status_code == 200
        assert (await browser.get(f"/console/reviews/{theirs}")).status_code == 404
        queue = (await browser.get(QUEUE)).text
        assert (mine in queue, theirs in queue) == (True, False)
        form = {"action": "approve", "expected": "New", "key": new_id()}
        refused = await browser.post(f"/console/reviews/{theirs}/decide", form)
        assert refused.status_code == 403


async def test_invalid_keys_are_reported(console: Console) -> None:
    async with console.browser() as browser:
        for key in ("", "nonsense", f"plaudit_000000000000_{'s' * 43}", "<script>alert(1)</script>"):
            refused = await browser.post(f"/console/sign-in?to={QUEUE}", {"key": key})
            assert refused.status_code == 401
            assert 'role="alert"' in refused.text
            assert "script>alert" not in refused.text
            assert refused.text.count('action="/console/sign-in?to=%2Fconsole%2Fqueue"') == 1
            assert browser.cookie(COOKIE) is None
        elsewhere = await browser.post("/console/sign-in?to=//elsewhere.test", {"key": await console.key()})
        assert elsewhere.url.host == "127.0.0.1"


async def test_sign_in_over_plain_http_is_refused(console: Console) -> None:
    key = await console.key()
    async with httpx.AsyncClient(base_url=console.service.address, timeout=PATIENCE_S) as http:
        headers = {"host": "reviews.example.com", "sec-fetch-site": "same-origin"}
        shown = await http.get("/console/sign-in", headers=headers)
        assert (shown.status_code, "<form" in shown.text) == (403, False)
        assert (await http.post("/console/sign-in", data={"key": key}, headers=headers)).status_code == 403


async def test_session_cookie_has_secure_attributes(console: Console) -> None:
    async with console.browser() as browser:
        entered = await browser.post("/console/sign-in", {"key": await console.key()}, follow=False)
        undo, session = entered.headers.get_list("set-cookie")
        assert undo.startswith('plaudit-undo=""; expires=')  # the undo cookie of the previous session
        (morsel,) = SimpleCookie(session).values()
        assert (morsel.key, morsel["path"], morsel["domain"], morsel["samesite"]) == (COOKIE, "/", "", "lax")
        assert morsel["secure"]
        assert morsel["httponly"]
        assert entered.headers["cache-control"] == "no-store"


async def test_sign_in_attempts_are_limited(servers: Servers, tmp_path: Path) -> None:
    environment = {
        "PLAUDIT_AUTH__MODE": "api_key",
        "PLAUDIT_HTTP__RATE_PER_SECOND": "0.001",  # a single attempt, and no other for as long as the test takes
        "PLAUDIT_CONSOLE__COOKIE_KEYS": KEY,
    }
    service = Service(servers, tmp_path, environment=environment)
    async with service.running(()), httpx.AsyncClient(base_url=service.address, timeout=PATIENCE_S) as http:

        async def guess(number: int) -> httpx.Response:
            form = {"key": f"plaudit_{number:012x}_{'s' * 43}"}
            return await http.post("/console/sign-in", data=form, headers={"sec-fetch-site": "same-origin"})

        answers = await asyncio.gather(*map(guess, range(60)))
        assert sorted(each.status_code for each in answers) == [401, *[429] * 59]
        assert all(int(each.headers["retry-after"]) >= 1 for each in answers if each.status_code == 429)
        # The configured cookie key is used; none was generated.
        assert await service.find("settings", "consoleCookieKey") == {}


async def test_no_sign_in_without_authentication(service: Service) -> None:
    async with service.client() as http:
        browser = Browser(http)
        for path in ("/console/sign-in", "/console/sign-in/start", "/console/sign-in/callback"):
            assert (await browser.get(path)).url.path not in ("/console/sign-in", path)
        assert "PLAUDIT_AUTH__MODE" in (await browser.get(QUEUE)).text
        assert not browser.cookie(COOKIE)


async def test_size_of_forms_is_limited(console: Console) -> None:
    part = {"key": new_id(), "a": "a" * 1_000_000}
    async with console.browser() as stranger, console.browser(await console.key()) as browser:
        entered = await stranger.post("/console/sign-in", part)
        assert (entered.status_code, "A form may have at most 65536 bytes here." in entered.text) == (413, True)
        decision = f"/console/reviews/{new_id()}/decide"
        assert (await browser.post(decision, part)).status_code == 422
        refused = await browser.post(decision, {**part, **{f"b{at}": "b" * 1_000_000 for at in range(8)}})
        assert (refused.status_code, "A form may have at most 8388608 bytes here." in refused.text) == (413, True)
