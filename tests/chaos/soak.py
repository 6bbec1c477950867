"""What processes take, over time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression
from typing import NamedTuple

from tests.chaos.fleet import Fleet

WARM_UP_S = 60.0
LEAST_S = 600.0
"""A slope over less says nothing."""


class Sample(NamedTuple):
    """Seconds since the beginning, resident memory in KiB, open descriptors, threads."""

    at_s: float
    memory: int
    descriptors: int
    threads: int


@dataclass
class Soak:
    """Samples by process."""

    samples: dict[tuple[str, int], list[Sample]] = field(default_factory=lambda: defaultdict(list))

    def look(self, fleet: Fleet, at_s: float) -> None:
        """Take a sample of every living process."""
        for name, process in fleet.processes.items():
            folder = Path(f"/proc/{process.pid}")
            try:
                status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
                descriptors = len(list((folder / "fd").iterdir()))
            except OSError:
                continue  # it has just ended
            if "VmRSS" in status:
                memory = int(status["VmRSS"].split()[0])
                self.samples[name, process.pid].append(Sample(at_s, memory, descriptors, int(status["Threads"])))

    def slopes(self) -> dict[str, dict[str, float]]:
        """By process, once warm: memory at the end (MiB), and what memory, descriptors and threads grow by an hour."""
        slopes = {}
        for (name, pid), samples in self.samples.items():
            warm = [sample for sample in samples if sample.at_s >= samples[0].at_s + WARM_UP_S]
            if not warm or warm[-1].at_s - warm[0].at_s < LEAST_S:
                continue
            hours = [sample.at_s / 3600 for sample in warm]
            slopes[f"{name}/{pid}"] = {
                "minutes": round((warm[-1].at_s - warm[0].at_s) / 60, 1),
                "memoryMiB": round(warm[-1].memory / 1024, 1),
                "memoryMiBPerHour": round(linear_regression(hours, [s.memory / 1024 for s in warm]).slope, 2),
                "descriptors": warm[-1].descriptors,
                "descriptorsPerHour": round(linear_regression(hours, [s.descriptors for s in warm]).slope, 2),
                "threadsPerHour": round(linear_regression(hours, [s.threads for s in warm]).slope, 2),
            }
        return slopes
