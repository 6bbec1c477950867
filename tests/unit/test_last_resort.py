"""A request that hangs where no driver limits it is still answered."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from api.web import middleware
from api.web.middleware import LastResort
from api.web.telemetry import within


async def get(app: ASGIApp, headers: dict[str, str] | None = None, *, outer: Scope | None = None) -> httpx.Response:
    limited = LastResort(app)
    transport = httpx.ASGITransport(within(limited, outer) if outer else limited)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return await http.get("/", headers=headers)


async def hang(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        # PyMongo does this when it is cancelled while it waits for the lock of its pool.
        raise RuntimeError("Lock is not acquired") from None


async def take_a_moment(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(0.05)
    await PlainTextResponse("done")(scope, receive, send)


async def begin_and_go_on(scope: Scope, receive: Receive, send: Send) -> None:
    # Starts the response before its first await, so that even a slow machine is in time.
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in (b"a", b"b"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(0.05)  # longer than the limit for the start of a response
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture(autouse=True)
def _short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "_ANSWER_S", 0.01)


async def test_hanging_request_is_answered_503() -> None:
    answer = await get(hang)
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert "retry-after" in answer.headers


async def test_answer_to_the_cancellation_is_passed_on() -> None:
    """The API answers a request that is a part of one of the console, and the console shows that on its page."""

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        part = await get(hang_until_cancelled, {"Prefer": "wait=30"}, outer=scope)
        await PlainTextResponse(part.json()["detail"], part.status_code)(scope, receive, send)

    async def hang_until_cancelled(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    answer = await get(page)
    assert answer.status_code == 503
    assert answer.text.startswith("MongoDB or Kafka can't be reached"), "the process isn't stopping"


async def test_preferred_wait_extends_the_limit() -> None:
    assert (await get(take_a_moment)).status_code == 503
    assert (await get(take_a_moment, {"Prefer": "wait=30"})).text == "done"


async def test_slow_upload_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "_ANSWER_S", 35.0)
    loop, seconds = asyncio.get_running_loop(), 0.0
    since = loop.time
    monkeypatch.setattr(loop, "time", lambda: since() + seconds)

    async def photo() -> AsyncIterator[bytes]:
        nonlocal seconds
        for _ in range(4):
            seconds += 20
            await asyncio.sleep(0)
            yield b"x"

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(await Request(scope, receive).body())(scope, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(LastResort(read)), base_url="http://localhost") as http:
        answer = await http.post("/", content=photo())
    assert (answer.status_code, answer.text) == (200, "xxxx")


async def test_request_cancelled_by_shutdown_is_answered_503() -> None:
    started = asyncio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        started.set()
        await asyncio.Event().wait()

    answer = asyncio.create_task(get(wait, {"Prefer": "wait=1"}))
    await started.wait()
    answer.cancel()
    stopped = await answer
    assert stopped.status_code == 503
    assert "stopping" in stopped.json()["detail"]


async def test_started_response_is_not_cut() -> None:
    assert (await get(begin_and_go_on)).text == "ab"
