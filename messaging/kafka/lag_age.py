"""The age of backlogs: the time that the oldest uncommitted record of a group has waited."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from messaging.kafka.lag import Lag, Partition

_MAX_ENDS: Final = 128
"""Maximum number of moments per partition. Beyond it every second one is forgotten, which makes ages a little low."""


class _End(NamedTuple):
    offset: int
    seen_at: float


class LagAge:
    """Remembers the end offsets of partitions over time, and so knows a record's arrival without reading it.

    Times are Unix time in seconds. Only records from before the first observation are asked for their timestamps:
    producers may write other times into them, and those of a mirror are days old when they arrive.
    """

    def __init__(self) -> None:
        self._ends: dict[Partition, list[_End]] = {}
        self._first_ends: dict[Partition, int] = {}
        self._timestamps: dict[Partition, tuple[int, float]] = {}
        self._oldest: dict[Partition, int] = {}
        self._now = 0.0

    def observe(self, lag: Lag, now: float) -> None:
        """Record the lag at a moment, and forget partitions that aren't in it."""
        self._ends = {partition: ends for partition, ends in self._ends.items() if partition in lag}
        self._first_ends = {partition: end for partition, end in self._first_ends.items() if partition in lag}
        self._timestamps = {partition: each for partition, each in self._timestamps.items() if partition in lag}
        for partition, backlog in lag.items():
            end = backlog.next_offset + backlog.records
            self._first_ends.setdefault(partition, end)
            ends = [each for each in self._ends.get(partition, ()) if each.offset > backlog.next_offset]
            if backlog.records and (not ends or ends[-1].offset < end):
                ends.append(_End(end, now))
            if len(ends) > _MAX_ENDS:
                del ends[1:-1:2]
            self._ends[partition] = ends
        self._oldest = {partition: backlog.next_offset for partition, backlog in lag.items() if backlog.records}
        self._now = now

    def unknown(self) -> dict[Partition, int]:
        """Oldest offsets from before the first observation, by partition, that have no noted timestamp."""
        return {
            partition: offset
            for partition, offset in self._oldest.items()
            if offset < self._first_ends[partition] and self._timestamps.get(partition, (-1, 0.0))[0] != offset
        }

    def note_timestamps(self, offsets: Mapping[Partition, int], times: Mapping[Partition, float | None]) -> None:
        """Record the timestamps of these records; without one a record counts as arrived when it was first seen."""
        for partition, offset in offsets.items():
            time = times.get(partition)
            self._timestamps[partition] = offset, self._now if time is None else time

    def seconds(self) -> dict[Partition, float]:
        """Seconds that the oldest record of each backlog has waited, at the latest observation; 0 without a backlog."""
        return {partition: self._age(partition) for partition in self._ends}

    def _age(self, partition: Partition) -> float:
        if partition not in self._oldest:
            return 0.0
        seen_at = self._ends[partition][0].seen_at
        offset, time = self._timestamps.get(partition, (-1, seen_at))
        return max(0.0, self._now - (min(seen_at, time) if offset == self._oldest[partition] else seen_at))
