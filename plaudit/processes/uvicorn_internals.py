"""Undocumented parts of uvicorn 0.54 and httptools 0.9: one function for each, checked in one place.

tests/unit/test_uvicorn_internals.py fails when one of them is renamed. docs/library-proposals.md proposes public ones.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket
from typing import cast

import uvicorn
from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class ReadingControl(FlowControl):
    """Flow control that resumes reading only when everything read is parsed: `resume_reading`."""

    is_behind = False

    def resume_reading(self) -> None:
        """Resume reading when uvicorn asks for it, unless the parser is behind."""
        if not self.is_behind:
            super().resume_reading()


def control_reading(connection: HttpToolsProtocol, transport: asyncio.Transport) -> ReadingControl:
    """Replace the `flow` of a new connection, whose class uvicorn doesn't let us choose."""
    flow = ReadingControl(transport)
    connection.flow = flow
    return flow


def is_answering(connection: HttpToolsProtocol) -> bool:
    """True while the response to the last request is incomplete: `cycle` and its `response_complete`."""
    return connection.cycle is not None and not connection.cycle.response_complete


def has_begun_answer(connection: HttpToolsProtocol) -> bool:
    """True if the head of the last response was sent: `cycle` and its `response_started`."""
    return connection.cycle is not None and connection.cycle.response_started


def has_waiting_request(connection: HttpToolsProtocol) -> bool:
    """True if a complete head waits behind the current request: `pipeline`."""
    return bool(connection.pipeline)


def has_full_body(connection: HttpToolsProtocol) -> bool:
    """True if uvicorn reads on only after the application takes the buffered body: the `body` of its `cycle`."""
    return is_answering(connection) and len(connection.cycle.body) > HIGH_WATER_LIMIT


def close_after_answer(connection: HttpToolsProtocol) -> None:
    """Make the current response the last one: `keep_alive` of its `cycle`."""
    connection.cycle.keep_alive = False


def close_by(connection: HttpToolsProtocol, close: Callable[[], None]) -> None:
    """Replace how the current request closes its connection, after the response: the `transport` of its `cycle`."""
    connection.cycle.transport = cast(asyncio.Transport, _ClosedBy(connection.transport, close))


class _ClosedBy:
    """A transport with another `close`."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self._transport = transport
        self.close = close

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


def stop_idle_timer(connection: HttpToolsProtocol) -> None:
    """Keep uvicorn from closing the connection for idleness: `_unset_keepalive_if_required`."""
    connection._unset_keepalive_if_required()


def parse_without_upgrade(connection: HttpToolsProtocol, upgrade: HttpParserUpgrade) -> int:
    """Continue as if no upgrade had been requested, with a new `parser` that is fed the same `url` and `headers`.

    httptools would take the body of such a request for the next request. Returns the number of bytes that it took
    before it raised, which only the first of the exception's `args` has.
    """
    parser, headers = connection.parser, connection.headers
    head = [parser.get_method() + b" " + connection.url + b" HTTP/" + parser.get_http_version().encode()]
    head += [name + b": " + value for name, value in headers if name != b"upgrade"]
    connection.parser = HttpRequestParser(connection)
    connection.parser.feed_data(b"\r\n".join(head) + b"\r\n\r\n")
    return int(upgrade.args[0])


class QuietServer(uvicorn.Server):
    """A server that leaves signals to its process: uvicorn raises them again after its stop, which ends the process.

    `on_start` is called once after the start: with True if it listens, else with False.
    """

    def __init__(self, config: uvicorn.Config, on_start: Callable[[bool], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Start to listen, and call `on_start`."""
        await super().startup(sockets)
        self._on_start(self.started)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    def request_stop(self) -> None:
        """Finish the requests in progress, and stop: `handle_exit`."""
        self.handle_exit(signal.SIGTERM, None)
