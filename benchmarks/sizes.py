"""The sizes of a run: how much each group measures, and how often."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """The size of every group; as it stands, that of a whole run."""

    runs: int = 3
    ingest: int = 80_000
    moderation: int = 20_000
    """Approvals in each turn."""
    object_sizes: tuple[int, ...] = (100, 10_000, 200_000)
    approvals: int = 3_000
    seconds: float = 2.5
    listed: int = 1_000_000
    list_requests: int = 40
    list_seconds: float = 0.3
    observed: int = 100
    worked: int = 20_000
    memory: int = 1_000_000
    minutes: int = 50
    """The end of the last group, which fills the worker's memory, from the start of the run."""


WHOLE: Final = Size()
QUICK: Final = Size(
    runs=1,
    ingest=10_000,
    moderation=5_000,
    object_sizes=(100, 10_000),
    approvals=500,
    seconds=0.8,
    listed=20_000,
    list_requests=10,
    list_seconds=0.1,
    observed=20,
    worked=8_000,
    memory=50_000,
    minutes=3,
)
