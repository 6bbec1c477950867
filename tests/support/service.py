"""Plaudit as its users run it: processes of its own, reached by an address."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
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
"""Timeout of a stop: the 10 s within which each process must end, by force if necessary, and delays of a busy machine.

tests/unit/test_stops.py shows that processes stop in time.
"""

BY_FORCE = "not stopped in time; exiting by force"
"""Log text of a process that a stop ended by force."""
PATIENCE_S = 120.0
"""Timeout of a request: the longest wait for a command, and delays of a busy machine."""

# No connection is reused: a server that was suspended closes an idle one before it reads the next request on it.
LIMITS = httpx.Limits(max_keepalive_connections=0)
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Context for clients of plain HTTP. By default each client loads the certificates of all authorities, which takes
longer than a request."""

_BY_MAILER, _FIRST = Topic.MAIL_COMMANDS, Topic.DEAD_LETTER_COMMANDS
FLOW = (_FIRST, *(topic for topic in CONSUMED if topic not in (_FIRST, _BY_MAILER)))
"""Topics that a worker reads, in the order in which records lead to others."""

FLOW_OF_RETURNS = ("order-events", "return-commands")
PARTITIONS = 4
QUIET_MS = 600
"""Milliseconds without records that mean the end of a topic on Tansu."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The real servers of a test run."""

    kafka: str
    mongo: str
    is_tansu: bool


