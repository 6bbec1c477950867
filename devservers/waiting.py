"""Waiting for a condition."""

import asyncio
from collections.abc import Awaitable, Callable

_PAUSE_S = 0.02


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again until the answer is yes; the deadline is the caller's, by `asyncio.timeout`."""
    while True:
        if await condition():
            return
        await asyncio.sleep(_PAUSE_S)
