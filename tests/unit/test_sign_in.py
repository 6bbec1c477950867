"""Sign-in to the console without servers: its pages are limited by address and, if MongoDB hangs, in time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NoReturn

import httpx
import pytest

from api.auth.authentication import Authenticator
from api.auth.keys_of_issuer import StaticKey
from api.auth.permissions import forbidden
from api.auth.tokens import TokenRules, Tokens
from api.web import limits, middleware
from api.web.limits import RateLimit
from console import access
from console.app import add_console
from console.sign_in.attempts import ATTEMPT, Attempt, Provider
from console.sign_in.cookies import SESSION
from console.sign_in.keys import CookieKeys
from console.sign_in.routes import SignIn
from storage.generated_keys import GeneratedKey
from tests.support.app import app_without_servers, client_of
from tests.support.browser import Browser
from tests.support.console_pages import forms
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, ec_key, pem

SITE = "https://plaudit.test/console/sign-in"
ISSUER_OF_ALL = Issuer({"first": ec_key()})
AUTHENTICATOR = Tokens(
    StaticKey(pem(ISSUER_OF_ALL.keys["first"]), ["ES256"]), TokenRules(ISSUER, AUDIENCE, algorithms=["ES256"])
)


class OneCodeProvider(Provider):
    """A provider that accepts one code and counts attempts."""

    def __init__(self) -> None:
        self.exchanges = 0

    async def address(self, attempt: Attempt, redirect_uri: str) -> str:
        return "https://provider.test/authorize"

    def code(self, attempt: Attempt, answer: Mapping[str, str]) -> str:
        return answer["code"]

    async def access_token(self, attempt: Attempt, code: str, redirect_uri: str) -> str:
        self.exchanges += 1
        if code != "right":
            raise forbidden("The code isn't valid.")
        return ISSUER_OF_ALL.token(["customerReviews:read"])


@asynccontextmanager
async def begin_sign_in(
    rate_limit: RateLimit | None = None,
) -> AsyncIterator[tuple[httpx.AsyncClient, OneCodeProvider]]:
    """A browser that has been redirected to the provider, with the provider."""
    provider = OneCodeProvider()
    async with app_without_servers(app={"rate_limit": rate_limit}, authenticator=AUTHENTICATOR) as app:
        services = app.state.services
        keys = CookieKeys([bytes(range(32))], GeneratedKey(services.database, "none"))
        add_console(app, SignIn(services, keys, provider))
        async with client_of(app) as http:
            assert (await http.get(f"{SITE}/start")).status_code == 303
            yield http, provider


async def callbacks(http: httpx.AsyncClient, exchanges: int, code: str = "made-up") -> list[int]:
    """The statuses of repeated callbacks with the same attempt cookie, as a client that keeps it can send them."""
    kept = dict(http.cookies)
    answers = []
    for _ in range(exchanges):
        http.cookies = httpx.Cookies(kept)
        answers.append((await http.get(f"{SITE}/callback", params={"code": code})).status_code)
    return answers


async def test_callbacks_count_as_requests() -> None:
    async with begin_sign_in(RateLimit(0.0001, 3)) as (http, provider):
        assert await callbacks(http, 5) == [403, 403, 429, 429, 429]
        assert provider.exchanges == 2


async def test_invalid_codes_sent_to_the_provider_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "monotonic", lambda: 0.0)  # a slow machine would regain tokens meanwhile
    async with begin_sign_in() as (http, provider):
        assert await callbacks(http, 40, "right") == [303] * 40
        assert await callbacks(http, 40) == [403] * 30 + [429] * 10
        assert provider.exchanges == 70


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", ""), ("GET", "/start"), ("GET", "/callback")])
@pytest.mark.long
async def test_sign_in_pages_count_as_requests(method: str, path: str) -> None:
    async with begin_sign_in(RateLimit(0.0001, 3)) as (http, _):
        answers = [await http.request(method, SITE + path, data={"key": ""}) for _ in range(3)]
    assert [answer.status_code == 429 for answer in answers] == [False, False, True]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert "Try again in" in answers[-1].text


async def test_limited_sign_in_keeps_the_page_to_return_to() -> None:
    limited = RateLimit(0.0001, 1)
    async with app_without_servers(app={"rate_limit": limited}, authenticator=Hanging("api_key")) as app:
        add_console(app, SignIn(app.state.services, CookieKeys([], Hanging("api_key"))))
        async with client_of(app) as http:
            http.base_url = httpx.URL("https://plaudit.test")
            browser = Browser(http)
            asked = await browser.get("/console/sign-in?to=/console/audit?since=2026")
            refused = await browser.submit(asked, key="k")
            assert (asked.status_code, refused.status_code) == (200, 429)
            (form,) = [each for each in forms(refused.text) if each.action.startswith("/console/sign-in")]
    assert httpx.URL(form.action).params["to"] == "/console/audit?since=2026"


class Hanging(Authenticator, GeneratedKey):
    """The keys of callers and of cookies, whose look-up hangs, as PyMongo's may when its server goes away."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    async def caller(self, credential: str | None) -> NoReturn:
        await self.get()

    async def get(self) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize(
    ("mode", "method", "path", "offered"),
    [
        ("api_key", "POST", "sign-in?to=/console/audit", 'action="/console/sign-in?to=%2Fconsole%2Faudit"'),
        ("jwt", "GET", "sign-in/start?to=/console/audit", 'href="/console/sign-in/start?to=%2Fconsole%2Faudit"'),
        ("jwt", "GET", "sign-in/callback", 'href="/console/sign-in/start?to=%2Fconsole"'),
        ("api_key", "POST", "sign-out", 'action="/console/sign-out"'),
    ],
)
async def test_page_offers_another_try_if_the_database_hangs(
    mode: str, method: str, path: str, offered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_CHECK_LIMIT_S", 0.01)
    monkeypatch.setattr(middleware, "_ANSWER_S", 10)
    hanging, cookies = Hanging(mode), {SESSION.name: "sealed", ATTEMPT.name: "sealed"}
    async with app_without_servers(authenticator=hanging) as app, client_of(app, cookies=cookies) as http:
        add_console(app, SignIn(app.state.services, CookieKeys([], hanging), OneCodeProvider()))
        address, headers = f"https://plaudit.test/console/{path}", {"sec-fetch-site": "same-origin"}
        page = await http.request(method, address, data={"key": "k"}, headers=headers)
    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "The database can&#39;t be reached" in page.text
    assert offered in page.text
    assert f"<h1>{'Sign out' if path == 'sign-out' else 'Sign in'}</h1>" in page.text
    assert "aria-invalid" not in page.text
