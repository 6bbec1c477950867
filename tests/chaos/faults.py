"""The faults. Each begins, lasts and ends within its function; what it restarts, a supervisor would restart."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.context import ForkServerProcess

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from tests.chaos.cluster import Broker, Cluster, Member, freeze, thaw
from tests.chaos.fleet import TOPICS, Fleet
from tests.chaos.model import MOST_MAILS, Model
from tests.chaos.record_kinds import Fate, kinds
from tests.support.raw_batches import produce
from tests.support.reminder_processes import start_run
from tests.support.service import PARTITIONS
from tests.support.waiting import eventually

SESSION_S = 10.0
"""Of our consumers: one that is silent for longer is believed dead."""

BAD_RECORDS = 4
"""Of each topic, in each fault."""

REWOUND = 300
"""Records of each partition that a redelivery brings again."""


@dataclass(frozen=True)
class Stage:
    """The servers and processes that faults happen to."""

    cluster: Cluster
    fleet: Fleet
    chance: random.Random
    model: Model

    async def a_while(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.chance.uniform(least_s, most_s))

    async def leader(self) -> Broker:
        return await self.cluster.leader([self.fleet.service.topic(topic) for topic in TOPICS])

    def one(self, kind: str) -> str:
        return self.chance.choice(self.fleet.names(kind))


Fault = Callable[[Stage], Awaitable[None]]


async def _kill(stage: Stage, kind: str) -> None:
    name = stage.one(kind)
    stage.fleet.kill(name)
    await stage.a_while(0.0, 3.0)
    stage.fleet.start(name)


async def worker_killed(stage: Stage) -> None:
    await _kill(stage, "worker")


async def facade_killed(stage: Stage) -> None:
    await _kill(stage, "api")


async def scheduler_killed(stage: Stage) -> None:
    await _kill(stage, "scheduler")


async def worker_frozen(stage: Stage) -> None:
    """A zombie: others have its partitions when it wakes up and goes on writing."""
    name = stage.one("worker")
    stage.fleet.signal(name, signal.SIGSTOP)
    await stage.a_while(SESSION_S + 2, SESSION_S + 6)
    stage.fleet.signal(name, signal.SIGCONT)


async def rolling_restart(stage: Stage) -> None:
    for name in sorted(stage.fleet.processes):
        await stage.fleet.stop(name)
        stage.fleet.start(name)
        await stage.a_while(0.5, 1.5)


async def workers_come_and_go(stage: Stage) -> None:
    """Partitions change hands every second."""
    guests = [f"worker-guest{number}" for number in range(3)]
    for guest in guests:
        stage.fleet.start(guest)
        await asyncio.sleep(1)  # the fault: partitions change hands every second
    for guest in guests:
        stage.fleet.kill(guest) if stage.chance.random() < 0.5 else await stage.fleet.stop(guest)
        await asyncio.sleep(1)  # as above


async def _restarted(server: Broker | Member, stage: Stage) -> None:
    server.kill()
    await stage.a_while(1.0, 6.0)
    await server.start()


async def kafka_leader_killed(stage: Stage) -> None:
    await _restarted(await stage.leader(), stage)


async def mongodb_primary_killed(stage: Stage) -> None:
    await _restarted(await stage.cluster.primary(), stage)


async def _frozen(server: Broker | Member, stage: Stage) -> None:
    freeze(server)
    try:
        await stage.a_while(4.0, 14.0)
    finally:
        thaw(server)


async def kafka_leader_frozen(stage: Stage) -> None:
    await _frozen(await stage.leader(), stage)


async def mongodb_primary_frozen(stage: Stage) -> None:
    await _frozen(await stage.cluster.primary(), stage)


async def both_clusters_restarted(stage: Stage) -> None:
    """Every server is killed at once: what was acknowledged is on disks, or nowhere."""
    for server in stage.cluster.all:
        server.kill()
    await stage.a_while(1.0, 4.0)
    await asyncio.gather(*(server.start() for server in stage.cluster.all))


async def redelivery(stage: Stage) -> None:
    """Every consumer gets hundreds of records again that it has long committed."""
    workers = stage.fleet.names("worker")
    for name in workers:
        await stage.fleet.stop(name)
    service = stage.fleet.service
    for topic in (*TOPICS, "review-changes"):
        partitions = [TopicPartition(service.topic(topic), number) for number in range(PARTITIONS)]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=service.servers.kafka, group_id=service.topic(topic), enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign(partitions)
            committed = {p: await consumer.committed(p) or 0 for p in partitions}
            await consumer.commit({p: OffsetAndMetadata(max(0, c - REWOUND), "") for p, c in committed.items()})
        finally:
            await consumer.stop()
    for name in workers:
        stage.fleet.start(name)


async def clock_jumps(stage: Stage) -> None:
    """Runs of reminders whose clocks differ by days and by hours, at the same time, some of them killed."""
    runs = []
    for _ in range(3):
        jump = timedelta(days=stage.chance.randint(0, 60), hours=stage.chance.randint(-1, 1))
        runs.append(await asyncio.to_thread(start_run, stage.fleet.service, datetime.now(UTC) + jump))
    await stage.a_while(0.3, 2.0)
    runs[0][0].kill()
    for process, _ in runs:
        await asyncio.to_thread(process.join, 30)
        if process.is_alive():
            process.kill()


async def _network(stage: Stage, mode: str, least_s: float, most_s: float, delay_s: float = 0.0) -> None:
    link = stage.chance.choice(stage.cluster.all).link
    await stage.cluster.proxy.order(link, mode, delay_s)
    await stage.a_while(least_s, most_s)
    await stage.cluster.proxy.order(link, "pass")


async def network_slow(stage: Stage) -> None:
    await _network(stage, "delay", 3.0, 8.0, delay_s=0.4)


async def network_held(stage: Stage) -> None:
    """Nothing comes through to one server, and nobody is told; then everything does at once."""
    await _network(stage, "hold", 3.0, 14.0)


async def network_resets(stage: Stage) -> None:
    await _network(stage, "reset", 0.5, 5.0)


async def disk_full(stage: Stage) -> None:
    """The member that has a disk of its own finds no space on it, until somebody makes some and starts it again."""
    disk, member = stage.cluster.disk, stage.cluster.members[-1]
    assert disk is not None
    disk.fill()
    await stage.a_while(4.0, 10.0)
    disk.free()
    # It ended when it could not write its journal; or it will, having got half of a page to the disk.
    await asyncio.sleep(1)  # nothing tells which
    if not member.running:
        await member.start()


async def bad_records(stage: Stage) -> None:
    """Records that no client can decode, bombs, and what else is spoilt, in any partition of every topic."""
    spoilt = [(name, kind) for name, kind in kinds().items() if kind.fate is Fate.TOLD]
    service = stage.fleet.service
    for topic in (*TOPICS, "review-changes"):
        for name, kind in stage.chance.sample(spoilt, BAD_RECORDS):
            full, partition = service.topic(topic), stage.chance.randrange(PARTITIONS)
            try:
                placed = await produce(service.servers.kafka, full, partition, kind.make(b"spoilt"))
            except (OSError, asyncio.IncompleteReadError):
                continue  # not acknowledged: nothing is promised of it
            if placed.code == 0:
                for delta in range(kind.records):
                    stage.model.unreadable[full, partition, placed.offset + delta] = name


FAULTS: dict[str, Fault] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        *(worker_killed, facade_killed, scheduler_killed, worker_frozen, rolling_restart, workers_come_and_go),
        *(kafka_leader_killed, mongodb_primary_killed, kafka_leader_frozen, mongodb_primary_frozen),
        *(both_clusters_restarted, redelivery, clock_jumps, network_slow, network_held, network_resets, disk_full),
        bad_records,
    )
}


async def end_of_reminders(stage: Stage) -> None:
    """Run reminders later and later, until everybody has got what is due, and once more."""
    for year in range(1, MOST_MAILS + 2):
        later = datetime.now(UTC) + timedelta(days=365 * year)
        process, is_ready = await asyncio.to_thread(start_run, stage.fleet.service, later)

        async def is_over(process: ForkServerProcess = process) -> bool:
            return not process.is_alive()

        await eventually(is_over, deadline_s=120)
        if process.exitcode != 0 or not is_ready.is_set():
            raise AssertionError(f"a run of reminders ended with exit code {process.exitcode}")
