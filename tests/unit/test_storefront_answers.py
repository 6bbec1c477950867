"""The cache of public answers: their maximum age, shared loads, and the memory limit."""

import asyncio
import gzip
import os
import tracemalloc
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from unittest.mock import Mock

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from api.web.budgets import Budget
from api.web.concurrency import PIECE, SMALL, ConcurrencyLimit
from api.web.hygiene import HostNames, WebRules
from messaging.metrics import REGISTRY
from storefront.answers import AGE_S, Answer, Answers
from storefront.middleware import StorefrontMiddleware
from storefront.responses import CachedResponse, request_target
from tests.support.clock import Clock
from tests.support.waiting import eventually

PAGE = b"/page"
ANY_NAME = HostNames(WebRules())


@dataclass
class Source:
    """A source of answers with a count of loads and an optional gate that they wait for."""

    loads: int = 0
    gate: asyncio.Event | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None

    async def load(self) -> Answer:
        self.loads += 1
        self.begun.set()
        body = str(self.loads).encode()
        if self.gate:
            await self.gate.wait()
        if self.error:
            raise self.error
        return Answer(body)


async def test_answers_expire_at_their_maximum_age() -> None:
    clock, source = Clock(), Source()
    answers = Answers(clock=clock)
    assert answers.fresh(PAGE) is None
    assert (await answers.of(PAGE, source.load)).body == b"1"
    clock.now += AGE_S + 0.001
    assert answers.fresh(PAGE) is None
    assert (await answers.of(PAGE, source.load)).body == b"2"


async def test_cached_responses_have_one_route_in_the_metrics() -> None:
    def count() -> float:
        labels = {"method": "GET", "route": "storefront-cache", "status": "2xx"}
        return REGISTRY.get_sample_value("plaudit_http_requests_total", labels) or 0

    answers, path, before = Answers(clock=Clock()), "/storefront/v1/s/summaries", count()
    await answers.of(path.encode(), Source().load)
    middleware = StorefrontMiddleware(Mock(), Mock(), answers, ANY_NAME)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(middleware), base_url="http://test") as http:
        assert (await http.get(path)).text == "1"
    assert count() - before == 1


async def test_unread_cached_responses_stay_within_the_budget() -> None:
    """Hits count as other responses do, and the clients that keep us waiting longest make room for others."""
    answers, unread = Answers(clock=Clock()), Budget(2_000_000, "answers to")

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        await CachedResponse(await answers.of(request_target(scope), load_large))(scope, receive, send)

    limited_app = ConcurrencyLimit(endpoint, 100, Budget(0, "bodies of"), unread, 0)
    middleware = StorefrontMiddleware(limited_app, Mock(), answers, ANY_NAME)
    stalled, sent = asyncio.Event(), list[int]()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sent.append(len(message["body"]))
            await stalled.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            path = f"/storefront/v1/s/Product/{number}/reviews"
            await answers.of(path.encode(), load_large)
            group.create_task(middleware(request(path), Mock(), send))
        await eventually(lambda: len(sent) == 3)
        assert unread.held == 3 * LARGE
        assert max(sent) <= PIECE
        stalled.set()
    assert (sum(sent), unread.held) == (3 * LARGE, 0)


@pytest.mark.parametrize(
    ("size", "headers", "method", "passes"),
    [
        (SMALL, {}, "GET", False),
        (SMALL + 1, {}, "GET", True),
        (SMALL + 1, {}, "HEAD", False),
        (SMALL + 1, {"if-none-match": "*"}, "GET", False),
        (SMALL + 1, {"accept-encoding": "gzip"}, "GET", False),
    ],
)
async def test_large_cached_responses_are_passed_on(
    size: int, headers: dict[str, str], method: str, passes: bool
) -> None:
    async def load() -> Answer:
        return Answer(b"x" * size)

    async def others(scope: Scope, receive: Receive, send: Send) -> None:
        passed.append(scope)
        await CachedResponse(await answers.of(request_target(scope), load))(scope, receive, send)

    passed, sent = list[Scope](), list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    answers, path = Answers(clock=Clock()), "/storefront/v1/s/Product/1/reviews"
    await answers.of(path.encode(), load)
    await StorefrontMiddleware(others, Mock(), answers, ANY_NAME)(request(path, method, headers), Mock(), send)
    assert bool(passed) == passes
    assert len(sent) == 2


async def test_age_counts_from_the_start_of_the_load() -> None:
    clock, source = Clock(), Source(gate=asyncio.Event())
    answers = Answers(clock=clock)
    loading = asyncio.create_task(answers.of(PAGE, source.load))
    await source.begun.wait()
    clock.now += AGE_S + 0.001
    assert source.gate
    source.gate.set()
    assert (await loading).body == b"1"
    assert answers.fresh(PAGE) is None


