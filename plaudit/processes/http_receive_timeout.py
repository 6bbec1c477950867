"""The timeout for receiving a request, which grows with the body: a photo may come over a slow connection."""

import asyncio
from collections.abc import Callable
from typing import Final

from api.web.concurrency import BYTES_PER_S

LONGEST_S: Final = 300.0
"""Maximum of an extended timeout, in seconds."""

_LAST_CHECK_S: Final = 0.1
"""Seconds from the timeout to the last check."""


class ReceiveTimeout:
    """Calls `give_up` after `seconds`, plus one second for each BYTES_PER_S of the body received, at most LONGEST_S or
    `seconds`, whichever is longer. The protocol counts `body_bytes`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, give_up: Callable[[], None]) -> None:
        self._loop = loop
        self._base_s = seconds
        self._give_up = give_up
        self._began = loop.time()
        self._timer = loop.call_later(seconds, self._check, False)
        self.body_bytes = 0

    @property
    def seconds(self) -> float:
        """The timeout in seconds, by the body received so far."""
        return max(self._base_s, min(self._base_s + self.body_bytes / BYTES_PER_S, LONGEST_S))

    def cancel(self) -> None:
        """Stop: the request is complete, or its connection closed."""
        self._timer.cancel()

    def _check(self, is_last: bool) -> None:
        left = self._began + self.seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check, False)
        elif not is_last:
            # If the server was the slow side, the request may have arrived, to be read after this timer.
            self._timer = self._loop.call_later(_LAST_CHECK_S, self._check, True)
        else:
            self._give_up()
