"""Limits on connections, request heads and times, over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from plaudit.http_settings import HttpSettings
from plaudit.processes import http_lingering, http_receive_timeout
from plaudit.processes.http_protocol import BoundedProtocol, bounded_protocol
from tests.support.sockets import Connection, connection
from tests.support.waiting import eventually

ANSWER = b"x" * 2_000_000
REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and return its size; `/large` returns a large body, `/early` responds before reading, `/names`
    returns the names of the headers."""
    if scope["type"] != "http":
        return
    size = 0
    while scope["path"] != "/early":
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    names = b" ".join(name for name, _ in scope["headers"])
    body = {"/large": ANSWER, "/names": names}.get(scope["path"], str(size).encode())
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@dataclass
class Server:
    """A running server with its protocol class and open connections."""

    port: int
    protocol: type[BoundedProtocol]
    connections: Collection[Any]

    def client(self) -> AbstractAsyncContextManager[Connection]:
        return connection(self.port)


@asynccontextmanager
async def running(limits: HttpSettings, application: ASGIApp = app) -> AsyncIterator[Server]:
    protocol = bounded_protocol(limits)
    config = uvicorn.Config(application, http=protocol, ws="none", log_config=None, server_header=False, lifespan="off")
    config.load()
    state = uvicorn.server.ServerState()

    def make() -> BoundedProtocol:
        return protocol(config=config, server_state=state, app_state={})

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    try:
        yield Server(server.sockets[0].getsockname()[1], protocol, state.connections)
    finally:
        server.close()


def limits(*, connections: int = 100, head: int = 4_096, receive: float = 60.0, send: float = 60.0) -> HttpSettings:
    return HttpSettings(max_connections=connections, max_head_bytes=head, receive_timeout=receive, send_timeout=send)


async def test_requests_are_answered_in_order() -> None:
    async with running(limits()) as server, server.client() as client:
        assert await client.ask(REQUEST) == (200, b"0")
        assert await client.ask(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc") == (200, b"3")
        client.writer.write(REQUEST * 3)
        assert [await client.answer() for _ in range(3)] == [(200, b"0")] * 3


async def test_request_behind_a_long_answer_does_not_time_out() -> None:
    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            await asyncio.sleep(1.0)  # an answer that takes longer than a request may
        await app(scope, receive, send)

    async with running(limits(receive=0.5), slow) as server, server.client() as client:
        client.writer.write(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
        client.writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc")
        assert [await client.answer() for _ in range(2)] == [(200, b"0"), (200, b"3")]
        client.writer.write(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
        client.writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n")
        assert [(await client.answer())[0] for _ in range(2)] == [200, 408]


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\nlong: " + b"a" * 5_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nlong: " + b"a" * 5_000,
        b"GET /" + b"a" * 5_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /?" + b"a" * 5_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 1_000 + b"\r\n",
    ],
)
@pytest.mark.parametrize("piece", [1_000_000, 700])
async def test_too_large_head_is_refused(head: bytes, piece: int) -> None:
    async with running(limits()) as server, server.client() as client:
        for start in range(0, len(head), piece):
            await client.send(head[start : start + piece])
        status, body = await client.answer()
        assert status == 431
        assert json.loads(body)["status"] == 431
        assert await client.is_closed()


async def test_head_limit_excludes_bodies_and_earlier_heads() -> None:
    async with running(limits()) as server, server.client() as client:
        for _ in range(5):
            head = b"POST / HTTP/1.1\r\nhost: a\r\nlong: " + b"a" * 3_000 + b"\r\ncontent-length: 9000\r\n\r\n"
            assert await client.ask(head + b"b" * 9_000) == (200, b"9000")


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nhost: a\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        REQUEST + b"GET / HT",
    ],
)
async def test_incomplete_requests_time_out(start: bytes) -> None:
    async with running(limits(receive=0.3)) as server, server.client() as client:
        if start.startswith(REQUEST):
            assert (await client.ask(REQUEST))[0] == 200
            start = start.removeprefix(REQUEST)
        status, body = await client.ask(start)
        assert status == 408
        assert "0.3 s" in json.loads(body)["detail"]
        assert await client.is_closed()
        assert not server.protocol.waiting


