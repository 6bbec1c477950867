"""Plaudit as its users have it: processes of its own, an address, and nothing else."""

import asyncio
import json
import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pymongo
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import AutoReconnect

from messaging.topics import CONSUMED, Topic
from storage.database import Database, connect
from storage.schema import SchemaMarks
from tests.support.forks import ForkedCommand, run_forked

from .messages import Message
from .waiting import eventually, free_port

Json = dict[str, Any]
STOP_S = 60.0
"""The 10 s in which every process has to stop, by force if need be, and what it takes on a busy machine until it runs.
That it does so within its time is shown by tests/unit/test_stops.py."""

BY_FORCE = "not stopped in time; exiting by force"
PATIENCE_S = 120.0
"""For an answer: the longest wait for a command, and what else it takes on a busy machine."""

# No connection is used twice: a server that was held up closes one that was idle before it reads what has come by it.
LIMITS = httpx.Limits(max_keepalive_connections=0)

_NOT_BY_WORKERS, _BEFORE_ALL = Topic.MAIL_COMMANDS, Topic.DEAD_LETTER_COMMANDS
FLOW = (_BEFORE_ALL, *(topic for topic in CONSUMED if topic not in (_BEFORE_ALL, _NOT_BY_WORKERS)))
"""The topics that a worker reads, in the order in which one follows from the other."""

FLOW_OF_RETURNS = ("order-events", "return-commands")
PARTITIONS = 4
QUIET_MS = 600


@dataclass(frozen=True, slots=True)
class Servers:
    """The real servers that a test run uses."""

    kafka: str
    mongo: str
    is_tansu: bool


