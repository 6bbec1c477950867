"""Large counts are cached for a second, small ones are not."""

import asyncio
import tracemalloc

import pytest

from api.counts import KEPT_S, LARGE, LargeCounts
from tests.support.clock import Clock


class Counter:
    """A count query that records its calls, and blocks while `proceed` is cleared."""

    def __init__(self, number: int) -> None:
        self.number, self.calls = number, 0
        self.proceed = asyncio.Event()
        self.proceed.set()

    async def __call__(self) -> int:
        self.calls += 1
        await self.proceed.wait()
        return self.number


async def test_large_count_is_cached_for_a_second() -> None:
    clock, count = Clock(), Counter(LARGE)
    counts = LargeCounts(clock)
    assert await counts.of("all", count) == LARGE
    count.number += 1
    clock.now += KEPT_S * 0.99
    assert await counts.of("all", count) == LARGE
    assert await counts.of("others", count) == LARGE + 1
    clock.now += KEPT_S * 0.02
    assert await counts.of("all", count) == LARGE + 1


async def test_large_searches_are_not_kept() -> None:
    counts = LargeCounts(Clock())
    tracemalloc.start()
    try:
        for n in range(50):
            await counts.of(f"{n}" * 100_000, Counter(LARGE))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


async def test_small_count_is_not_cached() -> None:
    count = Counter(LARGE - 1)
    counts = LargeCounts(Clock())
    await counts.of("all", count)
    count.number = 3
    assert await counts.of("all", count) == 3


async def test_concurrent_callers_share_a_count_despite_cancellation() -> None:
    clock, count = Clock(), Counter(LARGE)
    counts = LargeCounts(clock)
    await counts.of("all", count)
    clock.now += KEPT_S
    count.proceed.clear()
    asking = [asyncio.create_task(counts.of("all", count)) for _ in range(5)]
    await asyncio.sleep(0)
    asking[0].cancel()
    count.proceed.set()
    gave_up, *results = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(gave_up, asyncio.CancelledError)
    assert results == [LARGE] * 4
    assert count.calls == 2


async def test_failed_count_is_retried() -> None:
    clock, count = Clock(), Counter(LARGE)
    counts = LargeCounts(clock)
    await counts.of("all", count)
    clock.now += KEPT_S

    async def failing() -> int:
        raise ConnectionError("away")

    with pytest.raises(ConnectionError):
        await counts.of("all", failing)
    assert await counts.of("all", count) == LARGE
