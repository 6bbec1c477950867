"""Waiting for a condition."""

import asyncio
from collections.abc import Awaitable, Callable

PAUSE_S = 0.02


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Poll until the condition is true; the deadline is the caller's, by `asyncio.timeout`."""
    while True:
        if await condition():
            return
        await asyncio.sleep(PAUSE_S)