async def test_trickling_request_times_out() -> None:
    async with running(limits(receive=0.5)) as server, server.client() as client:
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(client.answer())
            for byte in b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000:
                if answer.done():
                    break
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0.01)
        assert answer.result()[0] == 408


async def test_steady_body_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a photo over a slow connection; trickling and far too long uploads time out."""
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000001\r\n\r\n"
    async with running(limits(receive=0.3)) as server, server.client() as client:
        await client.send(head + b"x" * 1_000_000)
        await asyncio.sleep(0.6)  # longer than other requests may take
        assert await client.ask(b"x") == (200, b"1000001")
        # The next request doesn't inherit the extension.
        assert (await client.ask(head + b"x"))[0] == 408
    monkeypatch.setattr(http_receive_timeout, "LONGEST_S", 0.5)
    async with running(limits(receive=0.3)) as server, server.client() as client:
        status, body = await client.ask(head + b"x" * 1_000_000)
        assert (status, "0.5 s" in json.loads(body)["detail"]) == (408, True)


async def test_unread_body_closes_the_connection() -> None:
    async with running(limits(receive=0.3)) as server, server.client() as client:
        head = b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nabc"
        assert await client.ask(head) == (200, b"0")
        assert await client.is_closed()


async def test_sending_client_can_read_an_early_response() -> None:
    async with running(limits()) as server:
        for version, more in ((b"1.0", b""), (b"1.1", b"connection: close\r\n")):
            async with server.client() as client:
                head = b"POST /early HTTP/" + version + b"\r\nhost: a\r\n" + more
                await client.send(head + b"content-length: 20000000\r\n\r\n")
                for _ in range(200):
                    await client.send(b"x" * 100_000)
                    await asyncio.sleep(0.001)
                assert await client.answer() == (200, b"0")
                assert await client.is_closed()
        await eventually(lambda: not server.connections)


async def test_discarded_bytes_after_a_response_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_lingering, "LINGER_BYTES", 1_000_000)
    head = b"POST /early HTTP/1.0\r\nhost: a\r\ncontent-length: 2000000000\r\n\r\n"
    async with running(limits()) as server, server.client() as client:
        await client.send(head)
        client.writer.write(b"x" * 100_000_000)
        with pytest.raises(ConnectionError):
            await client.writer.drain()
    async with running(limits(receive=0.3)) as server, server.client() as client:
        assert await client.ask(head) == (200, b"0")
        await eventually(lambda: not server.connections)


async def test_clients_that_do_not_read_are_disconnected() -> None:
    async with running(limits(send=0.3)) as server, server.client() as slow:
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await slow.send(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n" * 8)
        await eventually(lambda: any(each._sending for each in server.connections))
        server.protocol.limits.send_timeout = 60.0  # no timeout for other clients on a busy machine
        async with server.client() as good:
            status, body = await good.ask(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (status, len(body)) == (200, len(ANSWER))
        await eventually(lambda: not server.connections)
        assert not slow.writer.transport.is_closing()  # the server closed the connection, not the client


async def test_longest_idle_connection_is_closed() -> None:
    async with AsyncExitStack() as stack, running(limits(connections=20)) as server:
        idle = [await stack.enter_async_context(server.client()) for _ in range(60)]
        for _ in range(5):
            async with server.client() as good:
                assert (await good.ask(REQUEST))[0] == 200
        assert len(server.protocol.waiting) <= 20
        assert await idle[0].is_closed()
        # A recently used connection is kept.
        assert (await idle[-1].ask(REQUEST))[0] == 200


async def test_connections_with_slow_bodies_are_closed() -> None:
    async with AsyncExitStack() as stack, running(limits(connections=10)) as server:
        for slow in [await stack.enter_async_context(server.client()) for _ in range(30)]:
            with suppress(ConnectionError):
                await slow.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc")
        for _ in range(5):
            async with server.client() as good:
                assert (await good.ask(REQUEST))[0] == 200