@dataclass
class Service:
    """An API and workers on topics and a database of their own."""

    servers: Servers
    folder: Path
    port: int = field(default_factory=free_port)
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}.")
    environment: dict[str, str] = field(default_factory=dict)
    count: int = PARTITIONS
    """The partitions of each topic."""
    grown: int | None = None
    """Those of topics that Plaudit reads, once they have grown."""
    processes: dict[str, ForkedCommand] = field(default_factory=dict)
    log_starts: dict[str, int] = field(default_factory=dict)
    read: dict[TopicPartition, list[Any]] = field(default_factory=dict)
    """The records that were read so far: they are asked for again and again, and there are more with each test."""

    @property
    def database(self) -> str:
        return f"test_{self.prefix.rstrip('.')}"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command_environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": self.servers.kafka,
            "PLAUDIT_KAFKA__TOPIC_PREFIX": self.prefix,
            "PLAUDIT_KAFKA__PARTITIONS": str(self.count),
            "PLAUDIT_KAFKA__IDEMPOTENCE": "false" if self.servers.is_tansu else "true",
            "PLAUDIT_MONGO__URI": self.servers.mongo,
            "PLAUDIT_MONGO__DATABASE": self.database,
            "PLAUDIT_HTTP__PORT": str(self.port),
            "PLAUDIT_DATA": str(self.folder),
            **self.environment,
        }

    async def mark(self) -> None:
        """Mark the database as `plaudit init` does, without whatever else that makes."""
        async with self.mongo() as database:
            await SchemaMarks(database).mark_fresh()

    def start(self, command: str, name: str | None = None) -> None:
        """Start `plaudit <command>` as a process of that name."""
        name = name or command
        log = self.folder / f"{name}.log"
        self.log_starts[name] = log.stat().st_size if log.exists() else 0
        environment = self.command_environment()
        self.processes[name] = ForkedCommand(command, environment=environment, folder=self.folder, log=log)

    async def run(self, *command: str, code: int | None = 0, limit_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; the exit code must be this one, or any where it is None."""
        environment = self.command_environment()
        run = partial(run_forked, *command, environment=environment, folder=self.folder, limit_s=limit_s)
        ended = await asyncio.to_thread(run)
        assert code in (None, ended.returncode), ended.stdout + ended.stderr
        return ended

    async def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end. Returns the exit code."""
        process = self.processes[name]
        process.send_signal(number)
        code = await asyncio.to_thread(process.wait, STOP_S)
        del self.processes[name]
        return code

    async def end(self, name: str) -> None:
        """Stop a process for a test that is about what comes afterwards. On a busy machine it may end by force: what it
        has in hand comes again."""
        code = await self.stop(name)
        assert code == 0 or BY_FORCE in self.log(name), f"exit code {code}:\n{self.log(name)[-3_000:]}"

    async def restart(self, name: str) -> None:
        """Stop a process, and wait until the one that takes its place is ready."""
        await self.end(name)
        self.start(name)
        await self.until_ready()

    def log(self, name: str) -> str:
        """The log of a process since its last start."""
        with (self.folder / f"{name}.log").open("rb") as log:
            log.seek(self.log_starts.get(name, 0))
            return log.read().decode(errors="replace")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(base_url=self.address, timeout=PATIENCE_S, limits=LIMITS) as client:
            yield client

    async def until_ready(self) -> None:
        """Wait until the API serves and every worker that was started consumes."""
        async with self.client() as client:

            async def ready() -> bool:
                for name, process in self.processes.items():
                    assert process.poll() is None, f"{name} ended:\n{self.log(name)[-3_000:]}"
                if not all("worker ready" in self.log(name) for name in self.processes if name.startswith("worker")):
                    return False
                try:
                    if "api" not in self.processes:
                        return True
                    told = (await client.get("/health/ready")).json()
                    return bool(told.get("reads") == told.get("commands") == "pass")
                except httpx.TransportError:
                    return False

            await eventually(ready)

    @asynccontextmanager
    async def running(self, workers: Sequence[str] = ("worker",), *, api: bool = True) -> "AsyncIterator[Service]":
        """Start the API and workers of these names, ready within the block; all processes end with it."""
        try:
            if api and "api" not in self.processes:
                self.start("api")
            for name in workers:
                self.start("worker", name)
            await self.until_ready()
            yield self
        finally:
            for process in self.processes.values():
                process.terminate()
            for process in self.processes.values():
                try:
                    await asyncio.to_thread(process.wait, 15)
                except subprocess.TimeoutExpired:
                    process.kill()

    def topic(self, name: str) -> str:
        return self.prefix + name

    async def publish(self, topic: str, *messages: Message) -> None:
        """Publish raw values as an upstream system would."""
        options = {"bootstrap_servers": self.servers.kafka, "max_request_size": 12 * 1024 * 1024}
        async with AIOKafkaProducer(**options) as producer:
            sent = [
                await producer.send(
                    self.topic(topic),
                    m.value,
                    m.key.encode() if m.key is not None else None,
                    headers=list(m.headers),
                    timestamp_ms=m.timestamp,
                )
                for m in messages
            ]
            await asyncio.gather(*sent)

    async def records(self, *topics: str) -> list[Any]:
        """Everything that stands in topics now, oldest first within each partition."""
        partitions = [partition for topic in topics for partition in self.partitions_of(topic)]
        async with self.consumer() as consumer:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for partition in partitions:
                before = self.read.setdefault(partition, [])
                consumer.seek(partition, before[-1].offset + 1 if before else 0)
            while [p for p in partitions if ends[p] > await consumer.position(p)]:
                self._keep(await consumer.getmany(timeout_ms=300))
            # Tansu tells ends that are one batch behind.
            while self.servers.is_tansu and (batches := await consumer.getmany(timeout_ms=QUIET_MS)):
                self._keep(batches)
        return [record for partition in partitions for record in self.read[partition]]

    def _keep(self, batches: Mapping[TopicPartition, Sequence[Any]]) -> None:
        for partition, batch in batches.items():
            known = self.read[partition]
            # Two tasks of a test may read at once.
            known += [record for record in batch if not known or record.offset > known[-1].offset]

    async def values(self, topic: str) -> list[Json]:
        """The values in a topic now, oldest first within each partition."""
        return [json.loads(record.value) for record in await self.records(topic)]

    async def keyed(self, topic: str, key: str) -> list[Any]:
        """The records in a topic now that have this key."""
        return [record for record in await self.records(topic) if record.key == key.encode()]

    async def letters(self, topic: str, key: str, count: int) -> list[Any]:
        """Wait until so many dead letters of a topic have this key, and no more."""
        letters = await eventually(partial(self.keyed, f"{topic}.dlq", key), lambda found: len(found) >= count)
        assert len(letters) == count
        return letters

    async def until_dead(self, topic: str, *messages: Message) -> None:
        """Wait until each of these messages of a topic is a dead letter."""
        wanted = {message.value for message in messages}
        letters = partial(self.records, f"{topic}.dlq")
        await eventually(letters, lambda found: {letter.value for letter in found} >= wanted)

    async def events(self, key: str) -> list[tuple[str, Json]]:
        """The events with this key, oldest first: type and data."""
        return [(kind_of(record), json.loads(record.value)) for record in await self.keyed("events", key)]

    async def dead_letters(self) -> list[Any]:
        """Everything in every dead-letter topic."""
        return await self.records(*(f"{topic}.dlq" for topic in CONSUMED))

    async def lag(self, topic: str) -> int:
        """The number of records that the consumer group has yet to commit; of use on Apache Kafka alone."""
        partitions = self.partitions_of(topic)
        async with self.group_member(topic) as member:
            member.assign(partitions)
            ends = await member.end_offsets(partitions)
            return sum([ends[p] - (await member.committed(p) or 0) for p in partitions])

    async def idle(self, deadline_s: float = 90, topics: Sequence[str] = FLOW) -> None:
        """Wait until everything that was published has been consumed, in the order of the flow."""
        for topic in topics:
            await eventually(partial(self.lag, topic), lambda lag: lag == 0, deadline_s=deadline_s)

    async def rewind(self, topics: Sequence[str] = FLOW) -> None:
        """Put consumer groups back to the beginning of their topics; no worker may run."""
        for topic in topics:
            partitions = self.partitions_of(topic)
            async with self.group_member(topic) as member:
                member.assign(partitions)
                await member.commit(dict.fromkeys(partitions, OffsetAndMetadata(0, "")))

    async def replay(self, *submissions: Message, topics: Sequence[str] = FLOW) -> None:
        """Have a worker consume topics again from their beginnings, and these submissions after all others."""
        await self.idle(topics=topics)
        await self.end("worker")
        await self.rewind(topics)
        await self.publish("review-submissions", *submissions)
        self.start("worker")
        await self.until_ready()
        await self.idle(topics=topics)

    async def partitions(self, topic: str) -> int:
        """The number of partitions of a topic."""
        async with AIOKafkaProducer(bootstrap_servers=self.servers.kafka) as producer:
            return len(await producer.partitions_for(self.topic(topic)))

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        is_read = any(topic == each and each.is_consumed for each in Topic)
        count = self.grown if self.grown and is_read else self.count
        return [TopicPartition(self.topic(topic), number) for number in range(count)]

    def group_member(self, topic: str) -> AIOKafkaConsumer:
        """A consumer that speaks for the worker's group of a topic without joining it."""
        return self.consumer(group_id=self.topic(topic))

    def consumer(self, **options: str) -> AIOKafkaConsumer:
        """A consumer that commits nothing by itself; to be used in a block."""
        return AIOKafkaConsumer(bootstrap_servers=self.servers.kafka, enable_auto_commit=False, **options)

    async def find(self, collection: str, id: str) -> Json:
        """One document, empty where there is none."""
        async with self.mongo() as database:
            return await database[collection].find_one({"_id": id}) or {}

    @asynccontextmanager
    async def mongo(self) -> AsyncIterator[AsyncDatabase[Json]]:
        """The database behind the service."""
        async with AsyncMongoClient[Json](self.servers.mongo, tz_aware=True) as client:
            yield client[self.database]


def kind_of(record: Any) -> str:
    """The type of an event, as the documents have it."""
    return (dict(record.headers)["ce_type"] or b"").decode().removeprefix("plaudit.")


@asynccontextmanager
async def own_database(servers: Servers, **options: float) -> AsyncIterator[Database]:
    """A database, connected as a process does it, that is gone after the block."""
    client, database = connect(servers.mongo, f"test_{uuid.uuid4().hex[:8]}", **options)
    async with client:
        yield database
        with pymongo.timeout(60):  # whatever the client's own
            try:
                await client.drop_database(database.name)
            except AutoReconnect:  # the server was late with a heartbeat, as on a busy machine
                await client.drop_database(database.name)


def running_service(servers: Servers, folder: Path, **environment: str) -> AbstractAsyncContextManager[Service]:
    """A service with one API and one worker, ready."""
    return Service(servers, folder, environment=environment).running()
