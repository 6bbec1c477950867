"""Threads in which large bodies are parsed and compressed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LARGE: Final = 16 * 1024
"""Bytes above which parsing a body may block the event loop for several milliseconds."""


class LargeBodyThread:
    """A single thread: each further one would take the interpreter from the event loop more often."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Work on a large body, after those that wait already; returns or raises as `work` does."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: work(*args, **kwargs))


JSON_THREAD: Final = LargeBodyThread("large-json")
"""For the slow path of reading alone: in the fast one, which is a single call of Pydantic, no other thread runs."""
FORM_THREAD: Final = LargeBodyThread("large-forms")
"""Apart, so that forms, which take seconds in the worst case, don't delay the API."""
ANSWER_THREAD: Final = LargeBodyThread("large-answers")
"""Apart, so that shops' pages don't wait for the work of others."""
