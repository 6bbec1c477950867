"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Stands at `now`, in seconds; takes the place of `time.monotonic`."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
