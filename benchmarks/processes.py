"""The costs of a worker: time to start, CPU time and memory. CPU time and memory are read from `/proc`."""

import asyncio
import os
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.comparison import Comparison, in_turns, paired, per_second
from benchmarks.progress import print_progress
from benchmarks.samples import submissions
from benchmarks.servers import Servers, Workspace
from benchmarks.sizes import Size
from devservers.waiting import until
from messaging.kafka.administration import admin_client
from messaging.topics import Topic

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_WARM_UP: Final = 2_000
_PARTS: Final = 10
_JOINING_S: Final = 60.0
_STABLE: Final = "Stable"


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mb(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    (line,) = (x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def start(servers: Servers, size: Size) -> list[Comparison]:
    """Time from the start of `plaudit worker` until a message that was already in Kafka is stored."""
    await _start_s(servers)
    seconds = await in_turns(size.runs, {"seconds": partial(_start_s, servers)})
    return [Comparison("Start of a worker to its first message", "", seconds["seconds"], 1.5, "at most", "s")]


async def _start_s(servers: Servers) -> float:
    async with servers.workspace() as workspace:
        workspace.publish(Topic.REVIEW_SUBMISSIONS, submissions(1))
        started = perf_counter()
        with workspace.running("plaudit", "worker") as process:
            await workspace.until_stored("reviews", 1, process)
            return perf_counter() - started


async def workers(servers: Servers, size: Size) -> list[Comparison]:
    """CPU time per review with one, two and four workers, and the reviews that they store per second."""
    rates: dict[int, list[float]] = {1: [], 2: [], 4: []}
    costs = await in_turns(
        size.runs,
        {
            f"µs of {number}": partial(_review_us, servers, number, size.worker_reviews, rates[number])
            for number in rates
        },
    )
    alone, alone_rates = costs["µs of 1"], rates[1]
    comparisons = []
    for number in (2, 4):
        cost = costs[f"µs of {number}"]
        comparisons += [
            Comparison(
                f"Workers, {number}: reviews per second of CPU time",
                "one worker",
                paired(alone, cost),
                0.9,
                absolute=f"{min(cost):.0f} µs against {min(alone):.0f} µs of the workers' CPU time per review",
            ),
            Comparison(
                f"Workers, {number}: reviews per second",
                "one worker",
                paired(rates[number], alone_rates),
                absolute=f"{per_second(rates[number])} against {per_second(alone_rates)}; {os.cpu_count()} cores",
            ),
        ]
    return comparisons


async def _review_us(servers: Servers, number: int, count: int, rates: list[float]) -> float:
    """CPU time per review in microseconds with `number` workers; appends their rate to `rates`."""
    async with servers.workspace() as workspace:
        with ExitStack() as stack:
            processes = [stack.enter_context(workspace.running("plaudit", "worker"))]
            await _store_more(workspace, 0, _WARM_UP, processes)
            of_one = await _members(workspace)
            processes += [stack.enter_context(workspace.running("plaudit", "worker")) for _ in range(number - 1)]

            async def all_joined() -> bool:
                return await _members(workspace) == of_one * number

            async with asyncio.timeout(_JOINING_S):
                await until(all_joined)
            await _store_more(workspace, _WARM_UP, 2 * _WARM_UP, processes)
            used, started = sum(cpu_s(process.pid) for process in processes), perf_counter()
            await _store_more(workspace, 2 * _WARM_UP, count, processes)
            rates.append((count - 2 * _WARM_UP) / (perf_counter() - started))
            used = sum(cpu_s(process.pid) for process in processes) - used
            return used / (count - 2 * _WARM_UP) * 1e6


async def _store_more(workspace: Workspace, first: int, total: int, processes: list[subprocess.Popen[bytes]]) -> None:
    workspace.publish(Topic.REVIEW_SUBMISSIONS, submissions(total - first, first=first))
    await workspace.until_stored("reviews", total, processes[0])


async def _members(workspace: Workspace) -> int:
    """The number of members in the consumer group of submissions; 0 while it rebalances."""
    async with admin_client(workspace.settings.kafka_connection()) as admin:
        (answer,) = await admin.describe_consumer_groups([workspace.topic(Topic.REVIEW_SUBMISSIONS)])
    ((_, _, state, _, _, members, *_),) = answer.groups
    return len(members) if state == _STABLE else 0


async def memory(servers: Servers, size: Size) -> list[Comparison]:
    """Memory of a worker after each part of many messages."""
    held: list[float] = []
    part_size = size.memory_messages // _PARTS
    reviews = list(submissions(part_size))
    async with servers.workspace() as workspace:
        with workspace.running("plaudit", "worker") as process:
            for part in range(_PARTS):
                workspace.publish(Topic.REVIEW_SUBMISSIONS, reviews)
                await workspace.until_stored("reviews", part_size, process)
                held.append(memory_mb(process.pid))
                print_progress(f"  {(part + 1) * part_size:,} messages: {held[-1]:.1f} MB")
                # Only the worker is measured: MongoDB may be faster, without indexes.
                await workspace.database["reviews"].drop()
    name = f"Memory of a worker over {size.memory_messages:,} messages"
    return [
        Comparison(name, "", held, 120, "at most", "MB"),
        Comparison(f"{name}, at the end", "at the beginning", [held[-1] / held[0]], 1.1, "at most"),
    ]
