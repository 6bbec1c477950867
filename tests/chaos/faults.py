"""The faults. Each begins and ends within its function, which restarts processes as a supervisor would."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.context import ForkServerProcess

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError
from aiokafka.structs import OffsetAndMetadata

from tests.chaos.cluster import Broker, Cluster, Member, freeze, thaw
from tests.chaos.fleet import Fleet
from tests.chaos.model import MAX_MAILS, Model
from tests.chaos.partitions import Partitions
from tests.chaos.record_kinds import Fate, kinds
from tests.support.raw_batches import produce
from tests.support.reminder_processes import start_run
from tests.support.service import FLOW, PARTITIONS
from tests.support.waiting import eventually

SESSION_S = 10.0
"""Session timeout of the consumers: Kafka considers one dead that is silent for longer."""

BAD_RECORDS = 4
"""Bad records per topic and fault."""

REWOUND = 300
"""Records of each partition that are redelivered."""
MAX_COMMANDS = 60 * REWOUND
"""Approximate maximum number of redelivered commands per partition. If records hold many, fewer records are
redelivered."""

LARGE = ("review-submissions", "moderation-commands")
"""Topics whose records hold up to `Stage.batch` commands."""


@dataclass(frozen=True)
class Stage:
    """The servers and processes that faults happen to."""

    cluster: Cluster
    fleet: Fleet
    rng: random.Random
    model: Model
    disturb: Callable[[], Awaitable[None]]
    """Makes another fault of the run happen during a long one."""
    batch: int = 1
    """Maximum number of commands in one record."""
    partitions: Partitions = field(default_factory=Partitions)

    async def pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(least_s, most_s))

    async def leader(self) -> Broker:
        return await self.cluster.leader([self.fleet.service.topic(topic) for topic in FLOW])

    async def primary(self) -> Member:
        return await self.cluster.primary()

    def random_process(self, kind: str) -> str:
        return self.rng.choice(self.fleet.names(kind))


Fault = Callable[[Stage], Awaitable[None]]
Choose = Callable[[Stage], Awaitable[Broker | Member]]


async def kill_process(stage: Stage, kind: str) -> None:
    name = stage.random_process(kind)
    stage.fleet.kill(name)
    await stage.pause(0.0, 3.0)
    stage.fleet.start(name)


async def freeze_worker(stage: Stage) -> None:
    """Suspend a worker for longer than its session: it resumes as a zombie whose partitions others own."""
    name = stage.random_process("worker")
    stage.fleet.signal(name, signal.SIGSTOP)
    await stage.pause(SESSION_S + 2, SESSION_S + 6)
    stage.fleet.signal(name, signal.SIGCONT)


async def restart_in_turn(stage: Stage) -> None:
    for name in sorted(stage.fleet.processes):
        await stage.fleet.stop(name)
        stage.fleet.start(name)
        await stage.pause(0.5, 1.5)


async def move_partitions(stage: Stage) -> None:
    """Reassign partitions every second, by workers that join and leave."""
    guests = [f"worker-guest{number}" for number in range(3)]
    for guest in guests:
        stage.fleet.start(guest)
        await asyncio.sleep(1)  # the fault: a rebalance every second
    for guest in guests:
        stage.fleet.kill(guest) if stage.rng.random() < 0.5 else await stage.fleet.stop(guest)
        await asyncio.sleep(1)  # as above


async def kill_server(stage: Stage, choose: Choose) -> None:
    server = await choose(stage)
    server.kill()
    await stage.pause(1.0, 6.0)
    await server.start()


async def freeze_server(stage: Stage, choose: Choose) -> None:
    server = await choose(stage)
    freeze(server)
    try:
        await stage.pause(4.0, 14.0)
    finally:
        thaw(server)


async def restart_both_clusters(stage: Stage) -> None:
    """Kill every server at once: only data on disks survives."""
    for server in stage.cluster.all:
        server.kill()
    await stage.pause(1.0, 4.0)
    await asyncio.gather(*(server.start() for server in stage.cluster.all))


async def redeliver(stage: Stage) -> None:
    """Rewind every consumer group, so that committed records are delivered again."""
    workers = stage.fleet.names("worker")
    for name in workers:
        await stage.fleet.stop(name)
    service = stage.fleet.service
    for topic in FLOW:
        partitions = service.partitions_of(topic)
        async with service.group_member(topic) as member:
            member.assign(partitions)
            committed = {p: await member.committed(p) or 0 for p in partitions}
            rewound = min(REWOUND, MAX_COMMANDS // stage.batch) if topic in LARGE else REWOUND
            earlier = {p: OffsetAndMetadata(max(0, c - rewound), "") for p, c in committed.items()}
            # Kafka refuses until it has noticed that the last worker is gone.
            await eventually(partial(_is_committed, member, earlier), deadline_s=6 * SESSION_S, pause_s=1.0)
    for name in workers:
        stage.fleet.start(name)


async def _is_committed(member: AIOKafkaConsumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
    """Commit from outside the group, which Kafka refuses while the group has members. True if it was accepted."""
    try:
        await member.commit(offsets)
    except CommitFailedError:
        return False
    return True


async def jump_clocks(stage: Stage) -> None:
    """Run reminders concurrently with clocks that differ by days and hours, and kill one of the runs."""
    runs = []
    for _ in range(3):
        jump = timedelta(days=stage.rng.randint(0, 60), hours=stage.rng.randint(-1, 1))
        runs.append(await asyncio.to_thread(start_run, stage.fleet.service, datetime.now(UTC) + jump))
    await stage.pause(0.3, 2.0)
    runs[0][0].kill()
    for process, _ in runs:
        await asyncio.to_thread(process.join, 30)
        if process.is_alive():
            process.kill()


async def disturb_network(stage: Stage, mode: str, least_s: float, most_s: float, delay_s: float = 0.0) -> None:
    link = stage.rng.choice(stage.cluster.all).link
    await stage.cluster.proxy.order(link, mode, delay_s)
    await stage.pause(least_s, most_s)
    await stage.cluster.proxy.order(link, "pass")


async def fill_disk(stage: Stage) -> None:
    """Fill the file system of one member, then free it and restart the member if it has ended."""
    disk, member = stage.cluster.disk, stage.cluster.members[-1]
    assert disk is not None
    disk.fill()
    await stage.pause(4.0, 10.0)
    disk.free()
    # mongod ends when it can't write its journal, or a little later after a partial page write.
    await asyncio.sleep(1)  # no signal says which of the two
    if not member.running:
        await member.start()


async def send_bad_records(stage: Stage) -> None:
    """Write records that no client can decode, decompression bombs and other corrupt data to a partition of every
    topic but the mailer's, which doesn't run."""
    unreadable = [(name, kind) for name, kind in kinds().items() if kind.fate is Fate.DEAD_LETTER]
    service = stage.fleet.service
    for topic in FLOW:
        for name, kind in stage.rng.sample(unreadable, BAD_RECORDS):
            full, partition = service.topic(topic), stage.rng.randrange(PARTITIONS)
            try:
                placed = await produce(service.servers.kafka, full, partition, kind.make(b"unreadable"))
            except (OSError, asyncio.IncompleteReadError):
                stage.model.unacknowledged.add((full, partition))  # it may or may not be written
                continue
            if placed.code == 0:
                for delta in range(kind.records):
                    stage.model.unreadable[full, partition, placed.offset + delta] = name


FAULTS: dict[str, Fault] = {
    "worker-killed": partial(kill_process, kind="worker"),
    "facade-killed": partial(kill_process, kind="api"),
    "scheduler-killed": partial(kill_process, kind="scheduler"),
    "worker-frozen": freeze_worker,
    "rolling-restart": restart_in_turn,
    "workers-come-and-go": move_partitions,
    "kafka-leader-killed": partial(kill_server, choose=Stage.leader),
    "mongodb-primary-killed": partial(kill_server, choose=Stage.primary),
    "kafka-leader-frozen": partial(freeze_server, choose=Stage.leader),
    "mongodb-primary-frozen": partial(freeze_server, choose=Stage.primary),
    "both-clusters-restarted": restart_both_clusters,
    "redelivery": redeliver,
    "clock-jumps": jump_clocks,
    "network-slow": partial(disturb_network, mode="delay", least_s=3.0, most_s=8.0, delay_s=0.4),
    # Data to one server is held back without an error, then delivered at once.
    "network-held": partial(disturb_network, mode="hold", least_s=3.0, most_s=14.0),
    "network-resets": partial(disturb_network, mode="reset", least_s=0.5, most_s=5.0),
    "disk-full": fill_disk,
    "bad-records": send_bad_records,
}


async def end_reminders(stage: Stage) -> None:
    """Run reminders at ever later dates until every customer has received all that are due, and once more."""
    for year in range(1, MAX_MAILS + 2):
        later = datetime.now(UTC) + timedelta(days=365 * year)
        process, is_ready = await asyncio.to_thread(start_run, stage.fleet.service, later)

        async def is_over(process: ForkServerProcess = process) -> bool:
            return not process.is_alive()

        await eventually(is_over, deadline_s=120)
        if process.exitcode != 0 or not is_ready.is_set():
            raise AssertionError(f"a run of reminders ended with exit code {process.exitcode}")
