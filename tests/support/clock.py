"""A clock that the test sets."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Returns `now`, in seconds; replaces `time.monotonic`."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
