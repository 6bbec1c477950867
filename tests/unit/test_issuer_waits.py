"""Requests that wait for an OpenID provider release their concurrency slots."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from api.auth import keys_of_issuer
from api.auth.authentication import Authenticator
from api.auth.keys_of_issuer import FetchedKeys
from api.auth.tokens import TokenRules, Tokens
from api.web.process_limits import Limits
from console.app import add_console
from console.sign_in.attempts import Attempt, Provider
from console.sign_in.keys import CookieKeys
from console.sign_in.routes import MOST_EXCHANGES_PER_CLIENT, SignIn
from storage.generated_keys import GeneratedKey
from tests.support.app import app_without_servers, client_of
from tests.support.guarded import AUTHENTICATOR, HeaderDoor
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, running_issuer
from tests.support.waiting import eventually

SIGN_IN = "https://plaudit.test/console/sign-in"
OPEN_TO_ALL = "/asyncapi.json"


class SlowProvider(Provider):
    """Redirects visitors, and issues useless tokens, both once `answers` is set."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()

    async def address(self, attempt: Attempt, redirect_uri: str) -> str:
        self.asked += 1
        await self.answers.wait()
        return "https://provider.test/authorize"

    def code(self, attempt: Attempt, answer: Mapping[str, str]) -> str:
        return ""

    async def access_token(self, attempt: Attempt, code: str, redirect_uri: str) -> str:
        self.asked += 1
        await self.answers.wait()
        return "nonsense"


@asynccontextmanager
async def waiting(*requests: Awaitable[httpx.Response]) -> AsyncIterator[None]:
    """Start requests that must stay unanswered within the block."""
    tasks = [asyncio.ensure_future(request) for request in requests]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def narrow_app(places: int, authenticator: Authenticator) -> AsyncIterator[FastAPI]:
    """A facade with this number of concurrency slots."""
    limits = Limits(max_concurrent_requests=places)
    async with app_without_servers(limits=limits, authenticator=authenticator) as app:
        yield app


@pytest.fixture
async def issuer(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Issuer]:
    """An issuer that doesn't respond, with a generous timeout."""
    monkeypatch.setattr(keys_of_issuer, "_TIMEOUT_S", 60.0)
    async with running_issuer() as issuer:
        issuer.mood = "hangs"
        yield issuer


def tokens_of(issuer: Issuer) -> Tokens:
    return Tokens(FetchedKeys(issuer.jwks_url, ["RS256"], lifetime=300), TokenRules(ISSUER, AUDIENCE, ["RS256"]))


async def test_requests_waiting_for_an_issuer_hold_no_slot(issuer: Issuer) -> None:
    async with narrow_app(1, tokens_of(issuer)) as app, client_of(app) as http:
        headers = {"authorization": f"Bearer {issuer.token()}"}
        async with waiting(*(http.get("/api/me", headers=headers) for _ in range(3))):
            await eventually(lambda: issuer.asked == 1)
            assert (await http.get(OPEN_TO_ALL)).status_code == 200


async def test_console_pages_waiting_for_an_issuer_hold_no_slot(issuer: Issuer) -> None:
    async with narrow_app(2, tokens_of(issuer)) as app, client_of(app) as http:
        add_console(app, HeaderDoor())
        headers = {"x-credential": issuer.token()}
        async with waiting(http.get("/console/queue", headers=headers)):
            await eventually(lambda: issuer.asked == 1)
            async with waiting(http.get("/console/queue", headers=headers)):
                # Enough loop iterations for a page without a slot to be refused.
                for _ in range(100):
                    await asyncio.sleep(0)
                assert (await http.get(OPEN_TO_ALL)).status_code == 200


async def test_sign_ins_waiting_for_a_provider_hold_no_slot() -> None:
    provider = SlowProvider()
    async with narrow_app(1, AUTHENTICATOR) as app, client_of(app) as http:
        services = app.state.services
        add_console(app, SignIn(services, CookieKeys([bytes(32)], GeneratedKey(services.database, "none")), provider))
        async with waiting(*(http.get(f"{SIGN_IN}/start") for _ in range(3))):
            await eventually(lambda: provider.asked == 3)
            assert (await http.get(OPEN_TO_ALL)).status_code == 200
        provider.answers.set()
        assert (await http.get(f"{SIGN_IN}/start")).status_code == 303
        provider.answers.clear()
        provider.asked = 0
        async with waiting(*(http.get(f"{SIGN_IN}/callback") for _ in range(MOST_EXCHANGES_PER_CLIENT))):
            await eventually(lambda: provider.asked == MOST_EXCHANGES_PER_CLIENT)
            assert (await http.get(OPEN_TO_ALL)).status_code == 200
            refused = await http.get(f"{SIGN_IN}/callback")
            assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
