"""Large counts, cached for a second: MongoDB counts entry by entry, half a second for a million."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from time import monotonic
from typing import Final

LARGE: Final = 10_000
"""Counts of at least this many are cached; smaller ones are computed each time."""

KEPT_S: Final = 1.0
_MOST_KEPT: Final = 1_000


class LargeCounts:
    """Counts of at least `LARGE`, cached for `KEPT_S` seconds each; once one expires, concurrent callers share one
    recount."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        self._counting: dict[bytes, asyncio.Task[int]] = {}

    async def of(self, search: object, count: Callable[[], Awaitable[int]]) -> int:
        """The count of a search, which its `repr` identifies. Raises the errors of `count`."""
        # A search may be as large as a request.
        what = blake2b(repr(search).encode(errors="surrogatepass"), digest_size=16).digest()
        if what not in self._kept:
            return await self._count_and_keep(what, count)
        number, until = self._kept[what]
        if self._clock() < until:
            return number
        counting = self._counting.get(what)
        if counting is None:
            counting = self._counting[what] = asyncio.create_task(self._count_and_keep(what, count))
            counting.add_done_callback(lambda _: self._counting.pop(what))
        # A caller that is cancelled doesn't cancel the count for the others.
        return await asyncio.shield(counting)

    async def _count_and_keep(self, what: bytes, count: Callable[[], Awaitable[int]]) -> int:
        number = await count()
        self._kept.pop(what, None)
        if number >= LARGE:
            self._kept[what] = (number, self._clock() + KEPT_S)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return number
