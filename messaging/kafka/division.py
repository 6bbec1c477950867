"""The partitions that keys are divided among, the same for all of us who publish at one time.

`plaudit.tools.topics` has a table of the steps in which a topic grows, and who does what then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from time import monotonic
from typing import Final, Protocol

import structlog

from messaging.kafka.connection import BrokerAwayError

log = structlog.get_logger()

KNOWN_S: Final = 20.0
"""An answer about a topic that doesn't grow is good for so long. For longer than that a growth is announced before
anything changes."""

KNOWN_GROWING_S: Final = 3.0
"""An answer about a topic that grows is good for so long. For longer than that all wait before keys are divided
anew."""

SWITCHED_S: Final = 30.0
"""By then keys have been divided anew, or whoever was to do it is gone, and all go on as before."""

_KEPT_S: Final = 5.0
_AGAIN_S: Final = 1.0
_ASK_S: Final = 1.0
_LOOK_S: Final = 0.3
_PATIENCE_S: Final = 10.0
_LONG_AWAY_S: Final = 3.0


class Divided(Protocol):
    """A topic of which `count` partitions are read; `to` is set while it grows."""

    @property
    def count(self) -> int:
        """The number of partitions."""

    @property
    def to(self) -> int | None:
        """The number that there are to be."""

    @property
    def published(self) -> int | None:
        """The number among which we divide keys; None while that changes."""

    @property
    def turn(self) -> str | None:
        """Tells one such change from the next one."""


class Division:
    """Tells the numbers of partitions, asked for every now and then.

    A publisher asks for `counts` each time. The router and the API ask by `check` and `is_settled`, too, before they
    publish what has an order to the topic of changes.

    `ask` tells those of all topics that ever grew, by their names at the broker. `changes` is the topic that only we
    publish to, to which nothing ordered is published while it grows.
    """

    def __init__(self, ask: Callable[[], Awaitable[Mapping[str, Divided]]], changes: str) -> None:
        self._ask = ask
        self._changes = changes
        self._divided: Mapping[str, Divided] = {}
        self._known_at = float("-inf")
        self._ask_at = float("-inf")
        self._away_since: float | None = None
        self._turn: str | None = None
        self._turn_since = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raises BrokerAwayError while the topic of changes grows, and where that isn't known: what has to keep its
        order can't be published then."""
        await self._refresh(KNOWN_S)
        if self._age() >= KNOWN_S:
            raise BrokerAwayError("it isn't known how the topic of changes is divided: the database doesn't tell")
        divided = self._divided.get(self._changes)
        if divided and divided.to:
            raise BrokerAwayError(f"the topic of changes is growing to {divided.to} partitions")

    async def is_settled(self) -> bool:
        """True if that can be published."""
        try:
            await self.check()
        except BrokerAwayError:
            return False
        return True

    async def counts(self, topics: Collection[str]) -> dict[str, int]:
        """The numbers of partitions among which the keys of these topics are divided; of those that never grew none.

        Waits while they change. Raises BrokerAwayError where that takes too long, and where the database has told
        nothing of late of a topic that grows. Of the others what was known last does once the database has been away
        for a while: commands are taken meanwhile.
        """
        end = monotonic() + _PATIENCE_S
        while True:
            is_growing = any(each.to for topic, each in self._divided.items() if topic in topics)
            await self._refresh(KNOWN_GROWING_S if is_growing else KNOWN_S)
            divided = {topic: self._divided[topic] for topic in topics if topic in self._divided}
            obstacle = self._obstacle(divided)
            if not obstacle:
                return {topic: each.published or each.count for topic, each in divided.items()}
            if monotonic() >= end:
                raise BrokerAwayError(obstacle)
            await asyncio.sleep(_LOOK_S)

    async def stop(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    def _obstacle(self, divided: Mapping[str, Divided]) -> str | None:
        growing = sorted(topic for topic, each in divided.items() if each.to)
        if growing and self._age() >= KNOWN_GROWING_S:
            return f"it isn't known how {growing[0]} is divided, which grows: the database doesn't tell"
        if self._age() >= KNOWN_S and not self._is_long_away():
            return "it isn't known how topics are divided: the database doesn't tell"
        if monotonic() < self._turn_since + SWITCHED_S:
            for topic in growing:
                if divided[topic].published is None:
                    return f"{topic} is growing, and its keys are being divided anew"
        return None

    def _age(self) -> float:
        return monotonic() - self._known_at

    def _is_long_away(self) -> bool:
        return self._away_since is not None and monotonic() >= self._away_since + _LONG_AWAY_S

    async def _refresh(self, needed_s: float) -> None:
        """Ask, if it is time; wait for the answer only where what is known is older than needed, and may come soon."""
        if monotonic() < self._ask_at:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._look())
        if self._age() >= needed_s and not self._is_long_away():
            await asyncio.wait([self._asking])

    async def _look(self) -> None:
        began = monotonic()
        try:
            async with asyncio.timeout(_ASK_S):
                self._divided = await self._ask()
        except Exception as error:
            self._ask_at = monotonic() + _AGAIN_S
            self._away_since = began if self._away_since is None else self._away_since
            log.debug("the growth of topics can't be asked for", error=repr(error)[:300])
            return
        is_growing = any(each.to for each in self._divided.values())
        self._known_at, self._ask_at = began, began + (_AGAIN_S if is_growing else _KEPT_S)
        self._away_since = None
        turn = next((each.turn for each in self._divided.values() if each.published is None), None)
        if turn != self._turn:
            self._turn, self._turn_since = turn, began


async def never_grew() -> Mapping[str, Divided]:
    """The answer where no topic ever grew."""
    return {}
