"""Costs of a review and of its approval: CPU time, and bytes on disk.

    python -m benchmarks.growth_costs [reviews]

It starts its own servers. Reviews and approvals go through the facade and the worker, as those of customers and
moderators do. benchmarks/growth.py uses its results.
"""

import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import httpx
from confluent_kafka import Consumer, TopicPartition

from benchmarks.facade import serving
from benchmarks.processes import cpu_s
from benchmarks.progress import print_progress
from benchmarks.servers import Workspace, running_servers
from messaging.topics import Topic

_REVIEWS: Final = 200_000
_OBJECTS: Final = 20
"""Reviews of each object."""

_PER_COMMAND: Final = 50
"""Reviews in a command."""

_CLIENTS: Final = 8
_WORDS: Final = 4_000
_POLL_S: Final = 1.0
_STEADY: Final = 15
"""Topics are complete after this many measurements of their size without growth."""


def texts(seed: int) -> Iterator[str]:
    """Texts of 20 to 60 words that compress about as well as prose: some words are frequent, most are rare."""
    randomness = random.Random(seed)  # noqa: S311 - texts, no secrets
    letters = "etaoinsrhldcumfpgwybvkxjqz"
    words = ["".join(randomness.choices(letters, range(26, 0, -1), k=randomness.randint(2, 10))) for _ in range(_WORDS)]
    shares = [1 / rank for rank in range(1, _WORDS + 1)]
    while True:
        yield " ".join(randomness.choices(words, shares, k=randomness.randint(20, 60))).capitalize() + "."


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU time of the worker, MongoDB and Kafka so far, in seconds."""

    worker: float
    mongod: float
    kafka: float

    @classmethod
    def of(cls, worker: int, servers: tuple[int, int]) -> Self:
        """The current CPU times of these processes."""
        return cls(cpu_s(worker), *map(cpu_s, servers))

    def since(self, before: "CpuTimes", messages: int) -> str:
        """Microseconds per message since `before`, as text."""
        spent = (self.worker - before.worker, self.mongod - before.mongod, self.kafka - before.kafka)
        return "worker {:.0f} µs, MongoDB {:.0f}, Kafka {:.0f}".format(*(1e6 * each / messages for each in spent))


async def moderate(workspace: Workspace, reviews: int, servers: tuple[int, int]) -> None:
    """Submit reviews, then approve each of them, and wait until everything is processed. Prints the CPU times."""
    bodies, numbers = texts(1), iter(range(0, reviews, _PER_COMMAND))
    stored: list[list[str]] = []
    limits = httpx.Limits(max_connections=_CLIENTS)
    with workspace.running("plaudit", "worker") as worker:
        async with (
            serving(workspace, "plaudit", "api") as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api", timeout=60, limits=limits) as http,
        ):

            async def submit() -> None:
                for first in numbers:
                    body = [_review(number, next(bodies), reviews) for number in range(first, first + _PER_COMMAND)]
                    answer = (await http.post("customerReviews", json=body)).raise_for_status()
                    stored.append(answer.json()["ids"])

            async def approve() -> None:
                while stored:
                    (await http.post("customerReviews/approve", json=stored.pop())).raise_for_status()

            for name, client in (("submission", submit), ("approval", approve)):
                before = CpuTimes.of(worker.pid, servers)
                await asyncio.gather(*(client() for _ in range(_CLIENTS)))
                await _until_steady(workspace)
                print_progress(f"{name}: {CpuTimes.of(worker.pid, servers).since(before, reviews)}")
    if await workspace.database["auditLog"].estimated_document_count() < reviews:
        raise RuntimeError("the worker has stopped before it was done")


async def _until_steady(workspace: Workspace) -> None:
    """Wait until no topic grows any more: events and the topic of reviews follow within seconds."""
    sizes: list[int] = []
    while len(sizes) < _STEADY or sizes[-1] != sizes[-_STEADY]:
        sizes.append(sum(bytes_of_topic(workspace, topic) for topic in Topic))
        await asyncio.sleep(_POLL_S)


def _review(number: int, text: str, reviews: int) -> dict[str, object]:
    object_id = number * 7_919 % (reviews // _OBJECTS)
    user = number * 104_729 % (reviews // 4)
    return {
        **{"storeId": "open", "userId": f"user-{user}", "userName": "Anna Berg", "rating": 1 + number % 5},
        **{"EntityId": f"product-{object_id}", "EntityType": "Product", "EntityName": "Camera"},
        **{"title": text[:30], "review": text},
    }


def bytes_of_topic(workspace: Workspace, topic: Topic) -> int:
    """Bytes of a topic's records on disk, in the embedded Kafka."""
    return sum(log.stat().st_size for log in workspace.settings.data.glob(f"**/{workspace.topic(topic)}-[0-9]*/*.log"))


def records_of_topic(workspace: Workspace, topic: Topic) -> int:
    """Number of records of a topic so far."""
    name = workspace.topic(topic)
    consumer = Consumer(
        {"bootstrap.servers": workspace.settings.kafka_connection().bootstrap_servers, "group.id": "growth"}
    )
    partitions = consumer.list_topics(name).topics[name].partitions
    offsets = [consumer.get_watermark_offsets(TopicPartition(name, number)) for number in partitions]
    consumer.close()
    return sum(last for _, last in offsets)


async def main() -> None:
    """Measure, and print a line for each collection and topic that grows with reviews."""
    reviews = int(sys.argv[1]) if len(sys.argv) > 1 else _REVIEWS
    with tempfile.TemporaryDirectory() as folder:
        async with running_servers(Path(folder)) as servers, servers.workspace() as workspace:
            await moderate(workspace, reviews, servers.pids)
            await workspace.database.client.admin.command("fsync")
            for name in sorted(await workspace.database.list_collection_names()):
                stats = await workspace.database.command("collStats", name)
                if stats["count"] >= reviews // _OBJECTS:
                    each = {index: round(size / stats["count"], 1) for index, size in stats["indexSizes"].items()}
                    about = f"{stats['count'] / reviews:.2f} per review; bytes of each"
                    disk, indexes = stats["storageSize"] / stats["count"], sum(each.values())
                    print_progress(f"{name}: {about}: {disk:.0f}, indexes {indexes:.0f} {each}")
            for topic in Topic:
                if (records := records_of_topic(workspace, topic)) >= reviews // _OBJECTS:
                    size = bytes_of_topic(workspace, topic)
                    print_progress(f"{topic}: {records / reviews:.2f} per review; {size / records:.0f} bytes of each")


if __name__ == "__main__":
    asyncio.run(main())
