"""Answers of an OpenID provider to attempts to sign in: in several tabs, reloaded, and while the provider is away."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock
from urllib.parse import parse_qsl, urlsplit

import httpx
import httpx2
import pytest
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from fastapi import FastAPI

from api.auth.keys_of_issuer import StaticKey
from api.auth.tokens import TokenRules, Tokens
from api.web import limits
from console.app import add_console
from console.sign_in import routes
from console.sign_in.attempts import ATTEMPT
from console.sign_in.cookies import SESSION, sealed_session
from console.sign_in.keys import CookieKeys
from console.sign_in.openid import OpenIdClient, OpenIdProvider
from console.sign_in.routes import SignIn
from domain.sessions import Session
from storage.generated_keys import GeneratedKey
from tests.support.app import app_without_servers, client_of
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, ec_key, pem

CLIENT = "console"
KEYS = [bytes(range(32))]
SITE = "https://plaudit.test/console"
SIGNER = Issuer({"first": ec_key()})


def tokens_for(audience: str) -> Tokens:
    return Tokens(StaticKey(pem(SIGNER.keys["first"]), ["ES256"]), TokenRules(ISSUER, audience, algorithms=["ES256"]))


class TokenEndpoint:
    """A provider's token endpoint. It takes the nonce of an attempt for its code, and refuses the code `wrong`."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False

    async def fetch_token(self, _: str, *, code: str, **__: Any) -> dict[str, str]:
        self.asked += 1
        if self.is_away:
            raise httpx2.ConnectError("refused")
        if code == "wrong":
            raise OAuthError("invalid_grant")
        access_token = SIGNER.token(["customerReviews:read"])
        return {"access_token": access_token, "id_token": SIGNER.token(aud=CLIENT, nonce=code)}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> TokenEndpoint:
    endpoint = TokenEndpoint()
    monkeypatch.setattr(AsyncOAuth2Client, "fetch_token", endpoint.fetch_token)
    monkeypatch.setattr(limits, "monotonic", lambda: 0.0)  # a slow machine would regain tokens meanwhile
    return endpoint


@asynccontextmanager
async def console(*, has_provider: bool = True) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    """An application whose console signs visitors in at the provider, if it has one, and a browser."""
    addresses = (f"https://provider.test/{name}" for name in ("authorize", "token"))
    async with app_without_servers(authenticator=tokens_for(AUDIENCE)) as app, client_of(app) as http:
        provider = OpenIdProvider(OpenIdClient(CLIENT, None, ISSUER, "openid", {}, *addresses), tokens_for(CLIENT))
        keys = CookieKeys(KEYS, GeneratedKey(app.state.services.database, "none"))
        add_console(app, SignIn(app.state.services, keys, provider if has_provider else None))
        yield app, http


async def start(http: httpx.AsyncClient) -> dict[str, str]:
    """Begin to sign in. Returns the answer of a provider at which the visitor has signed in."""
    begun = await http.get(f"{SITE}/sign-in/start")
    asked = dict(parse_qsl(urlsplit(begun.headers["location"]).query))
    return {"state": asked["state"], "code": asked["nonce"]}


async def answer(http: httpx.AsyncClient, answer: dict[str, str]) -> httpx.Response:
    return await http.get(f"{SITE}/sign-in/callback", params=answer)


async def test_stale_tab_leaves_the_newer_sign_in_alone(endpoint: TokenEndpoint) -> None:
    async with console() as (_, http):
        stale, newer = await start(http), await start(http)
        refused = await answer(http, stale)
        assert (refused.status_code, "Continue there." in refused.text) == (403, True)
        assert endpoint.asked == 0
        assert (await answer(http, newer)).status_code == 303
        assert SESSION.name in http.cookies
        assert ATTEMPT.name not in http.cookies


async def test_limited_sign_in_can_be_finished_later(endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_FAILURES", 1)
    async with console() as (_, http):
        assert (await answer(http, await start(http) | {"code": "wrong"})).status_code == 403
        assert ATTEMPT.name not in http.cookies
        right = await start(http)
        limited = await answer(http, right)
        assert (limited.status_code, "retry-after" in limited.headers) == (429, True)
        monkeypatch.setattr(limits, "monotonic", lambda: 60.0)
        assert (await answer(http, right)).status_code == 303


async def test_sign_in_can_be_finished_once_the_provider_is_back(endpoint: TokenEndpoint) -> None:
    async with console() as (_, http):
        right = await start(http)
        endpoint.is_away = True
        assert [(await answer(http, right)).status_code for _ in range(40)] == [503] * 40
        endpoint.is_away = False
        assert (await answer(http, right)).status_code == 303


@pytest.mark.parametrize("changed", [{"state": "other"}, {"error": "access_denied"}, {"iss": "https://elsewhere.test"}])
async def test_answers_that_the_provider_is_not_asked_about_are_not_its_refusals(
    endpoint: TokenEndpoint, changed: dict[str, str]
) -> None:
    async with console() as (_, http):
        for _ in range(40):
            assert (await answer(http, await start(http) | changed)).status_code == 403
        assert endpoint.asked == 0
        assert (await answer(http, await start(http))).status_code == 303


async def test_visitors_can_sign_out_although_nobody_can_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(has_provider=False) as (app, http):
        services = app.state.services
        monkeypatch.setattr(services.sessions, "is_ended", AsyncMock(return_value=False))
        monkeypatch.setattr(services.publisher, "publish", published := AsyncMock())
        session = Session("s-1", SIGNER.token(["customerReviews:read"]), "anna", datetime.now(UTC))
        headers = {"cookie": f"{SESSION.name}={sealed_session(session, KEYS)}", "sec-fetch-site": "same-origin"}
        assert (await http.get(f"{SITE}/queue", headers=headers)).status_code != 303
        left = await http.post(f"{SITE}/sign-out", headers=headers)
        assert (left.status_code, left.headers["location"]) == (303, "/console/sign-in?done=signed-out")
        assert [json.loads(message.value) for message in published.call_args.args[0]] == [{"sessionId": "s-1"}]
        page = await http.get(f"{SITE}/queue", headers=headers)
        assert (page.status_code, page.headers["location"].partition("?")[0]) == (303, "/console/sign-in")
        shown = await http.get(SITE + left.headers["location"].removeprefix("/console"))
        assert (shown.status_code, "You are signed out." in shown.text) == (503, True)
