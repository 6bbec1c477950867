"""The servers that everything is measured on, and a fresh place on them for each run."""

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
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError
from confluent_kafka import Producer

from benchmarks.progress import tell
from devservers.broker import embedded_kafka
from devservers.mongo import embedded_mongo
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.processes.waiting import prepare_servers
from storage.database import Database, connect
from storage.indexes import ensure_indexes
from storage.reviews_changes import RelayProgress
from storage.schema import SchemaMarks

OPEN_STORE: Final = {
    "_id": "open",
    "name": "Open",
    "settings": {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False},
}
_PARTITIONS: Final = 12
_CACHE_GB: Final = 2.0
"""MongoDB's own choice on a machine of 5 GB: a million reviews and their indexes fit."""

_LOOK_S: Final = 0.02
_TIMEOUT_S: Final = 900.0
_STOP_S: Final = 30
_LAST_WORDS: Final = 4_000


Count = Callable[[], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Place:
    """Topics and a database of one run, with indexes as in production and an open store."""

    settings: Settings
    database: Database
    version: Mapping[str, str]
    """Variables by which another version of the service works here than the one that measures."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that works here."""
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
    async def beside(self) -> "AsyncIterator[Place]":
        """A place with the same topics and an empty database: who works here reads what has been published there."""
        mongo = self.settings.mongo.model_copy(update={"database": _new_name()})
        settings = self.settings.model_copy(update={"mongo": mongo})
        async with _database(settings) as database:
            await ensure_indexes(database, remember_days=settings.remember_days)
            yield Place(settings, database, self.version)

    @contextmanager
    def running(
        self, *command: str, python: str = sys.executable, **environment: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process of `python -m <command>` until the block ends; what it said is shown if the block fails."""
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(  # noqa: S603
                [python, "-m", *command], env=self.environment | environment, stdout=said, stderr=said
            ) as process,
        ):
            try:
                yield process
            except Exception:
                said.seek(0)
                tell(said.read()[-_LAST_WORDS:].decode(errors="replace"))
                raise
            finally:
                process.kill()  # nobody needs the rest of its work

    def publish(self, topic: Topic, messages: Iterable[tuple[str, bytes]]) -> int:
        """Publish keyed values as an upstream system would; returns how many."""
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
        """Documents a second, from the first that is seen until there are `total`."""
        return await _rate(self.database[collection].estimated_document_count, total, process)

    async def until_stored(self, collection: str, total: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until a collection has `total` documents."""
        await _reach(self.database[collection].estimated_document_count, total, process)

    async def committed_rate(self, group: str, topic: Topic, total: int, process: subprocess.Popen[bytes]) -> float:
        """Records a second by the offsets that a group commits, from the first commit until `total` are done."""
        async with self.committed(group, topic) as committed:
            return await _rate(committed, total, process)

    async def until_committed(self, group: str, topic: Topic, total: int, process: subprocess.Popen[bytes]) -> None:
        """Wait until a group has committed `total` records in all."""
        async with self.committed(group, topic) as committed:
            await _reach(committed, total, process)

    async def relay(self) -> None:
        """Have a worker publish all reviews that were put into the database behind its back, and end as it should:
        Kafka waits for a killed one, and hands its partitions on in the middle of what is measured next."""
        with self.running("plaudit", "worker") as process:
            await self.until_relayed(process)
            process.terminate()
            process.wait(_STOP_S)

    async def until_relayed(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a worker has published all reviews that were put into the database behind its back."""
        progress = RelayProgress(self.database)

        async def relayed() -> int:
            now = await progress.load()
            return int(now.done is not None and now.republication is None)

        await _reach(relayed, 1, process)

    @asynccontextmanager
    async def committed(self, group: str, topic: Topic) -> AsyncIterator[Count]:
        """A function that tells how many records of a topic a group has committed."""
        async with self.admin() as admin:
            name = self.topic(topic)

            async def committed() -> int:
                try:
                    offsets: dict[TopicPartition, Any] = await admin.list_consumer_group_offsets(group)
                except GroupCoordinatorNotAvailableError:
                    return 0  # Kafka is about to name one
                return sum(o.offset for partition, o in offsets.items() if partition.topic == name)

            yield committed

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """A client for questions about Kafka."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.settings.kafka_connection().bootstrap_servers)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()


async def _rate(count: Count, total: int, process: subprocess.Popen[bytes]) -> float:
    first = await _reach(count, 1, process)
    if first >= total:
        raise ValueError(f"all of {total} were done at the first look: too few to tell a rate")
    started = monotonic()
    await _reach(count, total, process)
    return float((total - first) / (monotonic() - started))


async def _reach(count: Count, total: int, process: subprocess.Popen[bytes]) -> int:
    end = monotonic() + _TIMEOUT_S
    while (reached := await count()) < total:
        _still(process, end)
        await asyncio.sleep(_LOOK_S)
    return reached


def _still(process: subprocess.Popen[bytes], end: float) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"{process.args!r} ended with code {process.returncode}")
    if monotonic() > end:
        raise TimeoutError(f"{process.args!r} was not done in {_TIMEOUT_S:.0f} s")


@dataclass(frozen=True, slots=True)
class Ground:
    """Addresses of the servers."""

    mongo: str
    kafka: str
    folder: Path
    pids: tuple[int, int]
    """Of MongoDB and of Kafka."""
    version: Mapping[str, str] = field(default_factory=dict)
    """See `Place`."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """A place of its own, gone afterwards."""
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
                yield Place(settings, database, self.version)
        finally:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka)
            await admin.start()
            await admin.delete_topics(settings.topics.all())
            await admin.close()


def _new_name() -> str:
    return f"b{uuid4().hex[:8]}"


@asynccontextmanager
async def _database(settings: Settings) -> AsyncIterator[Database]:
    """A database with an open store, gone afterwards."""
    client, database = connect(settings.mongo_uri(), settings.mongo.database)
    try:
        await SchemaMarks(database).mark_fresh()
        await database["stores"].insert_one(dict(OPEN_STORE))
        yield database
    finally:
        await client.drop_database(database.name)
        await client.close()


@asynccontextmanager
async def ground(folder: Path) -> AsyncIterator[Ground]:
    """Start the servers."""
    async with embedded_mongo(folder, tell, cache_gb=_CACHE_GB) as mongo, embedded_kafka(folder, tell) as kafka:
        if mongo.pid is None or kafka.pid is None:
            raise RuntimeError("a server ended as soon as it was ready")
        yield Ground(mongo.uri, kafka.address, folder, (mongo.pid, kafka.pid))
