"""The costs of a worker: time to start, processor, memory. Processor and memory are read from `/proc`."""

import asyncio
import os
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.comparison import Comparison, in_turns, paired, per_second
from benchmarks.ground import Ground, Place
from benchmarks.progress import elapsed_s, tell
from benchmarks.samples import submissions
from benchmarks.sizes import Size
from devservers.waiting import until
from messaging.topics import Topic

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_WARM_UP: Final = 2_000
_PARTS: Final = 10
_JOINING_S: Final = 60.0
_STABLE: Final = "Stable"


def cpu_s(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    (line,) = (x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def start(ground: Ground, size: Size) -> list[Comparison]:
    """Time from the start of `plaudit worker` until a message that waited for it is stored."""
    await _start_s(ground)
    seconds = await in_turns(size.runs, {"seconds": partial(_start_s, ground)})
    return [Comparison("Start of a worker to its first message", "", seconds["seconds"], 1.5, "at most", "s")]


async def _start_s(ground: Ground) -> float:
    async with ground.place() as place:
        place.publish(Topic.REVIEW_SUBMISSIONS, submissions(1))
        started = perf_counter()
        with place.running("plaudit", "worker") as process:
            await place.until_stored("reviews", 1, process)
            return perf_counter() - started


async def workers(ground: Ground, size: Size) -> list[Comparison]:
    """Processor time of a review with one, two and four workers, and the reviews that they store a second."""
    rates: dict[int, list[float]] = {1: [], 2: [], 4: []}
    costs = await in_turns(
        size.runs,
        {f"µs of {number}": partial(_review_us, ground, number, size.worked, rates[number]) for number in rates},
    )
    alone, alone_rates = costs["µs of 1"], rates[1]
    comparisons = []
    for number in (2, 4):
        cost = costs[f"µs of {number}"]
        comparisons += [
            Comparison(
                f"Workers, {number}: reviews for a second of the processor",
                "one worker",
                paired(alone, cost),
                0.9,
                absolute=f"{min(cost):.0f} µs against {min(alone):.0f} µs of the workers' processors for a review",
            ),
            Comparison(
                f"Workers, {number}: reviews a second",
                "one worker",
                paired(rates[number], alone_rates),
                absolute=f"{per_second(rates[number])} against {per_second(alone_rates)}; two cores for everything",
            ),
        ]
    return comparisons


async def _review_us(ground: Ground, number: int, count: int, rates: list[float]) -> float:
    """Microseconds of the processor for a review, when so many workers share the partitions; keeps their rate, too."""
    async with ground.place() as place:
        with ExitStack() as stack:
            processes = [stack.enter_context(place.running("plaudit", "worker"))]
            await _store_more(place, 0, _WARM_UP, processes)
            of_one = await _members(place)
            processes += [stack.enter_context(place.running("plaudit", "worker")) for _ in range(number - 1)]

            async def all_joined() -> bool:
                return await _members(place) == of_one * number

            async with asyncio.timeout(_JOINING_S):
                await until(all_joined)
            await _store_more(place, _WARM_UP, 2 * _WARM_UP, processes)
            used, started = sum(cpu_s(process.pid) for process in processes), perf_counter()
            await _store_more(place, 2 * _WARM_UP, count, processes)
            rates.append((count - 2 * _WARM_UP) / (perf_counter() - started))
            used = sum(cpu_s(process.pid) for process in processes) - used
            return used / (count - 2 * _WARM_UP) * 1e6


async def _store_more(place: Place, first: int, total: int, processes: list[subprocess.Popen[bytes]]) -> None:
    place.publish(Topic.REVIEW_SUBMISSIONS, submissions(total - first, first=first))
    await place.until_stored("reviews", total, processes[0])


async def _members(place: Place) -> int:
    """The number of consumers that share the submissions; 0 while their group rebalances."""
    async with place.admin() as admin:
        (answer,) = await admin.describe_consumer_groups([place.topic(Topic.REVIEW_SUBMISSIONS)])
    ((_, _, state, _, _, members, *_),) = answer.groups
    return len(members) if state == _STABLE else 0


async def memory(ground: Ground, size: Size) -> list[Comparison]:
    """Memory of a worker after each part of many messages, or of as many as it takes until the run has to end."""
    held: list[float] = []
    part_size = size.memory // _PARTS
    reviews = list(submissions(part_size))
    end_s = size.minutes * 60
    async with ground.place() as place:
        with place.running("plaudit", "worker") as process:
            for part in range(_PARTS):
                if held and elapsed_s() > end_s:
                    break
                place.publish(Topic.REVIEW_SUBMISSIONS, reviews)
                await place.until_stored("reviews", part_size, process)
                held.append(memory_mb(process.pid))
                tell(f"  {(part + 1) * part_size:,} messages: {held[-1]:.1f} MB")
                # It is the worker that is looked at: MongoDB may be quick, without indexes.
                await place.database["reviews"].drop()
    # Fewer messages than the goals are about don't tell whether they are met.
    whole = len(held) == _PARTS
    absolute = "" if whole else f"no time was left for all of {size.memory:,}"
    name = f"Memory of a worker over {len(held) * part_size:,} messages"
    return [
        Comparison(name, "", held, 120 if whole else None, "at most", "MB", absolute),
        Comparison(
            f"{name}, at last",
            "at first",
            [held[-1] / held[0]],
            1.1 if whole else None,
            "at most",
            absolute=absolute,
        ),
    ]
