"""The time that a client has for a request. A photo that comes by a slow connection has longer than others."""

import asyncio
from collections.abc import Callable
from typing import Final

BYTES_PER_S: Final = 16 * 1024
"""A body that comes on so fast has the time that it takes."""

LONGEST_S: Final = 300.0
_LAST_LOOK_S: Final = 0.1


class Patience:
    """Calls `give_up` once a request has taken `seconds`, and one more for each BYTES_PER_S that came of its body, but
    no more than LONGEST_S, unless `seconds` are. The protocol counts `body_bytes`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, give_up: Callable[[], None]) -> None:
        self._loop = loop
        self._least = seconds
        self._give_up = give_up
        self._began = loop.time()
        self._timer = loop.call_later(seconds, self._look, False)
        self.body_bytes = 0

    @property
    def seconds(self) -> float:
        """The seconds that the request has, by what came of its body."""
        return max(self._least, min(self._least + self.body_bytes / BYTES_PER_S, LONGEST_S))

    def cancel(self) -> None:
        """The request is there, or its connection gone."""
        self._timer.cancel()

    def _look(self, is_last: bool) -> None:
        left = self._began + self.seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look, False)
        elif not is_last:
            # If the server was the slow side, the request may have come, and be read after this timer.
            self._timer = self._loop.call_later(_LAST_LOOK_S, self._look, True)
        else:
            self._give_up()
