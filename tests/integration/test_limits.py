"""Limits of a running API: slow and large requests, slow queries, many connections, rates."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from functools import partial

import httpx
import pymongo
import pytest
from pymongo.errors import ExecutionTimeout, NetworkTimeout

from api.web.middleware import LastResort
from storage.database import is_too_slow
from tests.support.facade import problem_of
from tests.support.memory import Memory
from tests.support.secured import Secured, running_secured
from tests.support.service import Servers, own_database
from tests.support.sockets import connection
from tests.support.waiting import eventually

CONNECTIONS = 60
FLOOD_BYTES = 600_000_000
FLOOD_S = 5.0
"""A flood ends at whichever comes first; the amount that a busy machine sends in that time doesn't matter."""


@pytest.fixture(scope="module")
async def secured(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured]:
    limits = {
        "PLAUDIT_HTTP__MAX_CONNECTIONS": str(CONNECTIONS),
        "PLAUDIT_HTTP__MAX_HEAD_BYTES": "4096",
        "PLAUDIT_HTTP__RECEIVE_TIMEOUT": "2",
        "PLAUDIT_HTTP__RATE_PER_SECOND": "0.01",
        "PLAUDIT_HTTP__TRUSTED_PROXIES": '["127.0.0.1"]',
    }
    async with running_secured(servers, tmp_path_factory.mktemp("limits"), **limits) as secured:
        yield secured


async def _status_once(secured: Secured, request: bytes) -> int | None:
    """Return the status of the response, None if there is none."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        async with connection(secured.service.port) as client:
            return (await client.ask(request))[0]
    return None


async def _status(secured: Secured, request: bytes) -> int | None:
    """Return the status of the response to a request that is sent in one piece. It is sent again if a slow machine
    exceeds the receive timeout."""
    return await eventually(partial(_status_once, secured, request), lambda status: status not in (None, 408))


@pytest.mark.long
async def test_heads_and_slow_bodies(secured: Secured) -> None:
    token = secured.issuer.token(["customerReviews:read"], subject="slow").encode()
    head = b"POST /api/customerReviews/reviewList HTTP/1.1\r\nhost: a\r\nauthorization: Bearer " + token
    assert await _status(secured, head + b"\r\nlong: " + b"a" * 5_000 + b"\r\n\r\n") == 431
    slow = partial(_status_once, secured, head + b"\r\ncontent-length: 2\r\n\r\n{")
    assert await eventually(slow, lambda status: status is not None) == 408


FLOODS = {
    "trailers": (b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x-api-key: aaaaaaaa\r\n" * 3_000),
    "a trailer": (b"transfer-encoding: chunked\r\n\r\n0\r\na: ", b"a" * 60_000),
    "requests": (b"\r\n", b"GET /api/stores HTTP/1.1\r\nhost:a\r\n\r\n" * 1_500),
    "headers": (b"", b"a:\r\n" * 15_000),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", FLOODS)
async def test_unauthenticated_floods_use_bounded_memory(secured: Secured, kind: str) -> None:
    start, more = FLOODS[kind]
    head = b"GET /api/stores HTTP/1.1\r\nhost: a\r\n" + start
    memory = Memory(secured.service.processes["api"].pid)
    sent, ends = 0, asyncio.get_running_loop().time() + FLOOD_S

    async def flood() -> None:
        nonlocal sent
        while sent < FLOOD_BYTES and asyncio.get_running_loop().time() < ends:
            with suppress(ConnectionError, TimeoutError):
                async with connection(secured.service.port) as client, asyncio.timeout_at(ends):
                    await client.send(head)
                    while not client.reader.at_eof() and sent < FLOOD_BYTES:
                        await client.send(more)
                        sent += len(more)

    await asyncio.gather(*(flood() for _ in range(8)))
    assert memory.peak() < 256 * 1024 * 1024
    assert await _status(secured, b"GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n") == 200


@pytest.mark.long
async def test_idle_connections_shut_nobody_out(secured: Secured) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(3 * CONNECTIONS):
            idle = await stack.enter_async_context(connection(secured.service.port))
            with suppress(ConnectionError):
                await idle.send(b"GET /health/live HTTP/1.1\r\n")
        assert await _status(secured, b"GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n") == 200


@pytest.mark.long
async def test_rates_are_counted_by_client_behind_a_proxy(secured: Secured) -> None:
    async with secured.client([], subject="eager") as eager, secured.client([], subject="patient") as patient:
        assert [(await eager.get("/api/stores")).status_code for _ in range(3)] == [403, 429, 429]
        assert (await patient.get("/api/stores")).status_code == 403

        async def nobody(address: str) -> int:
            headers = {"authorization": "Bearer x", "x-forwarded-for": address}
            return (await eager.get("/api/stores", headers=headers)).status_code

        assert [await nobody("192.0.2.1"), await nobody("192.0.2.1"), await nobody("192.0.2.2")] == [401, 429, 401]


@pytest.mark.long
async def test_server_does_not_identify_its_software(secured: Secured) -> None:
    async with secured.client([], subject="curious") as client:
        for path, status in (("/health/live", 200), ("/nowhere", 404), ("/api/stores", 403)):
            response = await client.get(path)
            assert response.status_code == status
            assert not {"server", "x-powered-by", "date"} & set(response.headers)
            for word in ("uvicorn", "python", "fastapi", "starlette", "traceback", "/site-packages/"):
                assert word not in response.text.lower()


@pytest.mark.long
async def test_database_aborts_slow_query(servers: Servers) -> None:
    async with own_database(servers) as patient, own_database(servers, query_timeout=3.0) as database:
        things = patient.client[database.name]["things"]
        await things.insert_one({})
        with pymongo.timeout(60):
            await database.command("ping")  # connected: only the query takes time

        async def running() -> list[object]:
            wanted = {"ns": things.full_name, "active": True}
            return list((await patient.client.admin.command({"currentOp": True, **wanted}))["inprog"])

        async def seen_query() -> asyncio.Task[object] | None:
            """A slow query that has been seen on the server; None if it ended before that, as on a busy machine."""
            # No client of the API could cause this query.
            query = asyncio.create_task(database["things"].find_one({"$where": "sleep(200000) || true"}))
            while not await running():
                if query.done():
                    assert query.exception()
                    return None
                await asyncio.sleep(0.05)
            return query

        slow = await eventually(seen_query)
        assert slow
        with pytest.raises((ExecutionTimeout, NetworkTimeout)) as caught:
            await slow
        assert is_too_slow(caught.value)
        # Not only the client gave up: the server does not continue for 200 s.
        await eventually(running, lambda operations: not operations)


async def test_slow_query_is_distinguished_from_unavailable_database() -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        raise ExecutionTimeout("operation exceeded time limit", 50)

    transport = httpx.ASGITransport(LastResort(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://plaudit.test") as http:
        problem = problem_of(await http.get("/"), 503)
        assert problem["type"] == "/problems/query-timeout"
        assert "Try again; a search is faster with narrower filters" in problem["detail"]
