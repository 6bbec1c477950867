"""MongoDB and Kafka for all benchmarks, and fresh topics and a fresh database for each measurement."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from aiokafka import TopicPartition
from aiokafka.errors import GroupCoordinatorNotAvailableError
from confluent_kafka import Producer

from benchmarks.progress import print_progress
from devservers.broker import embedded_kafka
from devservers.mongo import embedded_mongo
from messaging.kafka.administration import admin_client
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.processes.waiting import prepare_servers
from storage.database import Database, connect
from storage.indexes import ensure_indexes
from storage.reviews.changes import RelayProgress
from storage.schema import SchemaMarks

OPEN_STORE: Final = {
    "_id": "open",
    "name": "Open",
    "settings": {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False},
}
_PARTITIONS: Final = 12
_CACHE_GB: Final = 2.0
"""MongoDB's default on a machine with 5 GB of memory; a million reviews and their indexes fit into it."""

_POLL_S: Final = 0.02
_TIMEOUT_S: Final = 900.0
_STOP_S: Final = 30
_SHOWN_OUTPUT: Final = 4_000
"""Maximum bytes of a failed process's output that are printed."""


Count = Callable[[], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Workspace:
    """Topics and a database for one measurement, with all indexes and a store that accepts reviews from everyone."""

    settings: Settings
    database: Database
    version: Mapping[str, str]
    """Environment variables that select another version of the service than the current one."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for a process that uses these topics and this database."""
        return {
            **os.environ,
            **self.version,
            "PLAUDIT_MONGO__URI": self.settings.mongo_uri(),
            "PLAUDIT_MONGO__DATABASE": self.settings.mongo.database,
            "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": self.settings.kafka_connection().bootstrap_servers,
            "PLAUDIT_KAFKA__TOPIC_PREFIX": self.settings.kafka.topic_prefix,
            "PLAUDIT_DATA": str(self.settings.data),
            "PLAUDIT_LOG__LEVEL": "warning",
        }

    def topic(self, topic: Topic) -> str:
        """The full name of a topic."""
        return self.settings.topics.name(topic)

    @asynccontextmanager
    async def with_new_database(self) -> "AsyncIterator[Workspace]":
        """A workspace with the same topics and a separate, empty database: its processes read the same messages."""
        mongo = self.settings.mongo.model_copy(update={"database": _new_name()})
        settings = self.settings.model_copy(update={"mongo": mongo})
        async with _database(settings) as database:
            await ensure_indexes(database, remember_days=settings.remember_days)
            yield Workspace(settings, database, self.version)

    @contextmanager
    def running(
        self, *command: str, python: str = sys.executable, **environment: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run `python -m <command>`, and kill it at the end of the block. Prints its output if the block fails."""
        with (
            tempfile.TemporaryFile() as output,
            subprocess.Popen(  # noqa: S603
                [python, "-m", *command], env=self.environment | environment, stdout=output, stderr=output
            ) as process,
        ):
            try:
                yield process
            except Exception:
                output.seek(0)
                print_progress(output.read()[-_SHOWN_OUTPUT:].decode(errors="replace"))
                raise
            finally:
                process.kill()  # the rest of its work is not needed

    def publish(self, topic: Topic, messages: Iterable[tuple[str, bytes]]) -> int:
        """Publish keys and values as an upstream system would. Returns the number of messages."""
        producer = Producer(
            {
                "bootstrap.servers": self.settings.kafka_connection().bootstrap_servers,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        name, number = self.topic(topic), 0
        for key, value in messages:
            producer.produce(name, value, key)
            number += 1
        producer.flush()
        return number

    async def stored_rate(self, collection: str, total: int, process: subprocess.Popen[bytes]) -> float:
        """Documents per second, from the first one seen until there are `total`. Raises ValueError: too few."""
        return await _rate(self.database[collection].estimated_document_count, total, process)

    async def until_stored(self, collection: str, total: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until a collection has `total` documents. Raises RuntimeError: the process ended; TimeoutError."""
        await _wait_for_count(self.database[collection].estimated_document_count, total, process)

    async def committed_rate(self, group: str, topic: Topic, total: int, process: subprocess.Popen[bytes]) -> float:
        """Records per second by a group's committed offsets, from the first commit until `total` are committed."""
        async with self.committed(group, topic) as committed:
            return await _rate(committed, total, process)

    async def until_committed(self, topic: Topic, total: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until the worker's group of a topic has committed `total` records."""
        async with self.committed(self.topic(topic), topic) as committed:
            await _wait_for_count(committed, total, process)

    async def relay(self) -> None:
        """Run a worker until it has published all reviews that were inserted directly into the database.

        The worker is stopped regularly: if it were killed, Kafka would wait for it, and reassign its partitions during
        the next measurement."""
        with self.running("plaudit", "worker") as process:
            await self.until_relayed(process)
            process.terminate()
            process.wait(_STOP_S)

    async def until_relayed(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a worker has published all reviews that were inserted directly into the database."""
        progress = RelayProgress(self.database)

        async def relayed() -> int:
            now = await progress.load()
            return int(now.done is not None and now.republication is None)

        await _wait_for_count(relayed, 1, process)

    @asynccontextmanager
    async def committed(self, group: str, topic: Topic) -> AsyncIterator[Count]:
        """A function that returns the number of records of a topic that a group has committed."""
        async with admin_client(self.settings.kafka_connection()) as admin:
            name = self.topic(topic)

            async def committed() -> int:
                try:
                    offsets: dict[TopicPartition, Any] = await admin.list_consumer_group_offsets(group)
                except GroupCoordinatorNotAvailableError:
                    return 0  # Kafka has not chosen one yet
                return sum(o.offset for partition, o in offsets.items() if partition.topic == name)

            yield committed


async def _rate(count: Count, total: int, process: subprocess.Popen[bytes]) -> float:
    first = await _wait_for_count(count, 1, process)
    if first >= total:
        raise ValueError(f"all {total} were done at the first check: too few to measure a rate")
    started = monotonic()
    await _wait_for_count(count, total, process)
    return float((total - first) / (monotonic() - started))


async def _wait_for_count(count: Count, total: int, process: subprocess.Popen[bytes]) -> int:
    end = monotonic() + _TIMEOUT_S
    while (reached := await count()) < total:
        _check_running(process, end)
        await asyncio.sleep(_POLL_S)
    return reached


def _check_running(process: subprocess.Popen[bytes], end: float) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"{process.args!r} ended with code {process.returncode}")
    if monotonic() > end:
        raise TimeoutError(f"{process.args!r} was not done within {_TIMEOUT_S:.0f} s")


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses and process ids of MongoDB and Kafka."""

    mongo: str
    kafka: str
    folder: Path
    pids: tuple[int, int]
    """Process ids of MongoDB and Kafka."""
    version: Mapping[str, str] = field(default_factory=dict)
    """As in `Workspace`."""

    @asynccontextmanager
    async def workspace(self) -> AsyncIterator[Workspace]:
        """New topics and a new database, deleted at the end of the block."""
        name = _new_name()
        settings = Settings.model_validate(
            {
                "mongo": {"uri": self.mongo, "database": name},
                "kafka": {"bootstrap_servers": self.kafka, "topic_prefix": f"{name}.", "partitions": _PARTITIONS},
                "data": self.folder,
            }
        )
        try:
            async with _database(settings) as database:
                await prepare_servers(settings, database)
                yield Workspace(settings, database, self.version)
        finally:
            async with admin_client(settings.kafka_connection()) as admin:
                await admin.delete_topics(settings.topics.all())


def _new_name() -> str:
    return f"b{uuid4().hex[:8]}"


@asynccontextmanager
async def _database(settings: Settings) -> AsyncIterator[Database]:
    """A new database with a store, deleted at the end of the block."""
    client, database = connect(settings.mongo_uri(), settings.mongo.database)
    try:
        await SchemaMarks(database).mark_fresh()
        await database["stores"].insert_one(dict(OPEN_STORE))
        yield database
    finally:
        await client.drop_database(database.name)
        await client.close()


@asynccontextmanager
async def running_servers(folder: Path) -> AsyncIterator[Servers]:
    """Start MongoDB and Kafka; stop them at the end of the block."""
    async with (
        embedded_mongo(folder, print_progress, cache_gb=_CACHE_GB) as mongo,
        embedded_kafka(folder, print_progress) as kafka,
    ):
        if mongo.pid is None or kafka.pid is None:
            raise RuntimeError("a server ended right after its start")
        yield Servers(mongo.uri, kafka.address, folder, (mongo.pid, kafka.pid))
