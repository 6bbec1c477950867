"""Limits on concurrent waits, bodies and pages: other clients are still served, and memory stays bounded."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest

from domain.delivery import Seen
from storage.orders.repository import document_of
from storage.seen import seen_document
from tests.support.domain_orders import order_of
from tests.support.facade import REVIEWS, body_of, new_id, submission
from tests.support.memory import Memory
from tests.support.service import Json, Servers, Service, running_service
from tests.support.sockets import connection, post_request
from tests.support.waiting import eventually

MIB = 1024 * 1024
SLOTS = 20
WAITS = 50
LONGEST_WAIT_S = 30
LONG = "\U0001f600" * 20_000
"""The longest text that a review can have: 80 KB."""

NOW = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
async def small(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """Run a service with small limits."""
    limits = {
        "MAX_CONCURRENT_REQUESTS": SLOTS,
        "MAX_WAITS_PER_CLIENT": WAITS,
        "MAX_BODIES_BYTES": 4 * MIB,
        "MAX_PAGES_BYTES": 4 * MIB,
        "MAX_ANSWERS_BYTES": 4 * MIB,
        "RECEIVE_TIMEOUT": 15,
    }
    environment = {f"PLAUDIT_HTTP__{name}": str(value) for name, value in limits.items()}
    async with running_service(servers, tmp_path_factory.mktemp("budgets"), **environment) as service:
        yield service


@asynccontextmanager
async def many_clients(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client that sends up to 200 requests concurrently."""
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=service.address, timeout=120, limits=limits) as http:
        yield http


@pytest.mark.long
async def test_other_requests_are_answered_while_many_wait(small: Service) -> None:
    # On a busy machine the first wait may time out before it is checked: then all of it is repeated.
    await eventually(partial(others_are_answered_while_many_wait, small), deadline_s=300)


