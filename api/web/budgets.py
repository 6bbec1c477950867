"""Budgets of memory for all requests of a process: bytes are reserved before they are allocated, and returned
afterwards.

A slow client, with a `Budget` of 32 MiB for answers, of which none are held:
1. Its answer takes a `Share` of 8 MiB. Held: 8. It is sent in pieces of 64 KiB, each within `Share.stalling`.
2. The client stops reading. A piece waits, and all 8 MiB stay held, as long as nobody else needs them.
3. Another answer needs 20 MiB. That would make 28, and large shares may fill 24: it waits, for at most 2 s.
4. Once the piece has waited for 1 s, the budget ends its share. Held: 0, then 20, as the other answer continues. The
   `stalling` block raises StalledError, and the connection of the slow client is closed.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

from api.web.problems import ProblemError, ProblemKind

PATIENCE_S: Final = 2.0
"""Maximum seconds that a request waits for memory."""

LONG_PATIENCE_S: Final = 30.0

STALLED_S: Final = 1.0
"""Seconds after which a client that keeps us waiting must make room for others."""

_PAUSE_S: Final = 0.05
"""Seconds between ending two stalled clients: otherwise those who wait would all be let in at once."""

_LARGE: Final = 64
_SPARE: Final = 4
"""Shares of more than a 64th of the budget leave a quarter of it to smaller ones, which needn't wait for them. A single
large share is always allowed, or it could never begin."""


class NoRoomError(ProblemError):
    """Other requests use up a limit, and did so for as long as this one could wait."""

    def __init__(self, why: str) -> None:
        super().__init__(ProblemKind.UNAVAILABLE, f"{why} Try again.")


class StalledError(Exception):
    """A client kept us waiting while others needed the memory."""


class Share:
    """Bytes reserved in a budget. Its owner returns them at once or in parts, at the latest at the end of its `with`
    block."""

    def __init__(self, budget: "Budget", size: int) -> None:
        self._budget = budget
        self._size = size
        self._deadline: asyncio.Timeout | None = None
        self._is_over = False
        self._is_handed_on = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_handed_on:
            self._is_handed_on = False
        else:
            self.give_back()

    def hand_on(self) -> Self:
        """Keep the share beyond this block: its next owner returns it by a `with` block of its own."""
        self._is_handed_on = True
        return self

    def give_back(self, down_to: int = 0) -> None:
        """Return the bytes beyond `down_to`."""
        if self._size > down_to:
            self._budget.resize(self._size, down_to)
            self._size = down_to
            self._budget.let_in()

    @asynccontextmanager
    async def stalling(self, since: float | None = None) -> AsyncIterator[None]:
        """Wait for the client in this block; it has kept us waiting since `since` on the loop's clock, or from now on.
        Raises StalledError if others need the memory, which is then already returned."""
        try:
            async with asyncio.timeout(None) as self._deadline:
                self._budget.stalling[self] = since or asyncio.get_running_loop().time()
                if since:
                    self._budget.stalling.move_to_end(self, last=False)
                self._budget.look_again()
                try:
                    yield
                finally:
                    self._budget.stalling.pop(self, None)
        except TimeoutError as error:
            if self._is_over:
                raise StalledError from error
            raise
        if self._is_over:
            raise StalledError

    def end(self) -> None:
        """Make room for others: the memory is freed as soon as the request continues."""
        self._budget.stalling.pop(self)
        self._is_over = True
        if self._deadline is not None:
            self._deadline.reschedule(asyncio.get_running_loop().time())
        self._budget.resize(self._size, 0)
        self._size = 0


class Budget:
    """At most `most` bytes for all requests of a process. If they are taken, a request waits up to PATIENCE_S seconds,
    and clients that have kept us waiting for STALLED_S are ended, the longest first. `purpose` completes the message to
    a client that gets none: "bodies of"."""

    def __init__(self, most: int, purpose: str) -> None:
        self._most = most
        self._purpose = purpose
        self.held = 0
        self._large = 0
        self.stalling: OrderedDict[Share, float] = OrderedDict()
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._scheduled: asyncio.TimerHandle | None = None
        self._made_room_at = float("-inf")

    async def take(self, size: int, *, has_begun: bool = False) -> Share:
        """A share of this many bytes, or of as many as there can ever be. An answer that has begun waits longer, up to
        LONG_PATIENCE_S seconds.

        Raises NoRoomError.
        """
        size = min(size, self._most - self._most // _SPARE if self._is_large(size) else self._most)
        if self._fits(size):
            return self.take_now(size)
        granted = asyncio.get_running_loop().create_future()
        self._queue.append((size, granted))
        self.let_in()
        try:
            async with asyncio.timeout(LONG_PATIENCE_S if has_begun else PATIENCE_S):
                await granted
        except BaseException as error:
            if granted.done() and not granted.cancelled():
                self.resize(size, 0)
                self.let_in()
            if isinstance(error, TimeoutError):
                why = f"The {self._purpose} other requests use all the memory reserved for them."
                raise NoRoomError(why) from error
            raise
        return Share(self, size)

    def take_now(self, size: int) -> Share:
        """A share of this many bytes, even beyond the budget: others wait until it is returned, and a client that has
        kept us waiting makes room."""
        self.resize(0, size)
        if self.held > self._most:
            self._end_stalled()
        return Share(self, size)

    def resize(self, before: int, after: int) -> None:
        """Account for a share that changes its size."""
        self.held += after - before
        self._large += self._is_large(after) - self._is_large(before)

    def let_in(self) -> None:
        """Let in waiting requests that fit now, small ones before large ones that don't; end a stalled client if they
        don't."""
        if not self._queue:
            return
        waiting = [each for each in self._queue if not each[1].done()]
        self._queue.clear()
        for size, granted in waiting:
            if not self._fits(size):
                self._end_stalled()
            if self._fits(size):
                self.resize(0, size)
                granted.set_result(None)
            else:
                self._queue.append((size, granted))
        self.look_again()

    def look_again(self) -> None:
        """Schedule `let_in` for when the client that has kept us waiting longest exceeds STALLED_S."""
        if self._queue and self.stalling and self._scheduled is None:
            at = max(next(iter(self.stalling.values())) + STALLED_S, self._made_room_at + _PAUSE_S)
            self._scheduled = asyncio.get_running_loop().call_at(at, self._on_schedule)

    def _on_schedule(self) -> None:
        self._scheduled = None
        self.let_in()

    def _end_stalled(self) -> None:
        """End the client that has kept us waiting longest, if it has done so for STALLED_S."""
        now = asyncio.get_running_loop().time()
        if not self.stalling or now < self._made_room_at + _PAUSE_S:
            return
        longest, since = next(iter(self.stalling.items()))
        if since + STALLED_S <= now:
            self._made_room_at = now
            longest.end()

    def _fits(self, size: int) -> bool:
        if not self._is_large(size):
            return self.held + size <= self._most
        return not self._large or self.held + size <= self._most - self._most // _SPARE

    def _is_large(self, size: int) -> bool:
        return size > self._most // _LARGE
