"""Private parts of PyMongo 4.20, checked in one place: tests/unit/test_pymongo_internals.py fails when they change."""

from __future__ import annotations

from typing import Final

_LOST_LOCK: Final = frozenset({"cannot wait on un-acquired lock", "Lock is not acquired"})


def is_lost_lock(error: RuntimeError) -> bool:
    """The connection pool lost its lock while it waited for a server: the texts of `pymongo._asyncio_lock`.

    Seen once, with PyMongo 4 on Python 3.11 during an outage: a plain RuntimeError from `Condition.wait`, and another
    from `Lock.release`. It is no defect of the caller, and the same operation works later.
    """
    return str(error) in _LOST_LOCK
