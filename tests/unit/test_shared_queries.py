"""Concurrent look-ups that share queries."""

import asyncio
from collections.abc import Collection
from contextvars import ContextVar

import pytest

from api.web.shared_queries import CachedQueries, SharedQueries
from storage.database import result_or_default

LIMIT_S: ContextVar[float | None] = ContextVar("LIMIT_S", default=None)
"""A context variable, as PyMongo uses for its own timeout."""


class GatedSource:
    """A source of values that waits for a gate and records its queries."""

    def __init__(self) -> None:
        self.things = {"a": 1, "b": 2}
        self.queries: list[set[str]] = []
        self.started: asyncio.Queue[None] = asyncio.Queue()
        self.gate = asyncio.Event()

    async def __call__(self, keys: Collection[str]) -> dict[str, int]:
        self.queries.append(set(keys))
        self.started.put_nowait(None)
        found = {key: self.things[key] for key in keys if key in self.things}
        await self.gate.wait()
        return found


@pytest.fixture
def source() -> GatedSource:
    return GatedSource()


async def test_concurrent_callers_share_one_query_and_get_their_own_results(source: GatedSource) -> None:
    shared = SharedQueries(source)
    first = asyncio.create_task(shared.of(["a"]))
    await source.started.get()
    second = asyncio.create_task(shared.of(["b"]))
    await source.started.get()
    later = [asyncio.create_task(shared.of(keys)) for keys in (["a"], ["b", "c"], ["a", "b"])]
    await asyncio.sleep(0)
    source.gate.set()
    assert await asyncio.gather(first, second, *later) == [{"a": 1}, {"b": 2}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}]
    assert source.queries == [{"a"}, {"b"}, {"a", "b", "c"}]


async def test_no_answer_is_older_than_its_question(source: GatedSource) -> None:
    shared = SharedQueries(source)
    early = asyncio.create_task(shared.of(["a"]))
    await source.started.get()
    source.things["a"] = 7
    late = asyncio.create_task(shared.of(["a"]))
    await asyncio.sleep(0)
    source.gate.set()
    assert list(await asyncio.gather(early, late)) == [{"a": 1}, {"a": 7}]


async def test_failure_reaches_all_callers_and_is_not_cached() -> None:
    failing = True

    async def fail_or_answer(keys: Collection[str]) -> dict[str, int]:
        if failing:
            raise ConnectionError("away")
        return dict.fromkeys(keys, 1)

    shared = SharedQueries(fail_or_answer)
    results = await asyncio.gather(*(shared.of(["a"]) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in results] == [ConnectionError] * 3
    failing = False
    assert await shared.of(["a"]) == {"a": 1}


async def test_cancelled_caller_does_not_affect_the_others(source: GatedSource) -> None:
    shared = SharedQueries(source)
    callers = [asyncio.create_task(shared.of(["a"])) for _ in range(2)]
    await source.started.get()
    callers[0].cancel()
    source.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await callers[0]
    assert await callers[1] == {"a": 1}


async def test_query_does_not_inherit_the_first_callers_timeout() -> None:
    limits = []

    async def note_limit(keys: Collection[str]) -> dict[str, int]:
        limits.append(LIMIT_S.get())
        return {}

    LIMIT_S.set(1)
    await SharedQueries(note_limit).of(["a"])
    assert limits == [None]


async def test_no_keys_need_no_query(source: GatedSource) -> None:
    assert await SharedQueries(source).of([]) == {}
    assert source.queries == []


async def test_answers_are_cached_and_misses_are_not(source: GatedSource) -> None:
    source.gate.set()
    kept = CachedQueries(source, age_s=60)
    assert await kept.of(["a", "c"]) == {"a": 1}
    source.things = {"a": 2, "b": 3, "c": 4}
    assert await kept.of(["a", "b", "c"]) == {"a": 1, "b": 3, "c": 4}
    assert source.queries == [{"a", "c"}, {"b", "c"}]


async def test_expired_answer_is_queried_again(source: GatedSource) -> None:
    source.gate.set()
    kept = CachedQueries(source, age_s=0)
    await kept.of(["a"])
    source.things["a"] = 7
    assert await kept.of(["a"]) == {"a": 7}


async def test_forgotten_answer_is_queried_again_but_still_remembered(source: GatedSource) -> None:
    source.gate.set()
    kept = CachedQueries(source, age_s=60)
    await kept.of(["a", "b"])
    kept.forget()
    assert kept.remembered(["a", "c"]) == {"a": 1}
    source.things["a"] = 7
    assert await kept.of(["a"]) == {"a": 7}
    assert kept.remembered(["a", "b"]) == {"a": 7, "b": 2}
    assert source.queries == [{"a", "b"}, {"a"}]


async def test_answer_forgotten_during_its_query_is_not_cached(source: GatedSource) -> None:
    kept = CachedQueries(source, age_s=60)
    early = asyncio.create_task(kept.of(["a"]))
    await source.started.get()
    source.things["a"] = 7
    kept.forget()
    source.gate.set()
    assert await early == {"a": 1}
    assert await kept.of(["a"]) == {"a": 7}


async def test_impatient_caller_gives_up_while_the_others_are_answered(source: GatedSource) -> None:
    """The query doesn't inherit one caller's timeout, and goes on for the others."""
    shared = SharedQueries(source)
    patient = asyncio.create_task(shared.of(["b"]))
    async with asyncio.timeout(60):
        assert await result_or_default(shared.of(["a"]), {"a": 0}) == {"a": 0}
    source.gate.set()
    assert await patient == {"b": 2}
    assert source.queries == [{"a", "b"}]