async def others_are_answered_while_many_wait(small: Service) -> bool:
    """Return False if the first wait timed out too early."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    def is_too_late() -> bool:
        return loop.time() - began >= LONGEST_WAIT_S

    async with many_clients(small) as http, small.mongo() as database, asyncio.TaskGroup() as group:
        ids = [new_id("review") for _ in range(WAITS)]

        async def wait_for(id: str) -> httpx.Response:
            return await http.post(f"{REVIEWS}/approve", json=[id], headers={"Prefer": f"wait={LONGEST_WAIT_S}"})

        async def started() -> bool:
            # There are fewer slots than waits, so refused requests are sent again.
            for id, task in waiting.items():
                if task.done() and task.result().status_code == 503:
                    waiting[id] = group.create_task(wait_for(id))
            return await database["parkedCommands"].count_documents({"reviewId": {"$in": ids}}) == WAITS

        waiting = {id: group.create_task(wait_for(id)) for id in ids}
        await eventually(started)
        await database.command({"profile": 2})
        try:

            async def ask() -> int:
                return (await http.post(f"{REVIEWS}/reviewList", json={"take": 1})).status_code

            await eventually(ask, lambda status: status == 200)  # the last ones may still be on their way to Kafka
            assert [await ask() for _ in range(SLOTS)] == [200] * SLOTS
            answers = await asyncio.gather(*(http.get("/api/stores") for _ in range(SLOTS // 2)))
            assert {answer.status_code for answer in answers} == {200}
            # A single query serves all waits, once the last one waits.
            lookups = {"ns": f"{small.database}.outcomes", "command.find": "outcomes"}

            async def lookup_sizes() -> list[int]:
                found = database["system.profile"].find(lookups).sort("$natural")
                return [len(lookup["command"]["filter"]["_id"]["$in"]) async for lookup in found]

            sizes_seen = await eventually(lookup_sizes, lambda sizes: WAITS in sizes or is_too_late())
            if is_too_late():
                return False
            assert set(sizes_seen[sizes_seen.index(WAITS) :]) == {WAITS}
        finally:
            await database.command({"profile": 0})
            await database["system.profile"].drop()
        too_many = await wait_for(new_id("review"))
        are_done = [task.done() for task in waiting.values()]
        if is_too_late():
            return False
        assert (too_many.status_code, too_many.json()["outcome"]) == (202, "accepted")
        assert "maximum number of waiting requests" in too_many.json()["reason"]
        assert not any(are_done)
        # The reviews exist now, so every wait ends.
        body_of(await http.post(REVIEWS, json=[submission(new_id(), id=id) for id in ids]), dict, 202)
    outcomes = {task.result().json()["outcome"] for task in waiting.values()}
    if "accepted" in outcomes and is_too_late():
        return False
    assert outcomes == {"applied"}
    return True


@pytest.mark.slow
async def test_stalled_bodies_make_room(small: Service) -> None:
    async with AsyncExitStack() as stack:
        stalled = [await stack.enter_async_context(connection(small.port)) for _ in range(12)]
        for each in stalled:
            await each.send(post_request(REVIEWS, b"[" + b" " * (MIB - 2), length=MIB))
        async with connection(small.port) as client:
            for _ in range(5):
                assert (await client.post(f"{REVIEWS}/reviewList", {"take": 1}))[0] == 200
        async with many_clients(small) as http:
            large = [submission(new_id(), review="a" * 9_000) for _ in range(100)]
            # On a busy machine it may be refused before the stalled requests are.
            sent = await eventually(partial(http.post, REVIEWS, json=large), lambda answer: answer.status_code != 503)
            assert sent.status_code == 202
        heads = [await each.head() for each in stalled]
    statuses = [int(head.split()[1]) for head in heads]
    # There is room for three or four bodies; those kept time out in the end.
    assert set(statuses) <= {503, 408}
    assert statuses.count(503) >= 8, statuses
    assert all(b"retry-after:" in head for head, status in zip(heads, statuses, strict=True) if status == 503)


async def _page(http: httpx.AsyncClient, path: str, search: Json) -> list[Any]:
    """Return the whole page, requested again while there is no room for it. The response breaks off if this process, on
    a busy machine, stalls the service for a second while others request the room."""

    async def attempt() -> httpx.Response | None:
        try:
            return await http.post(path, json=search)
        except httpx.RemoteProtocolError:
            return None

    response = await eventually(attempt, lambda answer: answer is not None and answer.status_code != 503)
    assert response is not None
    return list(body_of(response, dict)["results"])


def _review(entity_id: str, number: int, text: str) -> Json:
    return {
        "_id": f"{entity_id}-{number:04}",
        **{"entityType": "Product", "entityId": entity_id, "entityName": None, "storeId": None, "userId": "anna"},
        **{"userName": "Anna", "title": None, "review": text, "ratingHundredths": 400, "status": 0},
        **{"createdDate": NOW, "modifiedDate": NOW},
    }


@pytest.mark.long
async def test_large_pages_are_complete_and_streamed(small: Service) -> None:
    product, count = new_id(), 200
    texts = [LONG if number % 5 else f"Short {number}" for number in range(count)]
    async with small.mongo() as database, many_clients(small) as http:
        reviews = [_review(product, number, text) for number, text in enumerate(texts)]
        for start in range(0, count, 100):
            await database["reviews"].insert_many(reviews[start : start + 100])
        memory = Memory(small.processes["api"].pid)
        search = {"entityIds": [product], "sort": "createdDate:asc", "take": 1_000}
        for rows in await asyncio.gather(*(_page(http, f"{REVIEWS}/reviewList", search) for _ in range(6))):
            assert [row["id"] for row in rows] == [review["_id"] for review in reviews]
            assert [row["review"] for row in rows] == texts
        # Six responses of 13 MB, each a multiple of that in memory.
        assert memory.growth() < 64 * MIB


@pytest.mark.long
async def test_changed_objects_are_streamed(small: Service) -> None:
    ids = [f"{number:06}-{'a' * 100}" for number in range(100_000)]
    async with small.mongo() as database, many_clients(small) as http:
        ratings = [{"_id": id, "entityId": id, "recountedDate": NOW} for id in ids]
        await database["ratings"].insert_many(ratings)
        memory = Memory(small.processes["api"].pid)
        response = await http.post(f"{REVIEWS}/changes", json={"modifiedDate": NOW.isoformat()})
        changed = body_of(response, list)
        grown = memory.growth()
        await database["ratings"].delete_many({"recountedDate": NOW})
    assert changed[: len(ids)] == ids
    # The ids take 11 MB.
    assert grown < 16 * MIB


@pytest.mark.long
async def test_slow_readers_make_room(small: Service, product: str) -> None:
    async with small.mongo() as database, AsyncExitStack() as stack:
        await database["reviews"].insert_many([_review(product, number, LONG) for number in range(150)])
        memory = Memory(small.processes["api"].pid)
        search = {"entityIds": [product], "take": 150}
        for _ in range(2 * SLOTS):
            deaf = await stack.enter_async_context(connection(small.port, limit=1_024))
            await deaf.send(post_request(f"{REVIEWS}/reviewList", json.dumps(search).encode()))
        async with many_clients(small) as http:
            assert len(await _page(http, f"{REVIEWS}/reviewList", search)) == 150
        assert memory.growth() < 64 * MIB


@pytest.mark.long
async def test_pages_of_returns_with_large_orders(small: Service, product: str) -> None:
    body = json.dumps({"note": "a" * MIB}).encode()
    orders = [order_of(id=f"{product}-{n}", body=body) for n in range(30)]
    fields = dict.fromkeys(("resolution", "createdBy", "modifiedBy", "storeId"))
    times = dict.fromkeys(("createdDate", "modifiedDate"), NOW)
    returns: list[Json] = [
        {"_id": order.id, "number": order.id, "orderId": order.id, "status": "New", "lines": [], **fields, **times}
        | {"seen": seen_document(Seen())}
        for order in orders
    ]
    async with small.mongo() as database, many_clients(small) as http:
        for order in orders:
            await database["orders"].insert_one(document_of(order))
        await database["returns"].insert_many(returns)
        memory = Memory(small.processes["api"].pid)
        search = {"objectIds": [order.id for order in orders], "take": 1_000}
        for rows in await asyncio.gather(*(_page(http, "/api/return/search", search) for _ in range(4))):
            assert sorted(row["id"] for row in rows) == sorted(order.id for order in orders)
            assert {len(row["order"]["note"]) for row in rows} == {MIB}
        # Four responses of 30 MB, each a multiple of that in memory.
        assert memory.growth() < 64 * MIB
