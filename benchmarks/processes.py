"""What a worker takes: to start, of the processor, of memory."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.comparison import Comparison, per_second
from benchmarks.ground import Ground
from benchmarks.samples import submissions
from messaging.topics import Topic

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mb(pid: int) -> float:
    """What a process holds now."""
    (line,) = (x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def start(ground: Ground, runs: int) -> list[Comparison]:
    """From the start of `plaudit worker` until a message that waited for it is stored."""
    seconds = []
    for _ in range(runs):
        async with ground.place() as place:
            place.publish(Topic.REVIEW_SUBMISSIONS, submissions(1))
            started = perf_counter()
            with place.running("plaudit", "worker"):
                while True:
                    if await place.database["reviews"].estimated_document_count():
                        break
                    await asyncio.sleep(0.005)
                seconds.append(perf_counter() - started)
    return [Comparison("Start of a worker to its first message", "", seconds, 1.5, "at most", "s")]


async def workers(ground: Ground, count: int) -> list[Comparison]:
    """Reviews a second by one, two and four workers, and what a review costs each."""
    comparisons = []
    for number in (1, 2, 4):
        async with ground.place() as place:
            place.publish(Topic.REVIEW_SUBMISSIONS, submissions(count))
            running = [place.running("plaudit", "worker") for _ in range(number)]
            processes = [each.__enter__() for each in running]
            try:
                rate = await place.stored_rate("reviews", count, processes[0])
                microseconds = sum(cpu_s(process.pid) for process in processes) / count * 1e6
            finally:
                for each in running:
                    each.__exit__(None, None, None)
        name = f"CPU of {number} worker{'s' * (number > 1)} for a review"
        comparisons.append(Comparison(name, "", [microseconds], unit="µs", absolute=per_second([rate])))
    return comparisons


async def memory(ground: Ground, count: int) -> list[Comparison]:
    """What a worker holds after a tenth of many messages, and after all."""
    async with ground.place() as place:
        tenth = count // 10
        with place.running("plaudit", "worker") as process:
            held = []
            for part in range(10):
                messages = (m for i, m in enumerate(submissions((part + 1) * tenth)) if i >= part * tenth)
                place.publish(Topic.REVIEW_SUBMISSIONS, messages)
                await place.stored_rate("reviews", (part + 1) * tenth, process)
                held.append(memory_mb(process.pid))
    return [
        Comparison(f"Memory of a worker over {count:,} messages", "", [max(held)], 120, "at most", "MB"),
        Comparison("its growth from the first tenth to the last", "", [held[-1] / held[0]], 1.1, "at most"),
    ]
