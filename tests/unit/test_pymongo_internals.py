"""Workarounds for PyMongo: locks that stay acquired, and tasks that lose a cancellation."""

import asyncio
import sys
from contextlib import suppress
from typing import Any

import pymongo.lock
import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import (
    BulkWriteError,
    DuplicateKeyError,
    InvalidOperation,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from storage.database import is_database_away
from storage.pymongo_internals import cancel_and_wait, is_of_closed_client, side_by_side


async def blocks_after_cancellations(within_s: float) -> bool:
    """True if a client without a server stays blocked for `within_s` after repeated cancellations of tasks that waited
    for one."""
    client = AsyncMongoClient[dict[str, Any]]("mongodb://127.0.0.1:1/?replicaSet=none", serverSelectionTimeoutMS=30_000)
    tasks = [asyncio.create_task(client.database.things.find_one()) for _ in range(50)]
    await asyncio.sleep(0.2)  # all of them wait for a server
    for _ in range(3):
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait(tasks, timeout=within_s)
    lock = client._topology._lock
    is_blocked = not await _can_be_acquired(lock, within_s)
    while lock.locked():
        lock.release()
        await asyncio.sleep(0.01)
    await client.close()
    return is_blocked


async def _can_be_acquired(lock: Any, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s), lock:
            return True
    except TimeoutError:
        return False


async def test_cancelled_operations_leave_the_client_usable() -> None:
    assert not await blocks_after_cancellations(within_s=60)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="asyncio.wait_for waits in one task since Python 3.12")
async def test_client_hangs_without_the_workaround(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pymongo.lock, "wait_for", asyncio.wait_for)
    # On a busy machine, not all operations wait for the lock when they are cancelled.
    for _ in range(3):
        if await blocks_after_cancellations(within_s=1):
            return
    pytest.fail("the client has never hung")


def test_programming_error_is_not_an_outage() -> None:
    assert not is_database_away(RuntimeError("dictionary changed size during iteration"))
    assert not is_database_away(KeyError("status"))


async def test_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    lost = 0

    async def stubborn() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    async def failing() -> None:
        raise ValueError("its own")

    tasks = asyncio.create_task(stubborn()), asyncio.create_task(failing())
    await asyncio.sleep(0)
    await cancel_and_wait(*tasks, again_s=0.01)
    assert tasks[0].cancelled()
    assert lost == 3
    with pytest.raises(ValueError, match="its own"):
        tasks[1].result()


async def test_errors_of_a_closed_client_are_recognized() -> None:
    client = AsyncMongoClient[dict[str, Any]]("mongodb://127.0.0.1:1", serverSelectionTimeoutMS=10)
    with pytest.raises(ServerSelectionTimeoutError) as away:
        await client.database.things.find_one()
    await client.close()
    with pytest.raises(InvalidOperation) as closed:
        await client.database.things.find_one()
    assert (is_of_closed_client(closed.value), is_of_closed_client(away.value)) == (True, False)


def test_error_messages_have_no_stored_data() -> None:
    failure = {"index": 0, "code": 121, "errmsg": "Document failed validation", "op": {"review": "by Ann"}}
    bulk = BulkWriteError({"writeErrors": [failure, failure], "nInserted": 0})
    assert str(bulk) == "batch op errors occurred; Document failed validation (121)"
    assert bulk.details["writeErrors"] == [failure, failure]
    key = 'E11000 duplicate key error collection: shop.reviews index: _id_ dup key: { _id: "ann@example.com" }'
    assert str(DuplicateKeyError(key, 11000, {"errmsg": key})) == key.partition(" dup key")[0]
    refused = 'not authorized on shop to execute command { find: "orders", filter: { customer: "ann@example.com" } }'
    assert str(OperationFailure(refused, 13, {})) == 'not authorized on shop to execute command { find: "orders" }'


async def _ignore_cancellations(losses: int, begun: asyncio.Event) -> None:
    """Wait until cancelled, and ignore this number of cancellations."""
    begun.set()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            losses -= 1
            if losses < 0:
                raise


async def test_side_by_side_ends_although_tasks_lose_cancellations() -> None:
    begun = [asyncio.Event(), asyncio.Event()]
    running = asyncio.create_task(side_by_side(_ignore_cancellations(2, begun[0]), _ignore_cancellations(0, begun[1])))
    await asyncio.gather(*(each.wait() for each in begun))
    async with asyncio.timeout(60):
        await cancel_and_wait(running, again_s=0.01)
    assert running.cancelled()


async def test_cancelled_side_by_side_waits_for_its_tasks() -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    async def slow_to_end() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            with suppress(asyncio.CancelledError):
                await end.wait()
            await end.wait()

    slow = asyncio.create_task(slow_to_end())
    waiting = asyncio.create_task(side_by_side(slow))
    await begun.wait()
    for _ in range(3):
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done()
    end.set()
    async with asyncio.timeout(60):
        await asyncio.wait([waiting])
    assert (waiting.cancelled(), slow.done()) == (True, True)


async def test_failed_task_ends_those_beside_it() -> None:
    begun, ended = asyncio.Event(), list[bool]()

    async def failing() -> None:
        await begun.wait()
        raise KeyError

    async def lasting() -> None:
        try:
            await _ignore_cancellations(0, begun)
        finally:
            ended.append(True)

    with pytest.raises(KeyError):
        await side_by_side(failing(), lasting())
    assert ended == [True]
