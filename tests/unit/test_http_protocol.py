"""What a client can make the server hold: connections, heads, patience. Over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from plaudit.processes.http_protocol import BoundedProtocol, ConnectionLimits, bounded_protocol
from tests.support.service import eventually

ANSWER = b"x" * 2_000_000
REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
DEADLINE_S = 20


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the body and says how much there was; `/large` gives a large answer, `/early` one before the body, `/names`
    the names of the headers after it."""
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
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, content: bytes = REQUEST) -> tuple[int, bytes]:
        """Send something, and read the answer."""
        self.writer.write(content)
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(DEADLINE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            length = next(int(line.split(b":")[1]) for line in head.splitlines() if line.startswith(b"content-length:"))
            assert b"\r\nserver:" not in head
            return int(head.split()[1]), await self.reader.readexactly(length)

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; False when anything else comes."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                return await self.reader.read(1) == b""
        return True


@dataclass
class Server:
    """A server with these limits."""

    port: int
    limits: ConnectionLimits
    connections: Collection[Any]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()


@asynccontextmanager
async def running(limits: ConnectionLimits, application: ASGIApp = app) -> AsyncIterator[Server]:
    protocol = bounded_protocol(limits)
    config = uvicorn.Config(application, http=protocol, ws="none", log_config=None, server_header=False, lifespan="off")
    config.load()
    state = uvicorn.server.ServerState()

    def connection() -> BoundedProtocol:
        return protocol(config=config, server_state=state, app_state={})

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    try:
        yield Server(server.sockets[0].getsockname()[1], limits, state.connections)
    finally:
        server.close()


def limits(*, connections: int = 100, head: int = 4_096, receive: float = 60.0, send: float = 60.0) -> ConnectionLimits:
    return ConnectionLimits(connections, head, receive, send)


async def test_requests_are_answered_one_after_the_other() -> None:
    async with running(limits()) as server, server.client() as client:
        assert await client.ask() == (200, b"0")
        assert await client.ask(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc") == (200, b"3")
        client.writer.write(REQUEST * 3)
        assert [await client.answer() for _ in range(3)] == [(200, b"0")] * 3


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
async def test_a_head_that_is_too_large(head: bytes, piece: int) -> None:
    async with running(limits()) as server, server.client() as client:
        for start in range(0, len(head), piece):
            client.writer.write(head[start : start + piece])
            await client.writer.drain()
        status, body = await client.answer()
        assert status == 431
        assert json.loads(body)["status"] == 431
        assert await client.is_closed()


async def test_heads_are_counted_by_themselves() -> None:
    async with running(limits()) as server, server.client() as client:
        for _ in range(5):
            head = b"POST / HTTP/1.1\r\nhost: a\r\nlong: " + b"a" * 3_000 + b"\r\ncontent-length: 9000\r\n\r\n"
            assert await client.ask(head + b"b" * 9_000) == (200, b"9000")


async def test_what_is_not_http() -> None:
    async with running(limits()) as server, server.client() as client:
        status, body = await client.ask(b"\x16\x03\x01 hello\r\n\r\n")
        assert status == 400
        assert json.loads(body)["title"] == "Bad Request"
        assert await client.is_closed()


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
async def test_requests_that_never_come_to_an_end(start: bytes) -> None:
    async with running(limits(receive=0.3)) as server, server.client() as client:
        if start.startswith(REQUEST):
            assert (await client.ask(REQUEST))[0] == 200
            start = start.removeprefix(REQUEST)
        status, body = await client.ask(start)
        assert status == 408
        assert "0.3 s" in json.loads(body)["detail"]
        assert await client.is_closed()
        assert not server.limits.waiting


async def test_a_request_in_drops_has_no_more_time() -> None:
    async with running(limits(receive=0.5)) as server, server.client() as client:
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(client.answer())
            for byte in b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000:
                if answer.done():
                    break
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0.01)
        assert answer.result()[0] == 408


async def test_a_body_that_nobody_wants_any_more_ends_the_connection() -> None:
    async with running(limits(receive=0.3)) as server, server.client() as client:
        head = b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\nabc"
        assert await client.ask(head) == (200, b"0")
        assert await client.is_closed()


async def test_clients_that_do_not_read() -> None:
    async with running(limits(send=0.3)) as server, server.client() as slow:
        slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
        slow.writer.write(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n" * 8)
        await slow.writer.drain()
        async with server.client() as good:
            status, body = await good.ask(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (status, len(body)) == (200, len(ANSWER))
        await eventually(partial(_count, server.connections), lambda count: count == 0)
        assert not slow.writer.transport.is_closing()  # it isn't the client who ended it


async def _count(connections: Collection[object]) -> int:
    return len(connections)


async def test_the_longest_waiting_connection_makes_room() -> None:
    async with running(limits(connections=20)) as server:
        idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(60)]
        try:
            for _ in range(5):
                async with server.client() as good:
                    assert (await good.ask())[0] == 200
            assert len(server.limits.waiting) <= 20
            assert await Client(*idle[0]).is_closed()
            # One that has been of use lately isn't the one.
            assert (await Client(*idle[-1]).ask())[0] == 200
        finally:
            for _, writer in idle:
                writer.close()


async def test_slow_bodies_make_room_too() -> None:
    async with running(limits(connections=10)) as server:
        slow = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(30)]
        try:
            for _, writer in slow:
                writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc")
                with suppress(ConnectionError):
                    await writer.drain()
            for _ in range(5):
                async with server.client() as good:
                    assert (await good.ask())[0] == 200
        finally:
            for _, writer in slow:
                writer.close()
