"""Waiting until something holds, and free ports."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, TypeVar, overload

T = TypeVar("T")

DEADLINE_S: Final = 90.0
"""As long as a server may take to start on a busy machine."""


@overload
async def eventually(
    question: Callable[[], Awaitable[T]],
    expected: Callable[[T], bool] = ...,
    *,
    deadline_s: float = ...,
    pause_s: float = ...,
) -> T: ...
@overload
async def eventually(
    question: Callable[[], T], expected: Callable[[T], bool] = ..., *, deadline_s: float = ..., pause_s: float = ...
) -> T: ...
async def eventually(
    question: Callable[[], Any],
    expected: Callable[[Any], bool] = bool,
    *,
    deadline_s: float = DEADLINE_S,
    pause_s: float = 0.03,
) -> Any:
    """Ask until the answer is as expected, and return it; fail with the last answer after the deadline."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while True:
        answer = question()
        if isawaitable(answer):
            answer = await answer
        if expected(answer):
            return answer
        if loop.time() > end:
            raise AssertionError(f"not within {deadline_s} s; the last answer: {answer!r}"[:2_000])
        await asyncio.sleep(pause_s)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
