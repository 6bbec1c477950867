"""Memory, descriptors, threads, tasks and consumer lag of processes over time."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.chaos.fleet import Fleet

WARM_UP_S = 300.0
"""Seconds after the start of a process whose samples are ignored."""
MIN_DURATION_S = 600.0
"""Minimum seconds of samples: the slope of a shorter time means nothing."""

INTERVAL_S = 10.0
"""Seconds between samples."""
TIMEOUT_S = 5.0
"""Timeout of a sample: a process may be frozen or gone."""


class Sample(NamedTuple):
    """Seconds since the start of the run, resident memory in MiB, open descriptors, threads, asyncio tasks."""

    at_s: float
    memory: float
    descriptors: int
    threads: int
    tasks: int


@dataclass
class Soak:
    """Samples by process name and pid, and the total lag of all consumer groups as the facades report it."""

    samples: dict[tuple[str, int], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    lag: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the start of the run, and lag in records."""

    async def sample(self, fleet: Fleet, at_s: float) -> None:
        """Take a sample of every running process that responds."""
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            processes = [(name, process.pid) for name, process in fleet.processes.items()]
            await asyncio.gather(
                *(self._sample(client, fleet.metrics[name], name, pid, at_s) for name, pid in processes)
            )

    async def _sample(self, client: httpx.AsyncClient, port: int, name: str, pid: int, at_s: float) -> None:
        folder = Path(f"/proc/{pid}")
        try:
            response = (await client.get(f"http://127.0.0.1:{port}/metrics")).raise_for_status()
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            descriptors = len(list((folder / "fd").iterdir()))
        except (OSError, httpx.HTTPError):
            return  # just ended, not listening yet, or frozen by a fault
        families = {family.name: family for family in text_string_to_metric_families(response.text)}
        memory = int(status["VmRSS"].split()[0]) / 1024
        tasks = int(families["plaudit_tasks"].samples[0].value)
        self.samples[name, pid].append(Sample(at_s, memory, descriptors, int(status["Threads"]), tasks))
        if lag := families["plaudit_consumer_lag_records"].samples:
            self.lag.append((at_s, sum(sample.value for sample in lag)))

    def document(self) -> dict[str, Any]:
        """By process, after the warm-up: medians of each quarter and the growth per hour; also the lag in records.

        Empty if no process ran long enough.
        """
        processes = {f"{name}/{pid}": grown for (name, pid), all in self.samples.items() if (grown := growth(all))}
        lag = [(at_s / 3600, records) for at_s, records in self.lag if at_s >= WARM_UP_S]
        if not processes or len(lag) < 2:
            return processes
        records = [records for _, records in lag]
        return {
            **processes,
            "lag": {
                "median": median(records),
                "most": max(records),
                "perHour": round(linear_regression(*zip(*lag, strict=True)).slope, 1),
            },
        }


def growth(samples: list[Sample]) -> dict[str, Any]:
    """Medians of a process in each quarter of its time, and its growth per hour; empty if it ran too briefly."""
    warm = [sample for sample in samples if sample.at_s >= samples[0].at_s + WARM_UP_S]
    if not warm or warm[-1].at_s - warm[0].at_s < MIN_DURATION_S:
        return {}
    hours = [sample.at_s / 3600 for sample in warm]
    grown: dict[str, Any] = {"minutes": round((warm[-1].at_s - warm[0].at_s) / 60, 1)}
    quarters = [len(warm) * n // 4 for n in range(5)]
    for name, unit in (("memory", "MiB"), ("descriptors", ""), ("threads", ""), ("tasks", "")):
        values = [getattr(sample, name) for sample in warm]
        grown[f"{name}{unit}"] = [round(median(values[a:b]), 1) for a, b in pairwise(quarters)]
        grown[f"{name}{unit}PerHour"] = round(linear_regression(hours, values).slope, 2)
    return grown
