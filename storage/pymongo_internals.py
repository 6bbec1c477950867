"""Private parts and defects of PyMongo 4.20, each in one function.

tests/unit/test_pymongo_internals.py and test_cancellation.py fail when they change. docs/upstream.md proposes mends.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

_LOST_LOCK: Final = frozenset({"cannot wait on un-acquired lock", "Lock is not acquired"})


def is_lost_lock(error: RuntimeError) -> bool:
    """The connection pool lost its lock while it waited for a server: the texts of `pymongo._asyncio_lock`.

    Seen once, with PyMongo 4 on Python 3.11 during an outage: a plain RuntimeError from `Condition.wait`, and another
    from `Lock.release`. It is no defect of the caller, and the same operation works later.
    """
    return str(error) in _LOST_LOCK


async def cancel_and_wait(*tasks: asyncio.Task[Any], again_s: float = 1.0) -> None:
    """Cancel tasks and wait until they have ended; their exceptions stay with them.

    One that goes on is cancelled again after so many seconds: PyMongo waits by `asyncio.wait_for`, which before
    Python 3.12 loses a cancellation that comes just when its future ends.
    """
    while going_on := [task for task in tasks if not task.done()]:
        for task in going_on:
            task.cancel()
        await asyncio.wait(going_on, timeout=again_s)
