"""Tasks that lose a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from storage.pymongo_internals import cancel_and_wait


async def test_one_that_loses_a_cancellation_is_cancelled_again() -> None:
    lost = 0

    async def stubborn() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    async def failing() -> None:
        raise ValueError("its own")

    tasks = asyncio.create_task(stubborn()), asyncio.create_task(failing())
    await asyncio.sleep(0)
    await cancel_and_wait(*tasks, again_s=0.01)
    assert tasks[0].cancelled()
    assert lost == 3
    with pytest.raises(ValueError, match="its own"):
        tasks[1].result()