async def test_concurrent_requests_share_one_load() -> None:
    source = Source(gate=asyncio.Event())
    answers = Answers(clock=Clock())
    requests = [asyncio.create_task(answers.of(PAGE, source.load)) for _ in range(20)]
    await asyncio.sleep(0)
    requests[0].cancel()  # the others still wait
    assert source.gate
    source.gate.set()
    assert {(await each).body for each in requests[1:]} == {b"1"}
    assert source.loads == 1


async def test_stale_load_is_not_joined() -> None:
    """That load may have read the database before changes the caller knows of, and may end after the newer load."""
    clock, slow, quick = Clock(), Source(gate=asyncio.Event()), Source(loads=1)
    answers = Answers(clock=clock)
    early = asyncio.create_task(answers.of(PAGE, slow.load))
    await slow.begun.wait()
    clock.now += AGE_S + 0.001
    late = asyncio.create_task(answers.of(PAGE, quick.load))
    for _ in range(3):
        await asyncio.sleep(0)
    assert slow.gate
    slow.gate.set()
    assert ((await early).body, (await late).body) == (b"1", b"2")
    assert answers.fresh(PAGE) == Answer(b"2")
    clock.now += AGE_S + 0.001
    assert (await answers.of(PAGE, quick.load)).body == b"3"


async def test_requested_answer_is_renewed_in_the_background() -> None:
    clock, source = Clock(), Source()
    answers = Answers(clock=clock)
    await answers.of(PAGE, source.load)
    clock.now += AGE_S * 0.9
    assert answers.fresh(PAGE) == Answer(b"1")
    for _ in range(3):
        await asyncio.sleep(0)
    clock.now += AGE_S * 0.4
    assert answers.fresh(PAGE) == Answer(b"2")
    assert source.loads == 2


async def test_errors_reach_the_waiting_and_are_not_cached() -> None:
    clock, source = Clock(), Source(error=OSError("away"))
    answers = Answers(clock=clock)
    with pytest.raises(OSError, match="away"):
        await answers.of(PAGE, source.load)
    source.error = None
    assert (await answers.of(PAGE, source.load)).body == b"2"
    # An error in the background isn't raised; the cached answer stays until it expires.
    source.error = OSError("away")
    clock.now += AGE_S * 0.9
    assert answers.fresh(PAGE)
    for _ in range(3):
        await asyncio.sleep(0)
    assert answers.fresh(PAGE) == Answer(b"2")
    clock.now += AGE_S
    assert answers.fresh(PAGE) is None


async def test_least_used_answers_are_evicted_first() -> None:
    async def load() -> Answer:
        return Answer(b"x" * 400)

    with_address = (await load()).size + 5  # an address of one byte, and its load function
    answers = Answers(most_bytes=3 * with_address, clock=Clock())
    for name in (b"a", b"b", b"c"):
        await answers.of(name, load)
    assert answers.fresh(b"a")
    await answers.of(b"d", load)
    assert [name for name in (b"a", b"b", b"c", b"d") if answers.fresh(name)] == [b"a", b"c", b"d"]
    for _ in range(10):
        await answers.of(b"d", load)
    assert answers.fresh(b"a")


async def test_addresses_and_load_arguments_count_towards_the_limit() -> None:
    """A query can be far larger than its answer, and is kept to renew it."""
    tracemalloc.start()
    try:
        answers = Answers(most_bytes=1_000_000, clock=Clock())
        before, _ = tracemalloc.get_traced_memory()
        for number in range(200):
            ids = [f"{number}-{n}".ljust(150, "x") for n in range(100)]
            address = f"/summaries?ids={','.join(ids)}".encode()
            await answers.of(address, partial(empty, [*ids, "😀".ljust(3_000, "x")]))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before <= 1_000_000


LARGE = 200_000


async def load_large() -> Answer:
    return Answer(os.urandom(LARGE))


def request(path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Scope:
    raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return {"type": "http", "scheme": "http", "method": method, "path": path, "query_string": b"", "headers": raw}


async def empty(ids: list[str]) -> Answer:
    return Answer(b"{}")


@pytest.mark.parametrize(("size", "is_in_thread"), [(10_000, False), (LARGE, True)])
async def test_large_answer_is_compressed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, size: int, is_in_thread: bool
) -> None:
    """Others are answered meanwhile: zlib doesn't hold Python's lock."""

    def compressed(body: bytes, level: int, *, mtime: int) -> bytes:
        threads.append(get_ident())
        return compress(body, level, mtime=mtime)

    async def load() -> Answer:
        return Answer(body)

    compress, threads, body = gzip.compress, list[int](), os.urandom(size)
    monkeypatch.setattr(gzip, "compress", compressed)
    answer = await Answers().of(PAGE, load)
    assert gzip.decompress(answer.compressed or b"") == body
    assert [thread != get_ident() for thread in threads] == [is_in_thread]


def test_small_bodies_are_not_compressed() -> None:
    assert Answer(b"x" * 499).compressed is None
    assert gzip.decompress(Answer(b"x" * 500).compressed or b"") == b"x" * 500
    assert Answer(b"x" * 500).compressed == Answer(b"x" * 500).compressed, "regardless of the time"
