"""Concurrent look-ups that share queries."""

import asyncio
from collections.abc import Collection
from contextvars import ContextVar

import pytest

from api.web.shared_queries import CachedQueries, SharedQueries
from storage.database import result_or_default

LIMIT_S: ContextVar[float | None] = ContextVar("LIMIT_S", default=None)
"""A context variable, as PyMongo uses for its own timeout."""


class Shelf:
    """A source of values that waits for a gate and records its queries."""

    def __init__(self) -> None:
        self.things = {"a": 1, "b": 2}
        self.asked: list[set[str]] = []
        self.is_asked: asyncio.Queue[None] = asyncio.Queue()
        self.go_on = asyncio.Event()

    async def __call__(self, keys: Collection[str]) -> dict[str, int]:
        self.asked.append(set(keys))
        self.is_asked.put_nowait(None)
        found = {key: self.things[key] for key in keys if key in self.things}
        await self.go_on.wait()
        return found


async def test_those_who_ask_meanwhile_are_answered_by_one_query_and_each_gets_its_own() -> None:
    shelf = Shelf()
    together = SharedQueries(shelf)
    first = asyncio.create_task(together.of(["a"]))
    await shelf.is_asked.get()
    second = asyncio.create_task(together.of(["b"]))
    await shelf.is_asked.get()
    later = [asyncio.create_task(together.of(keys)) for keys in (["a"], ["b", "c"], ["a", "b"])]
    await asyncio.sleep(0)
    shelf.go_on.set()
    assert await asyncio.gather(first, second, *later) == [{"a": 1}, {"b": 2}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}]
    assert shelf.asked == [{"a"}, {"b"}, {"a", "b", "c"}]


async def test_no_answer_is_older_than_its_question() -> None:
    shelf = Shelf()
    together = SharedQueries(shelf)
    early = asyncio.create_task(together.of(["a"]))
    await shelf.is_asked.get()
    shelf.things["a"] = 7
    late = asyncio.create_task(together.of(["a"]))
    await asyncio.sleep(0)
    shelf.go_on.set()
    assert list(await asyncio.gather(early, late)) == [{"a": 1}, {"a": 7}]


async def test_a_failure_is_told_to_all_and_forgotten() -> None:
    failing = True

    async def ask(keys: Collection[str]) -> dict[str, int]:
        if failing:
            raise ConnectionError("away")
        return dict.fromkeys(keys, 1)

    together = SharedQueries(ask)
    told = await asyncio.gather(*(together.of(["a"]) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [ConnectionError] * 3
    failing = False
    assert await together.of(["a"]) == {"a": 1}


async def test_one_who_gives_up_spoils_nothing_for_the_others() -> None:
    shelf = Shelf()
    together = SharedQueries(shelf)
    asking = [asyncio.create_task(together.of(["a"])) for _ in range(2)]
    await shelf.is_asked.get()
    asking[0].cancel()
    shelf.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asking[0]
    assert await asking[1] == {"a": 1}


async def test_the_limit_of_who_asks_first_is_not_that_of_the_others() -> None:
    limits = []

    async def ask(keys: Collection[str]) -> dict[str, int]:
        limits.append(LIMIT_S.get())
        return {}

    LIMIT_S.set(1)
    await SharedQueries(ask).of(["a"])
    assert limits == [None]


async def test_nothing_is_asked_for_nothing() -> None:
    shelf = Shelf()
    assert await SharedQueries(shelf).of([]) == {}
    assert shelf.asked == []


async def test_an_answer_is_kept_for_its_time_and_none_is_not() -> None:
    shelf = Shelf()
    shelf.go_on.set()
    kept = CachedQueries(shelf, age_s=60)
    assert await kept.of(["a", "c"]) == {"a": 1}
    shelf.things = {"a": 2, "b": 3, "c": 4}
    assert await kept.of(["a", "b", "c"]) == {"a": 1, "b": 3, "c": 4}
    assert shelf.asked == [{"a", "c"}, {"b", "c"}]


async def test_an_old_answer_is_asked_for_again() -> None:
    shelf = Shelf()
    shelf.go_on.set()
    kept = CachedQueries(shelf, age_s=0)
    await kept.of(["a"])
    shelf.things["a"] = 7
    assert await kept.of(["a"]) == {"a": 7}


async def test_what_is_forgotten_is_asked_for_anew_and_remembered_all_the_same() -> None:
    shelf = Shelf()
    shelf.go_on.set()
    kept = CachedQueries(shelf, age_s=60)
    await kept.of(["a", "b"])
    kept.forget()
    assert kept.remembered(["a", "c"]) == {"a": 1}
    shelf.things["a"] = 7
    assert await kept.of(["a"]) == {"a": 7}
    assert kept.remembered(["a", "b"]) == {"a": 7, "b": 2}
    assert shelf.asked == [{"a", "b"}, {"a"}]


async def test_what_is_forgotten_while_it_is_asked_for_is_not_kept() -> None:
    shelf = Shelf()
    kept = CachedQueries(shelf, age_s=60)
    early = asyncio.create_task(kept.of(["a"]))
    await shelf.is_asked.get()
    shelf.things["a"] = 7
    kept.forget()
    shelf.go_on.set()
    assert await early == {"a": 1}
    assert await kept.of(["a"]) == {"a": 7}


async def test_who_waits_for_a_moment_alone_gives_up_and_the_others_are_answered() -> None:
    """The query doesn't inherit one caller's timeout, and goes on for the others."""
    shelf = Shelf()
    together = SharedQueries(shelf)
    patient = asyncio.create_task(together.of(["b"]))
    async with asyncio.timeout(60):
        assert await result_or_default(together.of(["a"]), {"a": 0}) == {"a": 0}
    shelf.go_on.set()
    assert await patient == {"b": 2}
    assert shelf.asked == [{"a", "b"}]
