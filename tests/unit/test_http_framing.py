"""Malicious framing of requests: endless trailers, long pipelines, ambiguous heads."""

import asyncio
import json
from contextlib import suppress
from http import HTTPStatus

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from plaudit.processes.http_heads import MOST_CONTENT_TYPE_BYTES
from plaudit.processes.http_protocol import MAX_HEADERS, BoundedProtocol
from tests.support.sockets import DEADLINE_S, Connection
from tests.support.waiting import eventually

from .test_http_protocol import REQUEST, Server, app, limits, running

CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
EARLY = CHUNKED.replace(b"/", b"/early", 1)
HELD = REQUEST.replace(b"/", b"/held", 1)
FLOOD_BYTES = 50_000_000

ENDLESS = {
    "trailers": (b"0\r\n", b"x-api-key: aaaaaaaa\r\n" * 500),
    "short trailers": (b"0\r\n", b"a:\r\n" * 2_500),
    "a trailer's value": (b"0\r\na: ", b"a" * 10_000),
    "a trailer's name": (b"0\r\n", b"a" * 10_000),
    "an extension": (b"3;", b"a" * 10_000),
    "extensions": (b"", (b"1;" + b"a" * 1_000 + b"\r\na\r\n") * 10),
    "zeros before a size": (b"", b"0" * 10_000),
}


