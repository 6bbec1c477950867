"""Three Kafka brokers and three MongoDB members on this machine, each behind its own link of the proxy."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiokafka.errors import KafkaError
from pymongo.errors import PyMongoError

from devservers.kafka import KafkaProcess, form_cluster
from devservers.kafka_setup import set_up_kafka
from devservers.mongo import MongoProcess, direct_client, form_replica_set
from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection
from tests.chaos.proxy import HOST, Proxy, running_proxy
from tests.support.service import Servers

SIZE = 3
SMALL = ("-Xms96m", "-Xmx288m", "-XX:TieredStopAtLevel=1")
"""JVM options for brokers that run briefly and restart often."""

DISK_BYTES = 2 * 1024**3
"""Size of the file system that can be filled."""


class Broker(KafkaProcess):
    """A broker with a small heap, which clients and the other brokers reach through the proxy."""

    link_port: int = 0

    @property
    def link(self) -> str:
        return f"kafka-{self.node_id}"

    def _settings(self) -> dict[str, str | int]:
        return {
            **super()._settings(),
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.link_port}",
            "replica.lag.time.max.ms": 10_000,
            "log.cleaner.enable": "true",
            "num.network.threads": 2,
            "num.io.threads": 4,
        }

    def _program(self, main_class: str, *arguments: str, options: Sequence[str] = ()) -> Sequence[str | Path]:
        return super()._program(main_class, *arguments, options=(*options, *SMALL))


class Member(MongoProcess):
    """A member of the replica set, which clients and the other members reach through the proxy."""

    seat: int = 0
    link_port: int = 0

    @property
    def link(self) -> str:
        return f"mongo-{self.seat}"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.link_port}"


@dataclass
class Disk:
    """A small file system of its own for one member's data."""

    folder: Path

    def fill(self) -> None:
        """Use up the free space, including what is freed meanwhile."""
        with (self.folder / "ballast").open("ab") as ballast:
            while free := os.statvfs(self.folder).f_bavail * os.statvfs(self.folder).f_bsize:
                try:
                    os.posix_fallocate(ballast.fileno(), ballast.seek(0, os.SEEK_END), free)
                except OSError:
                    return

    def free(self) -> None:
        """Free the space again."""
        (self.folder / "ballast").unlink()


@dataclass
class Cluster:
    """The servers under test. `disk` belongs to the last member; None where no file system can be mounted."""

    brokers: Sequence[Broker]
    members: Sequence[Member]
    proxy: Proxy
    servers: Servers
    disk: Disk | None

    @property
    def all(self) -> list[Broker | Member]:
        return [*self.brokers, *self.members]

    async def leader(self, topics: Sequence[str]) -> Broker:
        """The broker that leads most partitions of these topics; the first broker if Kafka can't say."""
        leads: Counter[int] = Counter()
        try:
            async with admin_client(KafkaConnection(self.servers.kafka)) as admin:
                for topic in await admin.describe_topics(list(topics)):
                    leads.update(partition["leader"] for partition in topic["partitions"])
        except KafkaError:
            return self.brokers[0]
        node_id = leads.most_common(1)[0][0]
        return next((broker for broker in self.brokers if broker.node_id == node_id), self.brokers[0])

    async def primary(self) -> Member:
        """The primary of the replica set; the first member while there is none."""
        for member in self.members:
            if member.running and await _is_primary(member):
                return member
        return self.members[0]


async def _is_primary(member: Member) -> bool:
    try:
        async with direct_client(member) as client:
            return bool((await client.admin.command("hello"))["isWritablePrimary"])
    except PyMongoError:
        return False


def freeze(process: KafkaProcess | MongoProcess) -> None:
    """Suspend a server (SIGSTOP)."""
    if process.pid is not None:
        os.kill(process.pid, signal.SIGSTOP)


def thaw(process: KafkaProcess | MongoProcess) -> None:
    """Resume a server (SIGCONT)."""
    if process.pid is not None:
        os.kill(process.pid, signal.SIGCONT)


@asynccontextmanager
async def running_cluster(folder: Path, *, with_disk: bool = False) -> AsyncIterator[Cluster]:
    """A ready cluster. Raises MissingPartError where Apache Kafka can't run."""
    runtime = await set_up_kafka(print)
    brokers = [Broker(folder / f"kafka-{n}", folder / f"kafka-{n}.log", runtime, node_id=n) for n in range(1, SIZE + 1)]
    members = [Member(folder / f"mongo-{n}", folder / f"mongo-{n}.log", cache_gb=0.25) for n in range(SIZE)]
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(_mounted(members[-1].folder)) if with_disk else None
        servers: list[Broker | Member] = [*brokers, *members]
        for server in servers:
            stack.callback(server.release)
        await form_cluster(brokers)
        for seat, member in enumerate(members):
            member.seat = seat
            await member.claim()
        targets = {server.link: server.port for server in servers}
        proxy = await stack.enter_async_context(running_proxy(targets))
        for server in servers:
            server.link_port = proxy.ports[server.link]
            stack.callback(server.kill)
        await asyncio.gather(*(server.start() for server in servers))
        uri = await form_replica_set(members)
        bootstrap = ",".join(f"{HOST}:{broker.link_port}" for broker in brokers)
        yield Cluster(brokers, members, proxy, Servers(bootstrap, uri, is_tansu=False), disk)


@contextmanager
def _mounted(folder: Path) -> Iterator[Disk | None]:
    """A tmpfs at a folder; None where mounting isn't allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        yield None
        return
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
