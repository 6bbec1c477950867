"""The texts of PyMongo's own lock, by which a lost one is told."""

from __future__ import annotations

import pymongo._asyncio_lock
import pytest

from storage.database import is_database_away
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
