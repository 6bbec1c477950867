"""HTTP as uvicorn speaks it, with bounds on what a client can make the server hold: connections, heads, patience."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import orjson
import structlog
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE: Final = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head of the request is too large.")

_LAST_LOOK_S: Final = 0.1

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class ConnectionLimits:
    """What one process grants its clients.

    `max_head_bytes`: request line and headers. `receive_timeout`: seconds for a whole request, from the connection or
    the first byte of a later request. `send_timeout`: seconds without a client's reading any of its answer.
    `max_connections`: beyond them the one that has kept us waiting for longest is closed.
    """

    max_connections: int
    max_head_bytes: int
    receive_timeout: float
    send_timeout: float
    waiting: OrderedDict[BoundedProtocol, None] = field(default_factory=OrderedDict)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. It is `waiting` while we are for the client: for a request, or the rest of one."""

    limits: ConnectionLimits

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0
        self._in_head = True
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, if need be in place of the one that has kept us waiting for longest."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            longest = next(iter(self.limits.waiting), self)
            longest.transport.abort()
            if longest is self:
                return
            self.limits.waiting.pop(longest, None)
        self._wait()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.limits.waiting.pop(self, None)
        for timer in (self._receiving, self._sending):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; refuse a head that doesn't end."""
        if self._receiving is None:
            self._expect_request()
        if self._in_head:
            # The parser tells of a header only once it is there as a whole.
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > self.limits.max_head_bytes:
            self._refuse(*_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        """The request can be looked at, unless its head is too large."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.limits.max_head_bytes:
            self._head_bytes = size
            raise HttpParserError("too large")
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is there as a whole: now the client waits for us."""
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0
        self.limits.waiting.pop(self, None)
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def on_response_complete(self) -> None:
        """The answer has been given: we wait again."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        """The client doesn't read as fast as we write."""
        super().pause_writing()
        self._sending = self.loop.call_later(self.limits.send_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """It has caught up."""
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what isn't HTTP, or has too large a head."""
        is_large = self._head_bytes > self.limits.max_head_bytes
        self._refuse(*(_TOO_LARGE if is_large else (HTTPStatus.BAD_REQUEST, msg)))

    def _wait(self) -> None:
        self.limits.waiting[self] = None
        self.limits.waiting.move_to_end(self)

    def _expect_request(self) -> None:
        self._receiving = self.loop.call_later(self.limits.receive_timeout, self._look_once_more)

    def _look_once_more(self) -> None:
        # Where we were the slow ones, the request may have come, and stand behind this timer.
        self._receiving = self.loop.call_later(_LAST_LOOK_S, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            seconds = f"{self.limits.receive_timeout:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"The request was not complete after {seconds}.")

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answer with a problem and close; only the latter where the request has, or gets, another answer."""
        if self.transport.is_closing():
            return
        _log.info("connection closed", status=int(status), detail=detail)
        cycle = self.cycle
        if cycle is None or not cycle.response_started or (cycle.response_complete and self._in_head):
            problem = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
            body = orjson.dumps(problem)
            head = (
                f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: application/problem+json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()


def bounded_protocol(limits: ConnectionLimits) -> type[BoundedProtocol]:
    """The protocol with these limits, which hold for all its connections together."""
    return type("LimitedProtocol", (BoundedProtocol,), {"limits": limits})
