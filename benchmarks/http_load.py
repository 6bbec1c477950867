"""A minimal HTTP client for load: requests are encoded once, and responses are parsed only as far as needed."""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final, cast

import orjson

_HEAD_END: Final = b"\r\n\r\n"
_TIMEOUT_S: Final = 60.0


class Connection(asyncio.Protocol):
    """A keep-alive connection with one request at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass of it

    def data_received(self, data: bytes) -> None:
        """Complete the response once its whole body has arrived."""
        self._received += data
        head_end = self._received.find(_HEAD_END)
        if head_end < 0 or self._answer is None:
            return
        head = bytes(self._received[:head_end]).lower()
        declared = head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]
        length = int(declared) if declared else 0  # a 304 has no body
        end = head_end + len(_HEAD_END) + length
        if len(self._received) >= end:
            body = bytes(self._received[end - length : end])
            self._received.clear()
            answer, self._answer = self._answer, None
            if not answer.done():  # not cancelled in the meantime
                answer.set_result((int(head[9:12]), body))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request that waits, and later ones."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError())

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request. Returns status and body of the response. Raises ConnectionResetError."""
        if self._transport is None:
            raise ConnectionResetError
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    async def body_of(self, request: bytes, status: int) -> bytes:
        """Send a request. Returns the body of the response. Raises AssertionError for another status."""
        got, body = await self.ask(request)
        if got != status:
            raise AssertionError(f"{got}: {body[:300]!r}")
        return body

    async def wait_for(self, wanted: bytes, request: bytes, *, pause_s: float) -> None:
        """Repeat a request until the response contains this. Raises TimeoutError."""
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                _, body = await self.ask(request)
                if wanted in body:
                    return
                await asyncio.sleep(pause_s)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


async def open_connection(port: int) -> Connection:
    """Open a connection to a server on this machine."""
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


def post(path: str, body: object, headers: str = "") -> bytes:
    """A POST request with a JSON body. Each line of `headers` ends with CRLF."""
    content = orjson.dumps(body)
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
    return f"{head}\r\n{headers}content-length: {len(content)}".encode() + _HEAD_END + content


def get(path: str, headers: str = "") -> bytes:
    """A GET request. Each line of `headers` ends with CRLF."""
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n".encode()


async def rate(port: int, request: Callable[[int], bytes], *, seconds: float, status: int, clients: int = 16) -> float:
    """Requests per second by concurrent clients. Raises AssertionError for a response with another status."""
    end = perf_counter() + seconds
    done = 0

    async def client(number: int) -> None:
        nonlocal done
        connection = await open_connection(port)
        sent = 0
        while perf_counter() < end:
            await connection.body_of(request(number * 10_000_000 + sent), status)
            sent += 1
        connection.close()
        done += sent

    started = perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    return done / (perf_counter() - started)
