"""Waiting for a condition, and free ports for servers that tests start."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, TypeVar, overload

from devservers.ports import ReservedPort

T = TypeVar("T")

DEADLINE_S: Final = 90.0
"""Seconds until a server has started on a busy machine."""

_SHORTEST_PAUSE_S: Final = 0.03


@overload
async def eventually(
    question: Callable[[], Awaitable[T]],
    expected: Callable[[T], bool] = ...,
    *,
    deadline_s: float = ...,
    pause_s: float | None = ...,
) -> T: ...
@overload
async def eventually(
    question: Callable[[], T],
    expected: Callable[[T], bool] = ...,
    *,
    deadline_s: float = ...,
    pause_s: float | None = ...,
) -> T: ...
async def eventually(
    question: Callable[[], Any],
    expected: Callable[[Any], bool] = bool,
    *,
    deadline_s: float = DEADLINE_S,
    pause_s: float | None = None,
) -> Any:
    """Poll until the result is as expected, and return it. Raises AssertionError with the last result after the
    deadline.

    Without `pause_s` the pauses grow, because polling takes processor time from the work that is waited for.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        answer = question()
        if isawaitable(answer):
            answer = await answer
        if expected(answer):
            return answer
        waited_s = loop.time() - began
        if waited_s > deadline_s:
            raise AssertionError(f"condition not met within {deadline_s} s; last result: {answer!r}"[:2_000])
        await asyncio.sleep(max(_SHORTEST_PAUSE_S, waited_s / 8) if pause_s is None else pause_s)


_RESERVED: Final[list[ReservedPort]] = []


def free_port() -> int:
    """A port that no other process on this machine gets while this process lives.

    A server with SO_REUSEADDR, as usual, can listen on it. Without one, connections are refused.
    """
    port = ReservedPort(0)
    _RESERVED.append(port)
    return port.number
