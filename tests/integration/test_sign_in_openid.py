"""Signing in to the console through a real OpenID provider."""

import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest

from console.sign_in.attempts import ATTEMPT, opened_attempt
from console.sign_in.cookies import SESSION
from tests.support.browser import Browser
from tests.support.facade import new_id
from tests.support.oidc_provider import OpenIdServer, openid_server
from tests.support.service import Servers, Service
from tests.support.waiting import eventually, free_port

pytestmark = pytest.mark.slow

KEYS = [bytes(range(32))]
PERMISSIONS = "customerReviews:read customerReviews:update"
QUEUE = "/console/queue"
WANTED = f"{QUEUE}?order=newest&only=low"


@dataclass
class Site:
    """A service whose visitors sign in at a provider."""

    service: Service
    provider: OpenIdServer

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[Browser]:
        async with httpx.AsyncClient(base_url=self.service.address, timeout=90) as http:
            yield Browser(http)

    async def answered(self, browser: Browser, name: str = "anna") -> str:
        """Sign in at the provider with this name; returns the address that it redirects the visitor to, without
        requesting it."""
        asked = await browser.get(WANTED)
        (link,) = re.findall(r'href="(/console/sign-in/start[^"]*)"', asked.text)
        page = await browser.get(unescape(link))
        assert page.url.path.startswith("/interaction/"), page.text
        page = await browser.submit(page, login=name, password="x")
        sent = await browser.submit(page, follow=False)
        while not (location := sent.headers["location"]).startswith(self.service.address):
            sent = await browser.get(location, follow=False)
        return location

    async def enter(self, browser: Browser, name: str = "anna") -> httpx.Response:
        """Sign in; returns the page that was requested first."""
        return await browser.get(await self.answered(browser, name))


@pytest.fixture(scope="module")
async def site(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    folder = tmp_path_factory.mktemp("openid")
    service = Service(servers, folder)
    callback = f"{service.address}/console/sign-in/callback"
    async with openid_server(callback, PERMISSIONS, folder / "provider.log") as provider:
        service.environment |= provider.environment(PERMISSIONS)
        service.environment["PLAUDIT_CONSOLE__COOKIE_KEYS"] = b64encode(KEYS[0]).decode()
        async with service.running():
            yield Site(service, provider)


async def test_sign_in_and_out(site: Site) -> None:
    async with site.browser() as browser:
        arrived = await site.enter(browser)
        assert (arrived.status_code, str(arrived.url)) == (200, site.service.address + WANTED)
        assert "anna" in arrived.text
        assert browser.cookie(ATTEMPT.name) is None
        copy = browser.cookie(SESSION.name) or ""
        left = await browser.post("/console/sign-out", {})
        assert "You are signed out." in left.text
        browser.keep(SESSION.name, copy)
        assert (await browser.get(QUEUE)).url.path == "/console/sign-in"


async def test_authorization_request_has_pkce_state_and_nonce(site: Site) -> None:
    async with site.browser() as browser:
        begun = await browser.get("/console/sign-in/start?to=//elsewhere.test", follow=False)
        asked = dict(parse_qsl(urlsplit(begun.headers["location"]).query))
        attempt = opened_attempt(browser.cookie(ATTEMPT.name) or "", KEYS, datetime.now(UTC))
    assert attempt is not None
    assert begun.headers["location"].startswith(f"{site.provider.address}/auth?")
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert (asked["state"], asked["nonce"]) == (attempt.state, attempt.nonce)
    assert attempt.verifier not in begun.headers["location"]
    assert attempt.way_back == "/console"


async def test_answer_is_valid_once_and_for_its_browser(site: Site) -> None:
    async with site.browser() as browser, site.browser() as other:
        answer = await site.answered(browser)
        # An attacker has a victim follow the link, to make them work in a foreign session.
        assert (await other.get(answer)).status_code == 403
        await other.get("/console/sign-in/start")
        assert (await other.get(answer)).status_code == 403
        assert other.cookie(SESSION.name) is None
        attempt = browser.cookie(ATTEMPT.name) or ""
        assert (await browser.get(answer)).status_code == 200
        browser.jar.clear()
        browser.keep(ATTEMPT.name, attempt)
        assert (await browser.get(answer)).status_code == 403
        assert browser.cookie(SESSION.name) is None


@pytest.mark.parametrize(
    ("part", "said"),
    [("state", "another window"), ("nonce", "belongs to another sign-in"), ("verifier", "(invalid_grant)")],
)
async def test_mismatched_attempt_is_refused(site: Site, part: str, said: str) -> None:
    async with site.browser() as browser:
        answer = await site.answered(browser)
        attempt = opened_attempt(browser.cookie(ATTEMPT.name) or "", KEYS, datetime.now(UTC))
        assert attempt is not None
        changed: dict[str, Any] = {part: "x" * 43}
        browser.keep(ATTEMPT.name, replace(attempt, **changed).sealed(KEYS))
        refused = await browser.get(answer)
        assert (refused.status_code, said in refused.text) == (403, True), refused.text
        assert browser.cookie(SESSION.name) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"code": None, "error": "access_denied"}, "cancelled"),
        ({"code": None, "error": "<script>", "error_description": "<script>"}, "reports an error"),
        ({"iss": "https://elsewhere.test"}, "another issuer"),
        ({"code": "other"}, "isn&#39;t valid"),
        ({"code": None}, "isn&#39;t valid"),
        ({"state": ""}, "another window"),
        ({"state": "é"}, "another window"),
    ],
)
async def test_invalid_answers_are_refused(site: Site, changed: dict[str, str | None], said: str) -> None:
    async with site.browser() as browser:
        address, _, query = (await site.answered(browser)).partition("?")
        parameters = {name: value for name, value in {**dict(parse_qsl(query)), **changed}.items() if value is not None}
        refused = await browser.get(f"{address}?{urlencode(parameters)}")
        assert (refused.status_code, said in refused.text) == (403, True), refused.text
        assert "<script>" not in refused.text.partition("<main")[2]
        assert browser.cookie(SESSION.name) is None


async def test_sign_in_after_expiry_leads_back_to_page(site: Site) -> None:
    async with site.browser() as browser:
        await site.enter(browser, "brief")
        asked = await eventually(lambda: browser.get(WANTED), lambda page: page.url.path == "/console/sign-in")
        assert asked.url.params["to"] == WANTED
        browser.jar = {site.service.address.removeprefix("http://"): {}}
        assert str((await site.enter(browser)).url).endswith(WANTED)


async def test_stores_of_token_limit_access(site: Site) -> None:
    async with site.browser() as browser:
        await site.enter(browser, "bound")
        page = await browser.get(f"/console/reviews/{new_id()}")
        assert page.status_code == 404
        assert "<span>A</span>" in page.text


async def test_token_for_another_audience_is_refused(site: Site) -> None:
    site.service.environment["PLAUDIT_CONSOLE__OIDC__PARAMETERS"] = '{"resource": "https://elsewhere.test/api"}'
    await site.service.restart("api")
    async with site.browser() as browser:
        refused = await site.enter(browser)
        assert (refused.status_code, "for another audience" in refused.text) == (401, True), refused.text
        assert browser.cookie(SESSION.name) is None


async def test_unavailable_provider_is_reported(site: Site) -> None:
    site.service.environment["PLAUDIT_AUTH__JWT__ISSUER"] = f"http://127.0.0.1:{free_port()}"
    await site.service.restart("api")
    async with site.browser() as browser:
        away = await browser.get("/console/sign-in/start")
        assert (away.status_code, "retry-after" in away.headers) == (503, True)
        assert 'href="/console/sign-in/start' in away.text
