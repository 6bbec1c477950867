"""Cancellation of tasks that use the database."""

from __future__ import annotations

import asyncio
from typing import Any


async def ended(*tasks: asyncio.Task[Any], again_s: float = 1.0) -> None:
    """Cancel tasks and wait until they have ended; what they raise stays with them.

    One that goes on is cancelled again after so many seconds: PyMongo waits by `asyncio.wait_for`, which before
    Python 3.12 loses a cancellation that comes just when what it waits for is done.
    """
    while going_on := [task for task in tasks if not task.done()]:
        for task in going_on:
            task.cancel()
        await asyncio.wait(going_on, timeout=again_s)
