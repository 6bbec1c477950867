"""Sizes of a run: how much each group measures, and how often."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes for all groups; the defaults are those of a full run."""

    runs: int = 3
    """Rounds of each measurement."""
    ingest: int = 80_000
    """Reviews ingested in each round."""
    moderation: int = 20_000
    """Approvals in each round."""
    object_sizes: tuple[int, ...] = (100, 10_000, 1_000_000)
    """Approved reviews of the objects that further approvals are measured on."""
    approvals: int = 3_000
    """Approvals, votes or replies in each round of `approval-cost`."""
    seconds: float = 2.5
    """Seconds of load in each round of a measurement over HTTP or of a driver."""
    listed_reviews: int = 1_000_000
    list_requests: int = 40
    """Maximum number of requests for a list in each round."""
    list_seconds: float = 0.3
    """Maximum time of those requests, unless one alone takes longer."""
    observed: int = 100
    """Reviews whose latency is measured in each round."""
    worker_reviews: int = 20_000
    """Reviews in each round of `workers`."""
    memory_messages: int = 1_000_000


FULL: Final = Size()
QUICK: Final = Size(
    runs=1,
    ingest=10_000,
    moderation=5_000,
    object_sizes=(100, 10_000),
    approvals=500,
    seconds=0.8,
    listed_reviews=20_000,
    list_requests=10,
    list_seconds=0.1,
    observed=20,
    worker_reviews=8_000,
    memory_messages=50_000,
)
