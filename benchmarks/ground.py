"""The servers that everything is measured on, and a fresh place on them for each run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Producer

from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.embedded import embedded_kafka, embedded_mongo
from plaudit.waiting import until_prepared
from storage.database import Database, connect

OPEN_STORE: Final = {
    "_id": "open",
    "name": "Open",
    "settings": {"reviewsEnabled": True, "anonymousReviewsAllowed": True, "purchaseRequired": False},
}
_LOOK_S: Final = 0.02
_TIMEOUT_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class Place:
    """Topics and a database of one run, with indexes as in production and an open store."""

    settings: Settings
    database: Database

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to work here."""
        return {
            **os.environ,
            "PLAUDIT_MONGO__URI": self.settings.mongo_uri(),
            "PLAUDIT_MONGO__DATABASE": self.settings.mongo.database,
            "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": self.settings.kafka_connection().bootstrap_servers,
            "PLAUDIT_KAFKA__TOPIC_PREFIX": self.settings.kafka.topic_prefix,
            "PLAUDIT_LOG__LEVEL": "warning",
        }

    def topic(self, topic: Topic) -> str:
        """The full name of a topic."""
        return self.settings.topics.name(topic)

    @contextmanager
    def running(self, *command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process of `python -m <command>` until the block ends."""
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", *command], env=self.environment | environment
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    def publish(self, topic: Topic, messages: Iterator[tuple[str, bytes]]) -> int:
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

        async def stored() -> int:
            return await self.database[collection].estimated_document_count()

        return await _rate(stored, total, process)

    async def committed_rate(self, group: str, topic: Topic, total: int, process: subprocess.Popen[bytes]) -> float:
        """Records a second by the offsets that a group commits, from the first commit until `total` are done."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.settings.kafka_connection().bootstrap_servers)
        await admin.start()
        try:
            name = self.topic(topic)

            async def committed() -> int:
                offsets: dict[TopicPartition, Any] = await admin.list_consumer_group_offsets(group)
                return sum(o.offset for partition, o in offsets.items() if partition.topic == name)

            return await _rate(committed, total, process)
        finally:
            await admin.close()


async def _rate(count: Any, total: int, process: subprocess.Popen[bytes]) -> float:
    end = monotonic() + _TIMEOUT_S
    while not (first := await count()):
        _still(process, end)
        await asyncio.sleep(_LOOK_S)
    started = monotonic()
    while await count() < total:
        _still(process, end)
        await asyncio.sleep(_LOOK_S)
    return float((total - first) / (monotonic() - started))


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

    @asynccontextmanager
    async def place(self, *, partitions: int = 12, unindexed: Sequence[str] = ()) -> AsyncIterator[Place]:
        """A place of its own, gone afterwards; collections in `unindexed` have no index but that of ids."""
        name = f"b{uuid4().hex[:8]}"
        settings = Settings.model_validate(
            {
                "mongo": {"uri": self.mongo, "database": name},
                "kafka": {"bootstrap_servers": self.kafka, "topic_prefix": f"{name}.", "partitions": partitions},
                "data": self.folder,
            }
        )
        client, database = connect(self.mongo, name)
        try:
            await until_prepared(settings, database)
            await database["stores"].insert_one(dict(OPEN_STORE))
            for collection in unindexed:
                await database[collection].drop_indexes()
            yield Place(settings, database)
        finally:
            await client.drop_database(name)
            await client.close()
            admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka)
            await admin.start()
            await admin.delete_topics(settings.topics.all())
            await admin.close()


@asynccontextmanager
async def ground(folder: Path) -> AsyncIterator[Ground]:
    """Start the servers."""
    async with embedded_mongo(folder, print) as mongo, embedded_kafka(folder, print) as kafka:
        yield Ground(mongo.uri, kafka.bootstrap_servers, folder)
