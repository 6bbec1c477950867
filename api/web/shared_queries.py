"""Look-ups that come at the same time, coalesced into one query; and values that are cached for a moment.

A query by the driver costs the facade several times its own part of a request. Under load many requests look up the
same kind of thing at once, and one query answers them all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import Context
from time import monotonic
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_AT_ONCE: Final = 2
"""Number of concurrent queries: one is answered while the next is sent."""

_MOST_KEYS: Final = 2_000

_MOST_KEPT: Final = 10_000


class _Batch(Generic[K, V]):
    def __init__(self) -> None:
        self.keys: set[K] = set()
        self.answers: asyncio.Future[Mapping[K, V]] = asyncio.get_running_loop().create_future()
        # All callers may be cancelled: asyncio must not report that nobody retrieved the error.
        self.answers.add_done_callback(lambda answers: answers.cancelled() or answers.exception())


class SharedQueries(Generic[K, V]):
    """Answers many look-ups by few queries. Nothing is cached: a look-up that comes while queries are running waits for
    the next one, so that no answer is older than its question."""

    def __init__(self, ask: Callable[[Collection[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._ask = ask
        self._query_slots = asyncio.Semaphore(_AT_ONCE)
        self._gathering: _Batch[K, V] | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def of(self, keys: Collection[K]) -> dict[K, V]:
        """The values of these keys. Raises the errors of the query."""
        if not keys:
            return {}
        batch = self._gathering
        if batch is None:
            batch = self._gathering = _Batch()
            # In an empty context: the timeout of the first caller must not apply to those who join.
            task = asyncio.create_task(self._run(batch), context=Context())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        batch.keys.update(keys)
        if len(batch.keys) >= _MOST_KEYS:
            self._gathering = None
        answers = await asyncio.shield(batch.answers)
        return {key: answers[key] for key in keys if key in answers}

    async def _run(self, batch: _Batch[K, V]) -> None:
        async with self._query_slots:
            if self._gathering is batch:
                self._gathering = None
            try:
                answers = await self._ask(batch.keys)
            except Exception as error:
                batch.answers.set_exception(error)
            else:
                batch.answers.set_result(answers)


class CachedQueries(Generic[K, V]):
    """Values that may be `age_s` seconds old, for what changes rarely. Missing values aren't cached."""

    def __init__(self, ask: Callable[[Collection[K]], Awaitable[Mapping[K, V]]], age_s: float) -> None:
        self._together = SharedQueries(ask)
        self._age_s = age_s
        self._kept: dict[K, tuple[int, float, V]] = {}
        self._forgotten = 0

    async def of(self, keys: Collection[K]) -> dict[K, V]:
        """The values of these keys. Raises the errors of the query."""
        now, forgotten = monotonic(), self._forgotten
        known = {key: kept[2] for key in keys if (kept := self._kept.get(key)) and kept[:2] > (forgotten, now)}
        if len(known) == len(keys):
            return known
        found = await self._together.of([key for key in keys if key not in known])
        # Values that were queried before a `forget` may be outdated.
        if forgotten == self._forgotten:
            if len(self._kept) + len(found) > _MOST_KEPT:
                self._kept.clear()
            self._kept |= {key: (forgotten, now + self._age_s, answer) for key, answer in found.items()}
        return known | found

    def remembered(self, keys: Collection[K]) -> dict[K, V]:
        """The last values of these keys, however old, as far as they are cached."""
        return {key: self._kept[key][2] for key in keys if key in self._kept}

    def forget(self) -> None:
        """Query every value anew: they have changed, or a client has seen newer ones. `remembered` still has the old
        ones."""
        self._forgotten += 1
