"""The thread in which large bodies are parsed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LARGE: Final = 16 * 1024
"""Bytes above which parsing a body may block the event loop for several milliseconds."""

_THREAD: Final = ThreadPoolExecutor(1, "large-bodies")
"""A single thread, because each further one would take the interpreter from the event loop more often."""


async def parse_in_thread(parse: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Parse a large body outside the event loop, one at a time; returns or raises as `parse` does."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, lambda: parse(*args, **kwargs))
