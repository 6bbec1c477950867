"""Places for commands on their way to Kafka: while it is slow or away, they leave room for queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from api.web.budgets import NoRoomError


class Publishing:
    """At most `most` commands at a time are being published; the others are told to come again."""

    def __init__(self, most: int) -> None:
        self._left = max(1, most)

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for the length of the block. Raises NoRoomError (503) when all are taken."""
        if self._left <= 0:
            raise NoRoomError("Too many commands wait for Kafka.")
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1
