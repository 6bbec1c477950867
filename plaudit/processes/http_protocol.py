"""uvicorn's HTTP protocol with limits on the memory and time that a client can cost the server.

Limited are connections, heads, chunk framing, pipelined requests, and the time to receive and send.
docs/decisions/0021-own-routes-and-bounded-connections.md compares other servers.
"""

import asyncio
import time
from collections import OrderedDict
from http import HTTPStatus
from typing import Any, Final, NoReturn

import structlog
from httptools import HttpParserError, HttpParserUpgrade

from plaudit.http_settings import HttpSettings
from plaudit.processes.http_heads import Refusal, answer_of, instance_of, refusal_of, syntax_refusal_of
from plaudit.processes.http_lingering import LingeringProtocol
from plaudit.processes.http_receive_timeout import ReceiveTimeout
from plaudit.processes.uvicorn_internals import (
    close_after_answer,
    close_by,
    control_reading,
    has_begun_answer,
    has_full_body,
    has_waiting_request,
    is_answering,
    parse_without_upgrade,
    stop_idle_timer,
)

MAX_HEADERS: Final = 100
"""Maximum number of headers. Each costs memory besides its bytes; for short ones, many times as much."""

_TOO_LARGE: Final[Refusal] = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head of the request is too large.")
_TOO_MANY: Final[Refusal] = (
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"A request may have at most {MAX_HEADERS} headers.",
)

_SLICE_S: Final = 0.001
"""Time slice in seconds: for so long one connection is parsed before others are."""

_PIECE_BYTES: Final = 4_096
"""Bytes parsed between looks at the clock: small chunks take a hundred times as long as a plain body."""

_CHUNK_BYTES: Final = 16
"""Bytes of framing allowed for each chunk: its size in hexadecimal, and two line ends."""

_END_OF_HEAD: Final = b"\r\n\r\n"

_BLANKS: Final = b" \t"
"""Optional whitespace around the value of a header, which isn't part of it (RFC 9112, 5.1)."""

_UNSENT_BYTES: Final = 16 * 1024
"""High-water mark of a connection's write buffer in bytes: the rest of a response waits for the client."""

log = structlog.get_logger()


