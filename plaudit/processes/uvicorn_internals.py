"""Parts of uvicorn 0.54 and httptools 0.9 that are not documented: one function each, checked in one place.

tests/unit/test_uvicorn_internals.py fails when one of them is renamed.
docs/library-proposals.md proposes public ones.
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
    """Flow control that resumes reading only once everything that was read has been parsed: `resume_reading`."""

    is_behind = False

    def resume_reading(self) -> None:
        """Read on, as uvicorn asks for, unless the parser is behind."""
        if not self.is_behind:
            super().resume_reading()


def control_reading(connection: HttpToolsProtocol, transport: asyncio.Transport) -> ReadingControl:
    """Replace the `flow` of a new connection, of which uvicorn lets nobody choose the class."""
    flow = ReadingControl(transport)
    connection.flow = flow
    return flow


def is_answering(connection: HttpToolsProtocol) -> bool:
    """A request is in hand, and its answer isn't complete: `cycle`, its `response_complete`."""
    return connection.cycle is not None and not connection.cycle.response_complete


def has_begun_answer(connection: HttpToolsProtocol) -> bool:
    """The head of the answer to the last request was sent: `cycle`, its `response_started`."""
    return connection.cycle is not None and connection.cycle.response_started


def has_waiting_request(connection: HttpToolsProtocol) -> bool:
    """A whole head waits behind the request in hand: `pipeline`."""
    return bool(connection.pipeline)


def has_full_body(connection: HttpToolsProtocol) -> bool:
    """uvicorn reads on only once the application has taken the body so far: the `body` of its `cycle`."""
    return is_answering(connection) and len(connection.cycle.body) > HIGH_WATER_LIMIT


def close_after_answer(connection: HttpToolsProtocol) -> None:
    """Make the answer in hand the last one: `keep_alive` of its `cycle`."""
    connection.cycle.keep_alive = False


def close_by(connection: HttpToolsProtocol, close: Callable[[], None]) -> None:
    """Have the request in hand close its connection, behind its answer, in this way: the `transport` of its `cycle`."""
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
    """Go on as if no other protocol had been asked for, with a new `parser` that is fed the same `url` and `headers`.

    httptools would take the body of such a request for the next request. Returns the bytes that it took before it
    raised, which it tells only as the first of the exception's `args`.
    """
    parser, headers = connection.parser, connection.headers
    head = [parser.get_method() + b" " + connection.url + b" HTTP/" + parser.get_http_version().encode()]
    head += [name + b": " + value for name, value in headers if name != b"upgrade"]
    connection.parser = HttpRequestParser(connection)
    connection.parser.feed_data(b"\r\n".join(head) + b"\r\n\r\n")
    return int(upgrade.args[0])


class QuietServer(uvicorn.Server):
    """A server that leaves signals to its process: uvicorn raises them again after its stop, which ends the process.

    `on_start` is called once it listens, with False where it can't.
    """

    def __init__(self, config: uvicorn.Config, on_start: Callable[[bool], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._on_start(self.started)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    def request_stop(self) -> None:
        """Answer the requests in hand, and end: `handle_exit`."""
        self.handle_exit(signal.SIGTERM, None)