def held_app(release: asyncio.Event) -> ASGIApp:
    """The application; it responds to `/held` once the event is set."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/held":
            await release.wait()
        await app(scope, receive, send)

    return application


async def flood(client: Connection, content: bytes) -> int:
    """Send the content repeatedly until the connection ends or FLOOD_BYTES were sent; return the number of bytes."""
    sent = 0
    with suppress(ConnectionError):
        async with asyncio.timeout(DEADLINE_S):
            while sent < FLOOD_BYTES:
                await client.send(content)
                sent += len(content)
    return sent


async def only_connection(server: Server) -> BoundedProtocol:
    """Wait for the only client, and return the protocol instance that serves it."""
    (protocol,) = await eventually(lambda: list(server.connections))
    assert isinstance(protocol, BoundedProtocol)
    return protocol


@pytest.mark.parametrize("piece", [1_000_000, 1])
async def test_trailers_are_not_headers(piece: int) -> None:
    trailers = b"X-API-Key: a\r\nPrefer: wait=30\r\nSec-Fetch-Site: same-origin\r\nExpect: 100-continue\r\n"
    request = CHUNKED.replace(b"/", b"/names", 1) + b"3\r\nabc\r\n0\r\n" + trailers + b"\r\n"
    async with running(limits()) as server, server.client() as client:
        for start in range(0, len(request), piece):
            await client.send(request[start : start + piece])
        assert await client.answer() == (200, b"host transfer-encoding")
        assert await client.ask(REQUEST) == (200, b"0")


@pytest.mark.parametrize("name", ENDLESS)
async def test_chunk_framing_is_bounded(name: str) -> None:
    start, more = ENDLESS[name]
    async with running(limits()) as server, server.client() as client:
        status, body = await client.ask(CHUNKED + b"3\r\nabc\r\n" + start + more)
        assert status == 431
        assert "4096 bytes" in json.loads(body)["detail"]
        assert await client.is_closed()


@pytest.mark.parametrize("name", ENDLESS)
async def test_chunk_framing_is_bounded_after_the_response(name: str) -> None:
    start, more = ENDLESS[name]
    async with running(limits()) as server, server.client() as client:
        assert await client.ask(EARLY + b"3\r\nabc\r\n") == (200, b"0")
        client.writer.write(start)
        assert await flood(client, more) < FLOOD_BYTES
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("chunk", "size", "count"), [(b"1\r\na\r\n", 1, 20_000), (b"00005;a=b\r\nabcde\r\n", 5, 5_000)]
)
async def test_small_chunks_are_accepted(chunk: bytes, size: int, count: int) -> None:
    async with running(limits()) as server, server.client() as client:
        answer = (200, str(size * count).encode())
        assert await client.ask(CHUNKED + chunk * count + b"0\r\na: b\r\n\r\n") == answer


async def test_number_of_headers_is_limited() -> None:
    async with running(limits()) as server, server.client() as client:
        head = b"GET / HTTP/1.1\r\nhost: a\r\n" + b"a:\r\n" * (MAX_HEADERS - 1)
        assert (await client.ask(head + b"\r\n"))[0] == 200
        status, body = await client.ask(head + b"a:\r\n\r\n")
        assert status == 431
        assert str(MAX_HEADERS) in json.loads(body)["detail"]


async def test_length_of_a_content_type_is_limited() -> None:
    async with running(limits()) as server, server.client() as client:
        head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\ncontent-type: a/b"
        parameters = b";" * (MOST_CONTENT_TYPE_BYTES - 3)
        assert (await client.ask(head + parameters + b"\r\n\r\n"))[0] == 200
        status, body = await client.ask(head + parameters + b";\r\n\r\n")
        assert status == 431
        assert "Content-Type may have at most 1,024 bytes" in json.loads(body)["detail"]


@pytest.mark.parametrize("body", [b"", b"a" * 1_000, b"a" * 200_000])
async def test_pipelined_requests_wait_for_the_current_one(body: bytes) -> None:
    release = asyncio.Event()
    later = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    async with running(limits(), held_app(release)) as server, server.client() as client:
        client.writer.write(HELD + later * 300)
        protocol = await only_connection(server)
        assert await eventually(lambda: len(protocol.pipeline)) == 1
        release.set()
        answers = [await client.answer() for _ in range(301)]
        assert answers == [(200, b"0"), *[(200, str(len(body)).encode())] * 300]


@pytest.mark.parametrize("then", [b"\x16\x03 hello\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HT"])
async def test_refusal_does_not_answer_an_earlier_request(then: bytes) -> None:
    release = asyncio.Event()
    async with running(limits(receive=0.3), held_app(release)) as server, server.client() as client:
        client.writer.write(HELD)
        protocol = await only_connection(server)
        await eventually(lambda: protocol.cycle is not None)
        client.writer.write(then)
        await eventually(lambda: not protocol.cycle.keep_alive)
        release.set()
        assert await client.answer() == (200, b"0")
        assert await client.is_closed()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\x16\x03\x01 hello", 400),
        (b"GET / HTTP/1.1", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nhost: a", 400),
        (b"GET / HTTP/1.0\r\nhost: a\r\nhost: b", 400),
        (b"GET / HTTP/1.1\r\nhost: a, b", 400),
        (b"GET / HTTP/1.1\r\nhost: a/b", 400),
        (b"GET / HTTP/1.1\r\nhost: b@a", 400),
        (b"GET / HTTP/1.1\r\nhost: [::1", 400),
        (b"GET / HTTP/1.1\r\nhost: a:b", 400),
        (b"POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked", 400),
        (b"GET / HTTP/2.0\r\nhost: a", 505),
        (b"GET / HTTP/0.9\r\nhost: a", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM", 400),
        (b"CONNECT a:80 HTTP/1.1\r\nhost: a:80", 501),
        (b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551616", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked", 501),
        (b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked", 501),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ncontent-type: application/json", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\nauthorization: Bearer a\r\nauthorization: Bearer b", 400),
        (b"GET /#b HTTP/1.1\r\nhost: a", 400),
        (b"GET http://b/ HTTP/1.1\r\nhost: a", 400),
        (b"GET http://c@a/ HTTP/1.1\r\nhost: a", 400),
        (b"GET http://a/ HTTP/1.0", 400),
        (b"GET http://a HTTP/1.1\r\nhost: a", 400),
        (b"GET http://A:80/ HTTP/1.1\r\nhost: a:80", 200),
        (b"GET /?http://b/ HTTP/1.1\r\nhost: a", 200),
        (b"GET / HTTP/1.0", 200),
        (b"GET / HTTP/1.1\r\nhost:", 200),
        (b"GET / HTTP/1.1\r\nhost: a.example.org:8080", 200),
        (b"GET / HTTP/1.1\r\nhost: [fe80::1]:8080", 200),
        (b"GET / HTTP/1.1\r\nhost: a_b-c.test.", 200),
        (b"GET / HTTP/1.1\r\nhost: \t a \t", 200),
        (b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked \r\n\r\n0", 200),
        (b"GET / HTTP/1.1\r\nhost: a\r\nexpect: 200-maybe", 200),
    ],
)
async def test_ambiguous_heads_are_refused(head: bytes, status: int) -> None:
    async with running(limits()) as server, server.client() as client:
        answered, body = await client.ask(head + b"\r\n\r\n")
        assert answered == status
        if status != 200:
            problem = json.loads(body)
            assert (problem["status"], problem["title"]) == (status, HTTPStatus(status).phrase)
            assert await client.is_closed()


@pytest.mark.parametrize(
    ("head", "detail"),
    [
        ("GET /caf\u00e9 HTTP/1.1\r\nhost: a".encode(), "percent-encoded"),
        (b"GET /a b HTTP/1.1\r\nhost: a", "Expected HTTP/"),
        (b"GET / HTTP/1.1\r\nhost : a", "Invalid header token"),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1", "Content-Length"),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2", "Duplicate Content-Length"),
        (b"GET http://a HTTP/1.1\r\nhost: a", "send a path"),
        (b"GET http://b/ HTTP/1.1\r\nhost: a", "the same host"),
        (b"GET / HTTP/1.1\r\nhost: a\r\ncontent-type: b\r\ncontent-type: c", "the header Content-Type once"),
    ],
)
async def test_refusal_names_its_reason(head: bytes, detail: str) -> None:
    async with running(limits()) as server, server.client() as client:
        _, body = await client.ask(head + b"\r\n\r\n")
        assert detail in json.loads(body)["detail"]


@pytest.mark.parametrize(
    ("sent", "instance"),
    [
        (b"\x16\x03\x01 hello\r\n\r\n", "/"),
        (b"GET /caf\xe9 HTTP/1.1\r\nhost: a\r\n\r\n", "/"),
        (b"OPTIONS * HTTP/1.1\r\n\r\n", "/"),
        (b"CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n", "/"),
        (b"GET http://b HTTP/1.1\r\nhost: a\r\n\r\n", "/"),
        (b"GET http://b/x?y HTTP/1.1\r\nhost: a\r\n\r\n", "/x"),
        (b"GET /%41%2f%20%E9?b=/c HTTP/1.1\r\n\r\n", "/A%2F%20%EF%BF%BD"),
        (b'GET //a/<b>"#c HTTP/1.1\r\nhost: a\r\n\r\n', "//a/%3Cb%3E%22"),
        (b"GET /api HTTP/2.0\r\nhost: a\r\n\r\n", "/api"),
        (b"GET /api HTTP/1.1\r\nhost: a\r\nlong: " + b"a" * 5_000, "/api"),
        (b"GET /" + b"a" * 5_000, "/"),
        (b"GET /" + b"a" * 5_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n", "/"),
        (b"", "/"),
        (b"GET /api HTTP/1.1\r\nhost", "/api"),
        (CHUNKED.replace(b"/", b"/api", 1) + b"no", "/api"),
        (REQUEST.replace(b"/", b"/api", 1) + b"\r\n", "/"),
        (REQUEST.replace(b"/", b"/api", 1) + b"\x16\x03", "/"),
    ],
)
async def test_refusal_names_the_path(sent: bytes, instance: str) -> None:
    async with running(limits(receive=0.3)) as server, server.client() as client:
        if sent.startswith(b"GET /api HTTP/1.1\r\nhost: a\r\n\r\n"):
            head, sent = sent[:-2], sent[-2:]
            assert (await client.ask(head))[0] == 200
        status, body = await client.ask(sent)
        problem = json.loads(body)
        assert (status, problem.keys()) == (problem["status"], {"type", "title", "status", "detail", "instance"})
        assert problem["instance"] == instance


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"TLS/1.0"])
async def test_upgrade_requests_are_answered_as_http(protocol: bytes) -> None:
    upgrade = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: %s\r\nhttp2-settings: AAMAAABk\r\n" % protocol
    get = b"GET / HTTP/1.1\r\nhost: a\r\n" + upgrade + b"\r\n"
    post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n" + upgrade + b"\r\nabc"
    async with running(limits()) as server, server.client() as client:
        client.writer.write((get + post + REQUEST) * 2)
        assert [await client.answer() for _ in range(6)] == [(200, b"0"), (200, b"3"), (200, b"0")] * 2


@pytest.mark.parametrize("expected", [b"100-continue", b"100-continue \t"])
async def test_expect_100_continue(expected: bytes) -> None:
    async with running(limits()) as server, server.client() as client:
        client.writer.write(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: %s\r\ncontent-length: 3\r\n\r\n" % expected)
        assert await client.head() == b"http/1.1 100 continue\r\n\r\n"
        assert await client.ask(b"abc") == (200, b"3")