class BoundedProtocol(LingeringProtocol):
    """One connection. It is in `waiting` while the server waits for a request, or for the rest of one.

    Input is parsed in time slices, at most up to the request after the current one. `max_head_bytes`
    also limits the chunk extensions and trailers of a body. `receive_timeout` starts with the connection, or with the
    first byte of a later request; a body that keeps coming extends it (http_receive_timeout.py). It doesn't run while a
    request waits behind another one.
    """

    limits: HttpSettings
    waiting: "OrderedDict[BoundedProtocol, None]"

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.url = b""  # also before a request begins, as after one: a refusal names its path
        self._unparsed = b""
        self._is_parse_scheduled = False
        self._is_ending = False
        self._is_in_head = True
        self._head_bytes = 0
        self._framing_bytes = 0
        self._refusal: Refusal | None = None
        self._receiving: ReceiveTimeout | None = None
        self._sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; beyond the limit, close the one that has kept the server waiting longest."""
        super().connection_made(transport)
        control_reading(self, transport)
        transport.set_write_buffer_limits(high=_UNSENT_BYTES)
        if len(self.connections) > self.limits.max_connections:
            longest = next(iter(self.waiting), self)
            longest.transport.abort()
            if longest is self:
                return
            self.waiting.pop(longest, None)
        self._start_waiting()
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self.waiting.pop(self, None)
        for timer in (self._receiving, self._sending):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, after earlier data that are still unparsed."""
        if self.is_lingering:
            self.throw_away(data)
            return
        self._unparsed += data
        self._parse()

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        self._is_in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, without the whitespace that llhttp leaves behind its value; trailers are ignored."""
        if not self._is_in_head:
            return
        if len(self.headers) >= MAX_HEADERS:
            self._reject(_TOO_MANY)
        super().on_header(name, value.rstrip(_BLANKS))

    def on_headers_complete(self) -> None:
        """Start the response, unless the head is too large or ambiguous."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.limits.max_head_bytes:
            self._reject(_TOO_LARGE)
        refusal = refusal_of(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
        if refusal is not None:
            self._reject(refusal)
        self._is_in_head, self._head_bytes = False, 0
        super().on_headers_complete()
        close_by(self, self._close_behind_answer)
        if has_waiting_request(self):
            # We don't read its body before the response in front of it has ended.
            self._stop_expecting()

    def on_chunk_header(self) -> None:
        """Start a chunk, with its allowance for framing."""
        self._framing_bytes -= _CHUNK_BYTES

    def on_body(self, body: bytes) -> None:
        """Add a part of the body, which isn't framing."""
        self._framing_bytes -= len(body)
        if self._receiving is not None:
            self._receiving.body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request: from here on the client waits for the server."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self.url = b""
        self._is_in_head, self._head_bytes, self._framing_bytes = True, 0, 0
        self.waiting.pop(self, None)
        self._stop_expecting()

    def on_response_complete(self) -> None:
        """End the response: the server waits for the next request."""
        super().on_response_complete()
        if self.is_lingering:
            stop_idle_timer(self)
        elif not self.transport.is_closing():
            if not (self._is_in_head and is_answering(self)):
                self._start_waiting()
            if not self._is_in_head and self._receiving is None:
                self._expect_request()
            if self._unparsed:
                self._schedule_parse()

    def pause_writing(self) -> None:
        """Give a client that doesn't read `send_timeout` seconds."""
        super().pause_writing()
        self._sending = self.loop.call_later(self.limits.send_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """End that timeout: the client has read enough."""
        super().resume_writing()
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _close_behind_answer(self) -> None:
        """Close the connection; within a body only when the client stops, has sent too much, or runs out of time."""
        if self._is_in_head or self.transport.is_closing():
            self.transport.close()
            return
        self._unparsed = b""
        self.linger()

    def _schedule_parse(self) -> None:
        if not self._is_parse_scheduled:
            self._is_parse_scheduled = True
            self.loop.call_soon(self._parse)

    def _parse(self) -> None:
        """Parse for one time slice, and resume reading only when nothing is left unparsed."""
        self._is_parse_scheduled = False
        ends = time.monotonic() + _SLICE_S
        data, done = self._unparsed, 0
        while done < len(data) and not (has_waiting_request(self) or self._has_ended()):
            # The next request may begin at the end of a head; it isn't parsed while another one waits.
            end = data.find(_END_OF_HEAD, done, done + _PIECE_BYTES)
            done += self._parse_piece(data[done : done + _PIECE_BYTES if end < 0 else end + len(_END_OF_HEAD)])
            if time.monotonic() >= ends:
                break
        if self._has_ended():
            self._unparsed = b""
            return
        self._unparsed = data[done:]
        self.flow.is_behind = bool(self._unparsed)
        if self.flow.is_behind:
            self.flow.pause_reading()
            if not has_waiting_request(self):
                self._schedule_parse()
        elif not (has_waiting_request(self) or has_full_body(self)):
            self.flow.resume_reading()

    def _parse_piece(self, piece: bytes) -> int:
        """Feed the parser; returns the number of bytes it took. Refuses too large a head or framing before its end."""
        if self._receiving is None:
            self._expect_request()
        stop_idle_timer(self)
        # The parser reports a header only when it is complete.
        if self._is_in_head:
            self._head_bytes += len(piece)
        else:
            self._framing_bytes += len(piece)
        taken = len(piece)
        try:
            try:
                self.parser.feed_data(piece)
            except HttpParserUpgrade as upgrade:
                taken = parse_without_upgrade(self, upgrade)
        except HttpParserError as error:
            self._refuse(*(self._refusal or syntax_refusal_of(error)))
        self._framing_bytes = max(0, self._framing_bytes)
        limit = self.limits.max_head_bytes
        if self._is_in_head and self._head_bytes > limit:
            self._refuse(*_TOO_LARGE)
        elif self._framing_bytes > limit:
            detail = f"Trailers and chunk extensions of a request may have at most {limit} bytes."
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail)
        return taken

    def _reject(self, refusal: Refusal) -> NoReturn:
        """Stop the parser from within one of its callbacks."""
        self._refusal = refusal
        raise HttpParserError(refusal[1])

    def _has_ended(self) -> bool:
        return self._is_ending or self.transport.is_closing()

    def _start_waiting(self) -> None:
        self.waiting[self] = None
        self.waiting.move_to_end(self)

    def _expect_request(self) -> None:
        self._receiving = ReceiveTimeout(self.loop, self.limits.receive_timeout, self._give_up)

    def _stop_expecting(self) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None

    def _give_up(self) -> None:
        if self._receiving is not None:
            detail = f"The request was not complete after {self._receiving.seconds:.3g} s."
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, detail)

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Respond with a problem and close; only close if the request has, or will have, another response."""
        if self._has_ended():
            return
        log.info("connection closed", status=int(status), detail=detail)
        if self._is_in_head and is_answering(self):
            # The next response on this connection is for an earlier request: this one gets none.
            self._is_ending = self.flow.is_behind = True
            self.flow.pause_reading()
            close_after_answer(self)
            return
        if self._is_in_head or not (has_begun_answer(self) or has_waiting_request(self)):
            # The path as far as it was received, unless it alone exceeds the limit of heads.
            target = self.url if len(self.url) <= self.limits.max_head_bytes else b""
            self.transport.write(answer_of(status, detail, instance_of(target)))
        self.transport.close()


def bounded_protocol(limits: HttpSettings) -> type[BoundedProtocol]:
    """The protocol with these limits, which all its connections share."""
    return type("LimitedProtocol", (BoundedProtocol,), {"limits": limits, "waiting": OrderedDict()})
