"""HTTP without a client library, which would normalize requests, and servers of a few lines."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

HOST: Final = "127.0.0.1"
DEADLINE_S: Final = 60

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection to a facade. A request takes a tenth of the time of one by an HTTP client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, content: bytes) -> None:
        """Send bytes unchanged; returns when the kernel has accepted most of them."""
        self.writer.write(content)
        await self.writer.drain()

    async def head(self) -> bytes:
        """Status line and headers of the next response, in lower case."""
        async with asyncio.timeout(DEADLINE_S):
            return (await self.reader.readuntil(b"\r\n\r\n")).lower()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next response."""
        head = await self.head()
        assert b"\r\nserver:" not in head
        status, length = int(head.split()[1]), head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        assert status != 503 or b"\r\nretry-after:" in head
        async with asyncio.timeout(DEADLINE_S):
            return status, await self.reader.readexactly(int(length))

    async def ask(self, content: bytes) -> tuple[int, bytes]:
        """Send bytes unchanged. Returns status and body of the response."""
        self.writer.write(content)
        return await self.answer()

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """Send JSON. Returns status and decoded JSON of the response."""
        status, answer = await self.ask(post_request(path, json.dumps(body).encode()))
        return status, json.loads(answer)

    async def is_closed(self) -> bool:
        """Wait for the end of the connection. Returns False if data arrives instead."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                return await self.reader.read(1) == b""
        return True


def post_request(path: str, content: bytes, *, length: int | None = None) -> bytes:
    """A request with this body; `length` is its Content-Length, by default the true one."""
    length = len(content) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode() + content


@asynccontextmanager
async def connection(port: int, **options: Any) -> AsyncIterator[Connection]:
    """A connection to a port on this machine."""
    reader, writer = await asyncio.open_connection(HOST, port, **options)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A server on a free port; yields the port."""
    server = await asyncio.start_server(serve, HOST, 0)
    try:
        port: int = server.sockets[0].getsockname()[1]
        yield port
    finally:
        server.close()
