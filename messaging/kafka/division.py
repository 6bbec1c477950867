"""The partitions of `review-changes` that places are divided among, the same for all who publish at one time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, Protocol

import structlog

from messaging.kafka.connection import BrokerAwayError

log = structlog.get_logger()

KNOWN_S: Final = 20.0
"""A number that was told is good for so long. For longer than that nothing ordered is published before the topic is
divided anew."""

_KEPT_S: Final = 5.0
_AGAIN_S: Final = 1.0
_ASK_S: Final = 1.0


class Divided(Protocol):
    """A topic whose keys are divided among `count` partitions; `to` is set while it grows."""

    @property
    def count(self) -> int:
        """The number of partitions."""

    @property
    def to(self) -> int | None:
        """The number that there are to be."""


class Division:
    """Tells the number of partitions, asked for every now and then."""

    def __init__(self, ask: Callable[[], Awaitable[Divided | None]]) -> None:
        self._ask = ask
        self._divided: Divided | None = None
        self._known_at = float("-inf")
        self._ask_at = float("-inf")
        self._asking = asyncio.Lock()

    async def check(self) -> None:
        """Raises BrokerAwayError while the topic grows, and where that isn't known: what has to keep its order can't be
        published then."""
        if monotonic() >= self._ask_at:
            async with self._asking:
                if monotonic() >= self._ask_at:
                    await self._look()
        if monotonic() >= self._known_at + KNOWN_S:
            raise BrokerAwayError("it isn't known how the topic of changes is divided: the database doesn't tell")
        if self._divided and self._divided.to:
            raise BrokerAwayError(f"the topic of changes is growing to {self._divided.to} partitions")

    async def is_settled(self) -> bool:
        """True if that can be published."""
        try:
            await self.check()
        except BrokerAwayError:
            return False
        return True

    async def count(self) -> int | None:
        """The number of partitions as it was known last; None for all that there are."""
        await self.is_settled()
        return self._divided.count if self._divided else None

    async def _look(self) -> None:
        began = monotonic()
        try:
            async with asyncio.timeout(_ASK_S):
                self._divided = await self._ask()
        except Exception as error:
            # Those who wait for the same answer don't ask again, one after the other.
            self._ask_at = monotonic() + _AGAIN_S
            log.debug("the growth of topics can't be asked for", error=repr(error)[:300])
            return
        self._known_at, self._ask_at = began, began + (_AGAIN_S if self._divided and self._divided.to else _KEPT_S)


async def never_grew() -> None:
    """The answer for a topic that never grew."""
