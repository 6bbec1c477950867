"""A cache whose entries expire one by one: for verified credentials, and for recent commands."""

from collections import OrderedDict
from time import monotonic
from typing import Generic, TypeVar

V = TypeVar("V")


class TimedCache(Generic[V]):
    """Values by key, each with its own time to live; at most `size`, of which the least recently used is evicted
    first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[bytes | str, tuple[V, float]] = OrderedDict()

    def get(self, key: bytes | str) -> V | None:
        """The value, or None if it is missing or expired."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if monotonic() >= entry[1]:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: bytes | str, value: V, seconds: float) -> None:
        """Keep a value for this many seconds."""
        self._entries[key] = (value, monotonic() + seconds)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
