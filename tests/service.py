"""Plaudit as its users have it: processes of its own, an address, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

T = TypeVar("T")
Json = dict[str, Any]
DEADLINE_S = 30.0
FLOW = ("review-submissions", "moderation-commands", "review-changes")


@dataclass(frozen=True, slots=True)
class Servers:
    """The real servers that a test run uses."""

    kafka: str
    mongo: str
    is_tansu: bool


async def eventually(
    question: Callable[[], Coroutine[Any, Any, T]],
    expected: Callable[[T], bool] = bool,
    *,
    deadline_s: float = DEADLINE_S,
) -> T:
    """Ask until the answer is as expected, and return it; fail with the last answer after the deadline."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while True:
        answer = await question()
        if expected(answer):
            return answer
        if loop.time() > end:
            raise AssertionError(f"not within {deadline_s} s; the last answer: {answer!r}"[:2_000])
        await asyncio.sleep(0.03)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Service:
    """An API and workers on topics and a database of their own."""

    servers: Servers
    folder: Path
    port: int = field(default_factory=free_port)
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}.")
    environment: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

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
            "PLAUDIT_KAFKA__PARTITIONS": "4",
            "PLAUDIT_KAFKA__IDEMPOTENCE": "false" if self.servers.is_tansu else "true",
            "PLAUDIT_MONGO__URI": self.servers.mongo,
            "PLAUDIT_MONGO__DATABASE": self.database,
            "PLAUDIT_HTTP__PORT": str(self.port),
            "PLAUDIT_DATA": str(self.folder),
            **self.environment,
        }

    def start(self, command: str, name: str | None = None) -> None:
        """Start `plaudit <command>` as a process of that name."""
        name = name or command
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "plaudit", command],
                env=self.command_environment(),
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "plaudit", *command],
            env=self.command_environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    async def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        process = self.processes.pop(name)
        process.send_signal(number)
        return await asyncio.to_thread(process.wait, 15)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(base_url=self.address, timeout=40) as client:
            yield client

    async def until_ready(self) -> None:
        async with self.client() as client:

            async def ready() -> bool:
                for name, process in self.processes.items():
                    assert process.poll() is None, f"{name} ended:\n{self.log(name)[-3_000:]}"
                try:
                    return (await client.get("/health/ready")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(ready)

    def topic(self, name: str) -> str:
        return self.prefix + name

    async def publish(self, topic: str, *messages: tuple[str | None, bytes]) -> None:
        """Publish raw values as an upstream system would, without any header."""
        producer = AIOKafkaProducer(bootstrap_servers=self.servers.kafka, max_request_size=12 * 1024 * 1024)
        await producer.start()
        try:
            sent = [
                await producer.send(self.topic(topic), value, key.encode() if key else None) for key, value in messages
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    async def records(self, topic: str) -> list[Any]:
        """Everything that stands in a topic now."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.servers.kafka, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            name = self.topic(topic)
            partitions = [TopicPartition(name, p) for p in await _found(consumer, name)]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            found: list[Any] = []
            while [p for p in partitions if ends[p] > await consumer.position(p)]:
                for batch in (await consumer.getmany(timeout_ms=300)).values():
                    found += batch
            return found
        finally:
            await consumer.stop()

    async def values(self, topic: str) -> list[Json]:
        return [json.loads(record.value) for record in await self.records(topic)]

    async def lag(self, topic: str) -> int:
        """How many records of the topic the consumer group has yet to commit."""
        name = self.topic(topic)
        consumer = AIOKafkaConsumer(bootstrap_servers=self.servers.kafka, group_id=name, enable_auto_commit=False)
        await consumer.start()
        try:
            partitions = [TopicPartition(name, p) for p in await _found(consumer, name)]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            return sum([ends[p] - (await consumer.committed(p) or 0) for p in partitions])
        finally:
            await consumer.stop()

    async def idle(
        self, topics: Iterable[str] = ("review-submissions", "moderation-commands", "review-changes")
    ) -> None:
        """Wait until everything that was published has been consumed, in the order of the flow."""
        for topic in topics:
            await eventually(partial(self.lag, topic), lambda lag: lag == 0, deadline_s=60)


async def _found(consumer: AIOKafkaConsumer, name: str) -> set[int]:
    await consumer.topics()  # makes it learn of all topics
    found: set[int] = consumer.partitions_for_topic(name) or set()
    return found


@asynccontextmanager
async def running_service(servers: Servers, folder: Path, **environment: str) -> AsyncIterator[Service]:
    """A service with one API and one worker, ready; stopped in the end, whatever happened."""
    service = Service(servers, folder, environment=environment)
    try:
        service.start("api")
        service.start("worker")
        await service.until_ready()
        yield service
    finally:
        for process in service.processes.values():
            process.terminate()
        for process in service.processes.values():
            try:
                await asyncio.to_thread(process.wait, 15)
            except subprocess.TimeoutExpired:
                process.kill()
