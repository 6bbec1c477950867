"""Records as consumers receive them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Record:
    """A record of any topic, empty unless the test fills it."""

    offset: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()
    topic: str = "plaudit.review-submissions"
    partition: int = 0
    timestamp: int = 0
    key: bytes | None = None
    value: bytes | None = b"{}"
