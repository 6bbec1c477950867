"""Workarounds for PyMongo: lost locks, which are told by their texts, and tasks that lose a cancellation."""

from __future__ import annotations

import asyncio

import pymongo._asyncio_lock
import pytest

from storage.database import is_database_away
from storage.pymongo_internals import cancel_and_wait
from tests.support.renaming import rename


async def lost_locks() -> list[RuntimeError]:
    with pytest.raises(RuntimeError) as waited:
        await pymongo._asyncio_lock.Condition(pymongo._asyncio_lock.Lock()).wait()
    with pytest.raises(RuntimeError) as released:
        pymongo._asyncio_lock.Lock().release()
    return [waited.value, released.value]


async def test_a_lock_that_the_driver_lost_is_a_server_that_is_waited_for() -> None:
    assert all(is_database_away(error) for error in await lost_locks())


@pytest.mark.parametrize("text", ["cannot wait on un-acquired lock", "Lock is not acquired"])
async def test_another_text_is_missed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    rename(monkeypatch, "pymongo._asyncio_lock", text)
    assert [is_database_away(error) for error in await lost_locks()].count(False) == 1


def test_a_defect_is_not_waited_for() -> None:
    assert not is_database_away(RuntimeError("dictionary changed size during iteration"))
    assert not is_database_away(KeyError("status"))


async def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
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
