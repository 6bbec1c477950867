"""Slots for what takes long: waits for outcomes, and feeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    """Slots of one process: `most` at a time, `most_per_client` of them for one client."""

    def __init__(self, *, most: int, most_per_client: int) -> None:
        self._most = most
        self._most_per_client = most_per_client
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, client: str) -> Iterator[bool]:
        """A slot for the length of the block; False where none is left for this client."""
        is_free = self._taken[client] < self._most_per_client and self._taken.total() < self._most
        if is_free:
            self._taken[client] += 1
        try:
            yield is_free
        finally:
            if is_free:
                self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]
