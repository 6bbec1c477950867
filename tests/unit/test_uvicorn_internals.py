"""The internals of uvicorn and httptools that we use exist in the expected form, and a renamed one is detected."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
import uvicorn.protocols.http.httptools_impl
from httptools import HttpParserUpgrade
from uvicorn.server import ServerState

from plaudit.processes import uvicorn_internals
from tests.support.renaming import loaded_anew, rename

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
UPGRADE = b"POST /a HTTP/1.1\r\nhost: a\r\nupgrade: b\r\nconnection: upgrade\r\ncontent-length: 3\r\n\r\n"
Check = Callable[[Any], Awaitable[None]]


def connected(ours: Any, app: Any) -> tuple[Any, Any]:
    """A protocol of uvicorn on a mock transport, and its flow control."""
    config = uvicorn.Config(app, ws="none", log_config=None)
    connection = uvicorn.protocols.http.httptools_impl.HttpToolsProtocol(config, ServerState(), {})
    transport = Mock(asyncio.Transport)
    transport.is_closing.return_value = False
    transport.get_extra_info.return_value = None
    connection.connection_made(transport)
    return connection, ours.control_reading(connection, transport)


async def check_requests(ours: Any) -> None:
    """The state of a connection's requests is correct from before the first until after the last response."""
    may_finish = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        async with asyncio.timeout(1):
            await may_finish.wait()
        await send({"type": "http.response.body", "body": b"b"})

    connection, flow = connected(ours, app)
    assert not ours.is_answering(connection)
    assert not ours.has_begun_answer(connection)
    connection.data_received(GET.replace(b"\r\n\r\n", b"\r\ncontent-length: 100000\r\n\r\n"))
    assert ours.is_answering(connection)
    assert not ours.has_begun_answer(connection)
    assert not ours.has_full_body(connection)
    connection.data_received(b"a" * 100_000)
    assert ours.has_full_body(connection)
    assert not ours.has_waiting_request(connection)
    connection.data_received(GET)
    assert ours.has_waiting_request(connection)
    await asyncio.sleep(0)
    assert ours.has_begun_answer(connection) is False  # concerns the last request, which is waiting
    flow.is_behind = True
    may_finish.set()
    await asyncio.sleep(0.01)
    assert not ours.has_waiting_request(connection)
    assert ours.has_begun_answer(connection)
    connection.transport.resume_reading.assert_not_called()  # uvicorn would, after each response


async def check_end(ours: Any) -> None:
    """A connection closes after its response when requested, and isn't closed as idle once the timer is stopped."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    connection, _ = connected(ours, app)
    connection.timeout_keep_alive = 0.01
    connection.data_received(GET)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    ours.stop_idle_timer(connection)
    await asyncio.sleep(0.03)
    connection.transport.close.assert_not_called()
    connection.timeout_keep_alive = 5
    connection.data_received(GET)
    ours.close_after_answer(connection)
    closed = Mock()
    ours.close_by(connection, closed)
    await asyncio.sleep(0.01)
    closed.assert_called()
    connection.transport.close.assert_not_called()


async def check_upgrade(ours: Any) -> None:
    """A request with an upgrade header is parsed as usual: it keeps its body, and the next request follows."""
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append((scope["method"], scope["path"], (await receive())["body"]))

    connection, _ = connected(ours, app)
    with pytest.raises(HttpParserUpgrade) as upgrade:
        connection.parser.feed_data(UPGRADE + b"abc" + GET)
    assert ours.parse_without_upgrade(connection, upgrade.value) == len(UPGRADE)
    connection.parser.feed_data(b"abc")
    await asyncio.sleep(0.01)
    assert scopes[-1] == ("POST", "/a", b"abc")


async def check_server(ours: Any) -> None:
    """A server reports that it listens, leaves signals alone, and stops when requested."""
    before = signal.getsignal(signal.SIGTERM)
    started: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        """No start-up work."""

    config = uvicorn.Config(app, port=0, ws="none", lifespan="off", log_config=None)
    server = ours.QuietServer(config, started.append)
    async with asyncio.timeout(60):
        serving = asyncio.create_task(server.serve())
        for _ in range(100):  # with a renamed part, the server may fail instead
            await asyncio.wait([serving], timeout=0.03)
            if started or serving.done():
                break
        assert signal.getsignal(signal.SIGTERM) is before
        server.request_stop()
        await serving
    assert started == [True]


CHECKS: list[Check] = [check_requests, check_end, check_upgrade, check_server]
HTTP = "uvicorn.protocols.http.httptools_impl"
PARTS: list[tuple[str, str, Check]] = [
    *[(HTTP, name, check_requests) for name in ("cycle", "flow", "pipeline", "body", "response_complete")],
    (HTTP, "response_started", check_requests),
    (HTTP, "keep_alive", check_end),
    (HTTP, "transport", check_end),
    (HTTP, "_unset_keepalive_if_required", check_end),
    *[(HTTP, name, check_upgrade) for name in ("parser", "url", "headers")],
    (f"{HTTP} uvicorn.protocols.http.flow_control", "resume_reading", check_requests),
    *[("uvicorn.server", name, check_server) for name in ("capture_signals", "handle_exit", "startup", "started")],
]


@pytest.mark.parametrize("check", CHECKS)
async def test_internals_are_as_expected(check: Check) -> None:
    await check(uvicorn_internals)


@pytest.mark.parametrize(("module", "name", "check"), PARTS)
async def test_renamed_part_is_detected(monkeypatch: pytest.MonkeyPatch, module: str, name: str, check: Check) -> None:
    for each in module.split():
        rename(monkeypatch, each, name)
    with pytest.raises((AttributeError, AssertionError)):
        await check(loaded_anew(uvicorn_internals.__name__))
