"""A cache whose entries have a time each: for credentials that were checked, and for commands of late."""

from collections import OrderedDict
from time import monotonic
from typing import Generic, TypeVar

V = TypeVar("V")


class TimedCache(Generic[V]):
    """Values by key, each for its own time; holds `size` of them, and forgets first what was used longest ago."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[bytes | str, tuple[V, float]] = OrderedDict()

    def get(self, key: bytes | str) -> V | None:
        """The value, None when there is none or its time is over."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if monotonic() >= entry[1]:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: bytes | str, value: V, seconds: float) -> None:
        """Remember a value for so many seconds."""
        self._entries[key] = (value, monotonic() + seconds)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
