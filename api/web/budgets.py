"""Bytes that the requests of a process may hold together: taken before the memory is, and given back after it.

A slow client, where a `Budget` has 32 MiB for answers, and none of them is held:
1. Its answer takes a `Share` of 8 MiB. Held: 8. It is sent in pieces of 64 KiB, each within `Share.stalling`.
2. The client reads no more. A piece waits, and all 8 MiB stay held, for as long as nobody else needs them.
3. Another answer wants 20 MiB. Held would be 28, and large shares may fill 24: it waits, 2 s at most.
4. Once the piece has waited for 1 s, the budget ends its share. Held: 0, and then 20, as the other answer goes on. The
   block of `stalling` raises StalledError, and the connection of the slow client is closed.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

from api.web.problems import ProblemError, ProblemKind

PATIENCE_S: Final = 2.0
"""For so long a request waits for room."""

LONG_PATIENCE_S: Final = 30.0

STALLED_S: Final = 1.0
"""A client that has kept us waiting for so long makes room for others."""

_PAUSE_S: Final = 0.05
"""Between two clients that make room: who comes in their place would otherwise come all at once."""

_LARGE: Final = 64
_SPARE: Final = 4
"""Shares of more than a 64th of the budget leave a quarter of it to smaller ones, which need not wait for them.
One of them may always be there, or it could never begin."""


class NoRoomError(ProblemError):
    """A request that came at a bad moment: others hold all there is, and went on holding it."""

    def __init__(self, why: str) -> None:
        super().__init__(ProblemKind.UNAVAILABLE, f"{why} Try again.")


class StalledError(Exception):
    """A client kept us waiting while others needed the room."""


class Share:
    """Bytes taken from a budget. Its owner gives them back, at once or in parts, at the latest at the end of the
    block that it is the context of."""

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
        """Keep it beyond this block: whoever takes it gives it back by a block of their own."""
        self._is_handed_on = True
        return self

    def give_back(self, down_to: int = 0) -> None:
        """Give back what is held beyond so many bytes."""
        if self._size > down_to:
            self._budget.resize(self._size, down_to)
            self._size = down_to
            self._budget.let_in()

    @asynccontextmanager
    async def stalling(self, since: float | None = None) -> AsyncIterator[None]:
        """Wait for the client in this block, who has kept us waiting since then by the loop's clock, or from now on.
        Raises StalledError when others need the room; then it is given back."""
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
        """Make room: the memory is freed as soon as the request goes on."""
        self._budget.stalling.pop(self)
        self._is_over = True
        if self._deadline is not None:
            self._deadline.reschedule(asyncio.get_running_loop().time())
        self._budget.resize(self._size, 0)
        self._size = 0


class Budget:
    """So many bytes for all requests of a process. Where they are taken, a request waits for PATIENCE_S seconds, and
    clients that have kept us waiting for STALLED_S make room, the one that has done so for longest first. `purpose` is
    of the bytes, for the client that gets none: "bodies of".
    """

    def __init__(self, most: int, purpose: str) -> None:
        self._most = most
        self._purpose = purpose
        self.held = 0
        self._large = 0
        self.stalling: OrderedDict[Share, float] = OrderedDict()
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._again: asyncio.TimerHandle | None = None
        self._made_room_at = float("-inf")

    async def take(self, size: int, *, has_begun: bool = False) -> Share:
        """A share of so many bytes; one of more than there may be is alone. An answer that has begun waits for longer.

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
                why = f"The {self._purpose} other requests take all the memory there is for them."
                raise NoRoomError(why) from error
            raise
        return Share(self, size)

    def take_now(self, size: int) -> Share:
        """A share of so many bytes, whether or not there is room: others wait until it is given back, and a client that
        has kept us waiting makes room."""
        self.resize(0, size)
        if self.held > self._most:
            self._end_stalled()
        return Share(self, size)

    def resize(self, before: int, after: int) -> None:
        """Count a share of another size."""
        self.held += after - before
        self._large += self._is_large(after) - self._is_large(before)

    def let_in(self) -> None:
        """Let those in who wait and now fit, small ones before large ones that don't; ask for room where none do."""
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
        """Ask for room once the client that has kept us waiting for longest has done so for too long."""
        if self._queue and self.stalling and self._again is None:
            at = max(next(iter(self.stalling.values())) + STALLED_S, self._made_room_at + _PAUSE_S)
            self._again = asyncio.get_running_loop().call_at(at, self._let_in_again)

    def _let_in_again(self) -> None:
        self._again = None
        self.let_in()

    def _end_stalled(self) -> None:
        """Take the room of the client that has kept us waiting for longest, where that is too long."""
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