@dataclass
class Service:
    """An API and workers with their own topics and database."""

    servers: Servers
    folder: Path
    port: int = field(default_factory=free_port)
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}.")
    environment: dict[str, str] = field(default_factory=dict)
    count: int = PARTITIONS
    """Partitions of each topic."""
    grown: int | None = None
    """Partitions of the topics that Plaudit reads, once they have grown."""
    processes: dict[str, ForkedCommand] = field(default_factory=dict)
    log_starts: dict[str, int] = field(default_factory=dict)
    read: dict[TopicPartition, list[Any]] = field(default_factory=dict)
    """Records read so far, kept because they are requested repeatedly and grow with each test."""

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
        """Mark the database as `plaudit init` does, without its other work."""
        async with self.mongo() as database:
            await SchemaMarks(database).mark_fresh()

    def start(self, command: str, name: str | None = None) -> None:
        """Start `plaudit <command>` as a process with this name."""
        name = name or command
        log = self.folder / f"{name}.log"
        self.log_starts[name] = log.stat().st_size if log.exists() else 0
        environment = self.command_environment()
        self.processes[name] = ForkedCommand(command, environment=environment, folder=self.folder, log=log)

    async def run(self, *command: str, code: int | None = 0, limit_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. The exit code must be `code`; None: any."""
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
        """Stop a process in a test of something later. On a busy machine it may end by force: its unfinished records
        are redelivered."""
        code = await self.stop(name)
        assert code == 0 or BY_FORCE in self.log(name), f"exit code {code}:\n{self.log(name)[-3_000:]}"

    async def restart(self, name: str) -> None:
        """Stop a process and wait until its successor is ready."""
        await self.end(name)
        self.start(name)
        await self.until_ready()

    def log(self, name: str) -> str:
        """The log of a process since its last start."""
        with (self.folder / f"{name}.log").open("rb") as log:
            log.seek(self.log_starts.get(name, 0))
            return log.read().decode(errors="replace")

    def client(self, **options: Any) -> httpx.AsyncClient:
        """A client of the API, to be used in a block; `options` of `httpx.AsyncClient`."""
        return httpx.AsyncClient(base_url=self.address, verify=NO_TLS, timeout=PATIENCE_S, limits=LIMITS, **options)

    async def until_ready(self) -> None:
        """Wait until the API is ready and every started worker consumes."""
        async with self.client() as client:

            async def ready() -> bool:
                for name, process in self.processes.items():
                    assert process.poll() is None, f"{name} ended:\n{self.log(name)[-3_000:]}"
                if not all("worker ready" in self.log(name) for name in self.processes if name.startswith("worker")):
                    return False
                try:
                    if "api" not in self.processes:
                        return True
                    health = (await client.get("/health/ready")).json()
                    return bool(health.get("reads") == health.get("commands") == "pass")
                except httpx.TransportError:
                    return False

            await eventually(ready)

    @asynccontextmanager
    async def running(self, workers: Sequence[str] = ("worker",), *, api: bool = True) -> "AsyncIterator[Service]":
        """Start the API and these workers, ready within the block; all processes are stopped after it."""
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
        """All records in these topics now, oldest first within each partition."""
        partitions = [partition for topic in topics for partition in self.partitions_of(topic)]
        async with self.consumer() as consumer:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            for partition in partitions:
                before = self.read.setdefault(partition, [])
                consumer.seek(partition, before[-1].offset + 1 if before else 0)
            while [p for p in partitions if ends[p] > await consumer.position(p)]:
                self._keep(await consumer.getmany(timeout_ms=300))
            # Tansu reports end offsets that are one batch behind.
            while self.servers.is_tansu and (batches := await consumer.getmany(timeout_ms=QUIET_MS)):
                self._keep(batches)
        return [record for partition in partitions for record in self.read[partition]]

    def _keep(self, batches: Mapping[TopicPartition, Sequence[Any]]) -> None:
        for partition, batch in batches.items():
            known = self.read[partition]
            # Two tasks of a test may read concurrently.
            known += [record for record in batch if not known or record.offset > known[-1].offset]

    async def values(self, topic: str) -> list[Json]:
        """The JSON values in a topic now, oldest first within each partition."""
        return [json.loads(record.value) for record in await self.records(topic)]

    async def keyed(self, topic: str, key: str) -> list[Any]:
        """The records in a topic now that have this key."""
        return [record for record in await self.records(topic) if record.key == key.encode()]

    async def letters(self, topic: str, key: str, count: int) -> list[Any]:
        """Wait until this many dead letters of a topic have this key, and assert that no more do."""
        letters = await eventually(partial(self.keyed, f"{topic}.dlq", key), lambda found: len(found) >= count)
        assert len(letters) == count
        return letters

    async def until_dead(self, topic: str, *messages: Message) -> None:
        """Wait until each of these messages to a topic is a dead letter."""
        wanted = {message.value for message in messages}
        letters = partial(self.records, f"{topic}.dlq")
        await eventually(letters, lambda found: {letter.value for letter in found} >= wanted)

    async def events(self, key: str) -> list[tuple[str, Json]]:
        """Type and data of the events with this key, oldest first."""
        return [(kind_of(record), json.loads(record.value)) for record in await self.keyed("events", key)]

    async def events_about(self, review_id: str) -> list[tuple[str, Json]]:
        """Type and data of the events about a review in order, without repeats."""
        records = await self.records("events")
        return once_each(each for each in records if json.loads(each.value).get("reviewId") == review_id)

    async def refusal_codes(self, review_id: str) -> list[str]:
        """The codes with which submissions with this id were refused, by their events."""
        return [data["code"] for kind, data in await self.events_about(review_id) if kind == "SubmissionRefused"]

    async def dead_letters(self) -> list[Any]:
        return await self.records(*(f"{topic}.dlq" for topic in CONSUMED))

    async def lag(self, topic: str) -> int:
        """Number of records that the consumer group hasn't committed; meaningful only on Apache Kafka."""
        partitions = self.partitions_of(topic)
        async with self.group_member(topic) as member:
            member.assign(partitions)
            ends = await member.end_offsets(partitions)
            return sum([ends[p] - (await member.committed(p) or 0) for p in partitions])

    async def idle(self, deadline_s: float = 90, topics: Sequence[str] = FLOW) -> None:
        """Wait until all published records are consumed, topic by topic in the order of `topics`."""
        for topic in topics:
            await eventually(partial(self.lag, topic), lambda lag: lag == 0, deadline_s=deadline_s)

    async def rewind(self, topics: Sequence[str] = FLOW) -> None:
        """Reset consumer groups to the beginning of their topics; no worker may run."""
        for topic in topics:
            partitions = self.partitions_of(topic)
            async with self.group_member(topic) as member:
                member.assign(partitions)
                await member.commit(dict.fromkeys(partitions, OffsetAndMetadata(0, "")))

    async def replay(self, *submissions: Message, topics: Sequence[str] = FLOW) -> None:
        """Make a worker consume topics again from their beginning, with these submissions after all others."""
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
        """A consumer that reads and commits offsets of a topic's worker group without joining it."""
        return self.consumer(group_id=self.topic(topic))

    def consumer(self, **options: str) -> AIOKafkaConsumer:
        """A consumer without automatic commits; to be used in a block."""
        return AIOKafkaConsumer(bootstrap_servers=self.servers.kafka, enable_auto_commit=False, **options)

    async def find(self, collection: str, id: str) -> Json:
        """One document; empty if there is none."""
        async with self.mongo() as database:
            return await database[collection].find_one({"_id": id}) or {}

    @asynccontextmanager
    async def mongo(self) -> AsyncIterator[AsyncDatabase[Json]]:
        """The database of the service."""
        async with AsyncMongoClient[Json](self.servers.mongo, tz_aware=True) as client:
            yield client[self.database]


def kind_of(record: Any) -> str:
    """The type of an event without its prefix."""
    return (dict(record.headers)["ce_type"] or b"").decode().removeprefix("plaudit.")


def once_each(events: Iterable[Any]) -> list[tuple[str, Json]]:
    """Type and data of events in order, each id once. They are published at least once; a repeat says the same."""
    found: dict[bytes, tuple[str, Json]] = {}
    for record in events:
        event = kind_of(record), json.loads(record.value)
        assert found.setdefault(dict(record.headers)["ce_id"], event) == event
    return list(found.values())


@asynccontextmanager
async def own_database(servers: Servers, **options: float) -> AsyncIterator[Database]:
    """A database of its own, connected as a process does it; dropped after the block."""
    client, database = connect(servers.mongo, f"test_{uuid.uuid4().hex[:8]}", **options)
    async with client:
        yield database
        with pymongo.timeout(60):  # overrides the client's own timeout
            try:
                await client.drop_database(database.name)
            except AutoReconnect:  # a late heartbeat on a busy machine
                await client.drop_database(database.name)


def running_service(servers: Servers, folder: Path, **environment: str) -> AbstractAsyncContextManager[Service]:
    """A ready service with one API and one worker."""
    return Service(servers, folder, environment=environment).running()


@asynccontextmanager
async def service_without_servers(servers: Servers, folder: Path, **more: str) -> AsyncIterator[Service]:
    """An API that reaches neither MongoDB nor Kafka."""
    environment = {
        "PLAUDIT_AUTH__MODE": "none",
        "PLAUDIT_MONGO__URI": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500",
        "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "PLAUDIT_HTTP__QUERY_TIMEOUT": "1",
        **more,
    }
    service = Service(servers, folder, environment=environment)
    service.start("api")
    try:
        async with service.client() as http:

            async def answers() -> bool:
                try:
                    return (await http.get("/health/live")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(answers)
        yield service
    finally:
        await service.stop("api")
