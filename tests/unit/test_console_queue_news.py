"""The news stream of the console's queue, without Kafka."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import httpx
import orjson
import pytest
from starlette.requests import Request

from console import access, queue_news
from console import news as console_news
from console.app import add_console
from console.queue_news import MOST_CLAIMS, MOST_STREAMS_PER_CLIENT, QueueNews
from domain.permissions import ANYBODY, STRANGER, Caller
from messaging.kafka.tail import Tail
from tests.support.app import app_without_servers, client_of, problem_of
from tests.support.clock import Clock
from tests.support.guarded import AUTHENTICATOR, ISSUER_OF_ALL, HeaderDoor


class BrokenTail(AsyncIterator[Any]):
    """A tail without records that fails once `ends` is set."""

    def __init__(self) -> None:
        self.readers = 0
        self.ends = asyncio.Event()

    def records(self, since: datetime) -> AsyncIterator[Any]:
        self.readers += 1
        return self

    def __aiter__(self) -> "BrokenTail":
        return self

    async def __anext__(self) -> Any:
        await self.ends.wait()
        raise RuntimeError("nobody can read on")


class TailOfClaims(BrokenTail):
    """A tail of claims by desk and review; `exhausted` is set after the last one."""

    def __init__(self, claims: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.claims = list(reversed(claims))
        self.exhausted = asyncio.Event()

    async def __anext__(self) -> Any:
        if not self.claims:
            self.exhausted.set()
            return await super().__anext__()
        desk, id = self.claims.pop()
        value = orjson.dumps({"reviewId": id, "storeId": None, "subject": None, "desk": desk})
        headers = [("ce_type", b"plaudit.ReviewClaimed")]
        return SimpleNamespace(topic="review-claims", headers=headers, value=value, timestamp=1)


class BusyTail(BrokenTail):
    """A tail of ten reported reviews of one store, a minute apart by the clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.left = 10

    async def __anext__(self) -> Any:
        if not self.left:
            return await super().__anext__()
        await asyncio.sleep(0)
        self.left -= 1
        self.clock.now += 60
        value = orjson.dumps({"reviewId": "1", "storeId": "busy"})
        headers = [("ce_type", b"plaudit.ReviewReported")]
        return SimpleNamespace(topic="events", headers=headers, value=value, timestamp=1)


async def claims_after(*claims: tuple[str, str]) -> list[tuple[str | None, str]]:
    """The claims that a newly opened page receives, in order."""
    tail = TailOfClaims(claims)
    news = QueueNews(cast(Tail, tail))
    held = []
    async with asyncio.timeout(60):
        opened = news.news(ANYBODY, 0.01)
        await anext(opened)
        await tail.exhausted.wait()
        async for each in news.news(ANYBODY, 0.01):
            if each is None:
                break
            held.append((each.desk, each.review_id))
    await news.stop()
    return held


async def test_desk_and_review_have_at_most_one_claim() -> None:
    assert await claims_after(("a", "1"), ("b", "2"), ("a", "3")) == [("b", "2"), ("a", "3")]
    # A desk that lost its review to another desk leaves it there.
    assert await claims_after(("a", "1"), ("b", "1"), ("a", "2")) == [("b", "1"), ("a", "2")]
    assert await claims_after(("a", "1"), ("a", "1")) == [("a", "1")]


async def test_number_of_claims_is_bounded() -> None:
    claims = [(f"desk {n}", f"review {n}") for n in range(MOST_CLAIMS + 7)]
    assert await claims_after(*claims) == claims[7:]


async def test_news_of_other_stores_do_not_delay_keep_alives(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0)
    monkeypatch.setattr(queue_news, "monotonic", clock)
    news = QueueNews(cast(Tail, BusyTail(clock)))
    async with asyncio.timeout(60):
        assert await anext(news.news(Caller("anna", frozenset(), frozenset({"quiet"})), 300)) is None
    await news.stop()


@pytest.mark.long
async def test_streams_per_visitor_are_limited() -> None:
    tail = BrokenTail()
    tail.ends.set()
    news = QueueNews(cast(Tail, tail))
    async with app_without_servers(authenticator=AUTHENTICATOR) as app, client_of(app) as http:
        add_console(app, HeaderDoor(), queue_news=news)

        async def stream_of(subject: str) -> httpx.Response:
            token = ISSUER_OF_ALL.token(["customerReviews:read", "customerReviews:update"], subject=subject)
            return await http.get("/console/queue/news", headers={"x-credential": token})

        with ExitStack() as others:
            for _ in range(MOST_STREAMS_PER_CLIENT - 1):
                others.enter_context(news.slots.take("subject anna"))
            # Each stream releases its slot.
            assert [(await stream_of("anna")).status_code for _ in range(2)] == [200, 200]
            others.enter_context(news.slots.take("subject anna"))
            refused = await stream_of("anna")
            assert problem_of(refused, 503)["detail"].startswith("Too many pages")
            assert refused.headers["retry-after"] == "5"
            assert (await stream_of("bert")).status_code == 200
    await news.stop()


class StuckDoor(HeaderDoor):
    """A door that reads each credential once, and then hangs, as PyMongo may when its server goes away."""

    def __init__(self) -> None:
        self.is_stuck = asyncio.Event()

    async def credential(self, request: Request) -> str | None:
        if self.is_stuck.is_set():
            await asyncio.Event().wait()
        self.is_stuck.set()
        return await super().credential(request)


async def test_stream_ends_if_its_visitor_cannot_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_news, "_CHECK_S", 0.01)
    monkeypatch.setattr(access, "_CHECK_LIMIT_S", 0.01)
    news, token = (
        QueueNews(cast(Tail, BrokenTail())),
        ISSUER_OF_ALL.token(["customerReviews:read", "customerReviews:update"]),
    )
    async with app_without_servers(authenticator=AUTHENTICATOR) as app, client_of(app) as http, asyncio.timeout(60):
        add_console(app, StuckDoor(), queue_news=news)
        assert (await http.get("/console/queue/news", headers={"x-credential": token})).status_code == 200
    await news.stop()


async def test_new_page_restarts_a_failed_reader() -> None:
    tail = BrokenTail()
    news = QueueNews(cast(Tail, tail))
    async with asyncio.timeout(60):
        page = news.news(STRANGER, 0.01)
        assert await anext(page) is None
        tail.ends.set()
        assert [each async for each in page if each is not None] == []
        tail.ends.clear()
        assert await anext(news.news(STRANGER, 0.01)) is None
    assert tail.readers == 2
    await news.stop()
