"""Detection of partitions with a backlog that make no progress."""

from collections.abc import Collection
from typing import Final

from messaging.kafka.lag import Lag, Partition

STANDS_AFTER_S: Final = 60.0
"""Seconds without progress after which a partition stands still: with the servers available, no batch takes so long."""

LOOK_EVERY_S: Final = 10.0


class Standstill:
    """Remembers since when each partition with a backlog has been at the same offset.

    Times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._since: dict[Partition, tuple[int, float]] = {}
        self._now = 0.0

    def observe(self, lag: Lag, now: float) -> None:
        """Record the lag at a moment."""
        since = {}
        for partition, backlog in lag.items():
            offset, moment = self._since.get(partition, (backlog.next_offset, now))
            if backlog.records:
                since[partition] = (offset, moment) if offset == backlog.next_offset else (backlog.next_offset, now)
        self._since, self._now = since, now

    def seconds(self) -> dict[Partition, float]:
        """Seconds without progress of each partition with a backlog, at the latest observation."""
        return {partition: self._now - moment for partition, (_, moment) in self._since.items()}

    def describe(self, among: Collection[Partition] | None = None) -> list[str]:
        """A sentence for each partition, or each of `among`, that has stood still for STANDS_AFTER_S."""
        return [
            f"partition {partition} of {topic} has been at offset {offset} for {self._now - moment:.0f} s"
            for (topic, partition), (offset, moment) in sorted(self._since.items())
            if self._now - moment >= STANDS_AFTER_S and (among is None or (topic, partition) in among)
        ]
