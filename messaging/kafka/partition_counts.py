"""The number of partitions that keys are distributed among, the same for all our processes that publish at a time.

`plaudit.tools.topics` has a table of the steps in which a topic grows, and of who does what in each.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Final

import structlog

from messaging.kafka.connection import BrokerAwayError
from messaging.server_errors import for_log

log = structlog.get_logger()

KNOWN_S: Final = 20.0
"""Seconds for which an answer about a topic that doesn't grow is valid. A growth is announced for longer than that
before anything changes."""

KNOWN_GROWING_S: Final = 3.0
"""Seconds for which an answer about a growing topic is valid. All processes wait for longer than that before its keys
are redistributed."""

SWITCHED_S: Final = 30.0
"""Seconds after which keys have been redistributed, or the process that does it is gone: all then go on as before."""

_REFRESH_S: Final = 5.0
_RETRY_S: Final = 1.0
_ASK_TIMEOUT_S: Final = 1.0
_POLL_S: Final = 0.3
_MAX_WAIT_S: Final = 10.0
_LONG_OUTAGE_S: Final = 3.0


class Step(StrEnum):
    """The step of our own processes while a topic grows: they divide its keys as before, wait, or divide them anew."""

    ANNOUNCED = "announced"
    SWITCHING = "switching"
    SWITCHED = "switched"


@dataclass(frozen=True, slots=True)
class Growth:
    """The partitions of a topic."""

    count: int
    """The number of partitions that may be read."""
    to: int | None = None
    """The number of partitions that it grows to; None while it doesn't."""
    step: Step = Step.ANNOUNCED
    turn: str | None = None
    """A new value each time that keys are being divided anew."""

    @property
    def published(self) -> int | None:
        """The number of partitions among which our own processes divide keys; None while that changes."""
        if self.to is None or self.step is Step.ANNOUNCED:
            return self.count
        return self.to if self.step is Step.SWITCHED else None


class PartitionCounts:
    """Knows the numbers of partitions, and refreshes them regularly.

    A publisher calls `counts` each time. The router and the API also call `check` or `is_stable` before they publish
    ordered messages to the topic of changes.

    `ask` returns the numbers of all topics that ever grew, by full name. `changes` is the topic that only we publish
    to, and to which nothing ordered is published while it grows.
    """

    def __init__(self, ask: Callable[[], Awaitable[Mapping[str, Growth]]], changes: str) -> None:
        self._ask = ask
        self._changes = changes
        self._topics: Mapping[str, Growth] = {}
        self._known_at = float("-inf")
        self._next_ask_at = float("-inf")
        self._away_since: float | None = None
        self._turn: str | None = None
        self._turn_since = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raise BrokerAwayError while the topic of changes grows, or if that is unknown: nothing ordered can be
        published to it then."""
        await self._refresh(KNOWN_S)
        if self._age() >= KNOWN_S:
            raise BrokerAwayError("the partitioning of the topic of changes is unknown: the database is unavailable")
        divided = self._topics.get(self._changes)
        if divided and divided.to:
            raise BrokerAwayError(f"the topic of changes is growing to {divided.to} partitions")

    def were_ever_known(self) -> bool:
        """True once the database has answered: until then nothing is published."""
        return self._known_at > float("-inf")

    async def is_stable(self) -> bool:
        """True if ordered messages can be published to the topic of changes."""
        try:
            await self.check()
        except BrokerAwayError:
            return False
        return True

    async def counts(self, topics: Collection[str]) -> dict[str, int]:
        """The number of partitions that the keys of each of these topics are distributed among, without topics that
        never grew.

        Waits while it changes. Raises BrokerAwayError if that takes too long, if a topic grows and the database hasn't
        answered recently, or if it has never answered. For other topics the last known numbers suffice once the
        database has been unavailable for a while, so that commands are still accepted.
        """
        deadline = monotonic() + _MAX_WAIT_S
        while True:
            is_growing = any(each.to for topic, each in self._topics.items() if topic in topics)
            await self._refresh(KNOWN_GROWING_S if is_growing else KNOWN_S)
            divided = {topic: self._topics[topic] for topic in topics if topic in self._topics}
            obstacle = self._obstacle(divided)
            if not obstacle:
                return {topic: each.published or each.count for topic, each in divided.items()}
            if monotonic() >= deadline or (self._is_long_away() and not self.were_ever_known()):
                raise BrokerAwayError(obstacle)
            await asyncio.sleep(_POLL_S)

    async def load(self) -> None:
        """Ask now. Raises the error of the database if it is unavailable."""
        began = monotonic()
        self._topics = await self._ask()
        is_growing = any(each.to for each in self._topics.values())
        self._known_at, self._next_ask_at = began, began + (_RETRY_S if is_growing else _REFRESH_S)
        self._away_since = None
        turn = next((each.turn for each in self._topics.values() if each.published is None), None)
        if turn != self._turn:
            self._turn, self._turn_since = turn, began

    async def stop(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    def _obstacle(self, divided: Mapping[str, Growth]) -> str | None:
        growing = sorted(topic for topic, each in divided.items() if each.to)
        if growing and self._age() >= KNOWN_GROWING_S:
            return f"the partitioning of {growing[0]}, which is growing, is unknown: the database is unavailable"
        if self._age() >= KNOWN_S and not self._is_known_in_outage():
            return "the partitioning of topics is unknown: the database is unavailable"
        if monotonic() < self._turn_since + SWITCHED_S:
            for topic in growing:
                if divided[topic].published is None:
                    return f"{topic} is growing, and its keys are being redistributed"
        return None

    def _age(self) -> float:
        return monotonic() - self._known_at

    def _is_known_in_outage(self) -> bool:
        """True if the last known numbers have to suffice, as the database doesn't answer for long."""
        return self._is_long_away() and self.were_ever_known()

    def _is_long_away(self) -> bool:
        return self._away_since is not None and monotonic() >= self._away_since + _LONG_OUTAGE_S

    async def _refresh(self, needed_s: float) -> None:
        """Ask if it is time; wait for the answer only if the known one is too old, and a new one may come soon."""
        if monotonic() < self._next_ask_at:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_now())
        if self._age() >= needed_s and not self._is_known_in_outage():
            await asyncio.wait([self._asking])

    async def _ask_now(self) -> None:
        began = monotonic()
        try:
            async with asyncio.timeout(_ASK_TIMEOUT_S):
                await self.load()
        except Exception as error:
            self._next_ask_at = monotonic() + _RETRY_S
            self._away_since = began if self._away_since is None else self._away_since
            log.debug("can't load the growth of topics", error=for_log(error))


async def never_grew() -> Mapping[str, Growth]:
    """The answer if no topic ever grew."""
    return {}
