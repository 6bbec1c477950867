"""The endpoints of an OpenID provider: fetched once for all waiting visitors, and rarely while it is unavailable."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from api.auth.tokens import Tokens
from api.web.problems import ProblemError
from console.sign_in import openid
from console.sign_in.attempts import Attempt
from console.sign_in.openid import OpenIdClient, OpenIdProvider
from tests.support.clock import Clock
from tests.support.issuer import Issuer, Mood
from tests.support.sockets import listening

VISITORS = 10


@dataclass
class Publisher(Issuer):
    """An issuer that publishes its endpoints."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def published_keys(self) -> dict[str, Any]:
        endpoints = {f"{name}_endpoint": f"https://provider.test/{name}" for name in ("authorization", "token")}
        return {"issuer": self.address, **endpoints}


@pytest.fixture
async def publisher() -> AsyncIterator[Publisher]:
    publisher = Publisher()
    async with listening(publisher.serve) as publisher.port:
        yield publisher


@pytest.fixture
def provider(publisher: Publisher) -> OpenIdProvider:
    client = OpenIdClient("console", None, publisher.address, "openid", {})
    return OpenIdProvider(client, cast(Tokens, None))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(1_000)
    monkeypatch.setattr(openid, "monotonic", clock)
    # Long enough for a provider that is up, however busy the machine is.
    monkeypatch.setattr(openid, "_TIMEOUT_S", 60.0)
    return clock


async def addresses(provider: OpenIdProvider) -> list[str | BaseException]:
    """The address to which each of several simultaneous visitors is redirected, or the error."""
    attempt = Attempt.begin("/console", datetime.now(UTC))
    begun = (provider.address(attempt, "https://plaudit.test/callback") for _ in range(VISITORS))
    return await asyncio.gather(*begun, return_exceptions=True)


async def test_one_request_serves_all_visitors(publisher: Publisher, provider: OpenIdProvider, clock: Clock) -> None:
    for _ in range(2):
        found = await addresses(provider)
        assert [str(each).partition("?")[0] for each in found] == ["https://provider.test/authorization"] * VISITORS
        assert publisher.asked == 1
    clock.now += 3_600
    await addresses(provider)
    assert publisher.asked == 2


@pytest.mark.parametrize("mood", ["fails", "floods", "nests"])
async def test_unavailable_provider_is_not_requested_for_a_while(
    publisher: Publisher, provider: OpenIdProvider, clock: Clock, mood: Mood
) -> None:
    publisher.mood = mood
    for _ in range(2):
        refused = await addresses(provider)
        assert [isinstance(each, ProblemError) and each.kind.status for each in refused] == [503] * VISITORS
        assert publisher.asked == 1
    publisher.mood = "answers"
    clock.now += openid.PAUSE_S
    assert all(isinstance(each, str) for each in await addresses(provider))
    assert publisher.asked == 2


@pytest.mark.parametrize(
    ("answer", "encoding"),
    [
        (b"[" * 100_000, b"identity"),
        (b'{"expires_in": 1e999}', b"identity"),
        (b'{"expires_at": []}', b"identity"),
        (b"{}" + b" " * 300_000, b"identity"),
        (gzip.compress(b"{}"), b"gzip"),
    ],
    ids=["nested too deeply", "endless", "expiry that is no number", "too large", "compressed"],
)
async def test_unreadable_answer_to_a_code_is_a_provider_that_is_away(answer: bytes, encoding: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        kind = b"content-type: application/json\r\ncontent-encoding: %s\r\n" % encoding
        writer.write(b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s" % (kind, len(answer), answer))
        await writer.drain()
        writer.close()

    async with listening(serve) as port:
        address = f"http://127.0.0.1:{port}"
        provider = OpenIdProvider(OpenIdClient("console", None, "", "openid", {}, address, address), cast(Tokens, None))
        attempt = Attempt.begin("/console", datetime.now(UTC))
        with pytest.raises(ProblemError) as refused:
            await provider.access_token(attempt, "code", "https://plaudit.test/callback")
        assert refused.value.kind.status == 503
