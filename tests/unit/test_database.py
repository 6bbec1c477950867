"""What is told from MongoDB's being away, and what isn't."""

from __future__ import annotations

import pytest
from pymongo._asyncio_lock import Condition, Lock

from storage.database import is_database_away


async def test_a_lock_that_the_driver_lost_is_a_server_that_is_waited_for() -> None:
    with pytest.raises(RuntimeError) as waited:
        await Condition(Lock()).wait()
    with pytest.raises(RuntimeError) as released:
        Lock().release()
    assert is_database_away(waited.value)
    assert is_database_away(released.value)


def test_a_defect_is_not_waited_for() -> None:
    assert not is_database_away(RuntimeError("dictionary changed size during iteration"))
    assert not is_database_away(KeyError("status"))
