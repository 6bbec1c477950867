"""Waits for the outcomes of commands. All of them share one polling loop, whose rate doesn't depend on their number."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from api.web.limits import Slots
from storage.database import is_database_away
from storage.outcomes import ItemOutcome

Key = tuple[str, str]
"""A command id and the id of one of its items."""

LOOKS_PER_SECOND: Final = 100.0
_BURST: Final = 20.0
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.05
_MOST_ITEMS: Final = 1_000
"""Maximum number of items in one query, unless more commands wait: then one item of each."""


@dataclass(slots=True, eq=False)
class _Wait:
    """The wait for one command: its items without an answer, in order, and the answers to the others."""

    command_id: str
    missing: dict[str, None]
    found: dict[str, ItemOutcome]
    done: asyncio.Future[None]


class Waits:
    """The waits of the requests of one process, limited by `slots`. `ask` finds the answers to some items.

    A new wait is polled at once, then at short intervals, which grow as time passes. While the database is unavailable,
    requests keep waiting.
    """

    def __init__(
        self, ask: Callable[[Collection[Key]], Awaitable[Mapping[Key, ItemOutcome]]], *, most: int, most_per_client: int
    ) -> None:
        self._ask = ask
        self.slots = Slots(most=most, most_per_client=most_per_client)
        self._waits: list[_Wait] = []
        self._is_new = asyncio.Event()
        self._pause_s = _FIRST_PAUSE_S
        self._allowance = _BURST
        self._polled_at = 0.0
        self._polling: asyncio.Task[None] | None = None
        self.is_over = False

    def end(self) -> None:
        """End all waits because the process stops, each with the answers found so far. Later requests don't wait."""
        self.is_over = True
        for wait in self._waits:
            if not wait.done.done():
                wait.done.set_result(None)

    async def answers(self, command_id: str, ids: Sequence[str], seconds: float) -> dict[str, ItemOutcome]:
        """The answers by item: as soon as every item has one, or those found after `seconds`.

        Raises the errors of `ask`, unless they mean that the database is unavailable.
        """
        if self.is_over:
            return {}
        done = asyncio.get_running_loop().create_future()
        wait = _Wait(command_id, dict.fromkeys(ids), {}, done)
        self._waits.append(wait)
        self._pause_s = _FIRST_PAUSE_S
        self._is_new.set()
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll_while_needed())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await done
        finally:
            self._waits.remove(wait)
        return wait.found

    async def _poll_while_needed(self) -> None:
        try:
            while self._waits:
                self._is_new.clear()
                await self._wait_for_turn()
                await self._poll()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s):
                        await self._is_new.wait()
                self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 1.5)
        finally:
            self._polling = None

    async def _wait_for_turn(self) -> None:
        """Sleep until another query is within LOOKS_PER_SECOND."""
        now = asyncio.get_running_loop().time()
        self._allowance = min(_BURST, self._allowance + (now - self._polled_at) * LOOKS_PER_SECOND)
        self._polled_at = now
        self._allowance -= 1
        if self._allowance < 0:
            await asyncio.sleep(-self._allowance / LOOKS_PER_SECOND)

    async def _poll(self) -> None:
        if not self._waits:
            return
        per_wait = max(1, _MOST_ITEMS // len(self._waits))
        polled = [(wait, list(islice(wait.missing, per_wait))) for wait in self._waits]
        try:
            answers = await self._ask({(wait.command_id, id) for wait, ids in polled for id in ids})
        except Exception as error:
            if is_database_away(error):
                return
            for wait, _ in polled:
                if not wait.done.done():
                    wait.done.set_exception(error)
            return
        for wait, ids in polled:
            for id in ids:
                if answer := answers.get((wait.command_id, id)):
                    wait.found[id] = answer
                    del wait.missing[id]
            if not wait.missing and not wait.done.done():
                wait.done.set_result(None)
