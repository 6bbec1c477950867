"""Costs of a review and of its approval: time of processors, and the bytes that they leave on disks.

    python -m benchmarks.growth_costs [reviews]

It starts its own servers. Reviews and approvals go through facade and worker, as those of customers and moderators do;
benchmarks/growth.py counts on what it tells.
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
from benchmarks.ground import Place, ground
from benchmarks.processes import cpu_s
from benchmarks.progress import tell
from messaging.topics import Topic

_REVIEWS: Final = 200_000
_OBJECTS: Final = 20
"""Reviews of each object."""

_AT_ONCE: Final = 50
"""Reviews in a command."""

_CLIENTS: Final = 8
_WORDS: Final = 4_000
_LOOK_S: Final = 1.0
_STEADY: Final = 15
"""Looks at topics that don't grow, after which they are complete."""


def texts(seed: int) -> Iterator[str]:
    """Texts of 20 to 60 words, which compress about as prose does: some words are frequent, most are rare."""
    chance = random.Random(seed)  # noqa: S311 - texts, no secrets
    letters = "etaoinsrhldcumfpgwybvkxjqz"
    words = ["".join(chance.choices(letters, range(26, 0, -1), k=chance.randint(2, 10))) for _ in range(_WORDS)]
    shares = [1 / rank for rank in range(1, _WORDS + 1)]
    while True:
        yield " ".join(chance.choices(words, shares, k=chance.randint(20, 60))).capitalize() + "."


@dataclass(frozen=True, slots=True)
class Processors:
    """Seconds that worker, MongoDB and Kafka have computed for so far."""

    worker: float
    mongod: float
    kafka: float

    @classmethod
    def of(cls, worker: int, servers: tuple[int, int]) -> Self:
        """As these processes have it now."""
        return cls(cpu_s(worker), *map(cpu_s, servers))

    def since(self, before: "Processors", messages: int) -> str:
        """Microseconds for each message since then."""
        spent = (self.worker - before.worker, self.mongod - before.mongod, self.kafka - before.kafka)
        return "worker {:.0f} µs, MongoDB {:.0f}, Kafka {:.0f}".format(*(1e6 * each / messages for each in spent))


async def moderate(place: Place, reviews: int, servers: tuple[int, int]) -> None:
    """Submit so many reviews, then approve each, until all that follows is done; tells what each took of processors."""
    said, numbers = texts(1), iter(range(0, reviews, _AT_ONCE))
    stored: list[list[str]] = []
    limits = httpx.Limits(max_connections=_CLIENTS)
    with place.running("plaudit", "worker") as worker:
        async with (
            serving(place, "plaudit", "api") as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api", timeout=60, limits=limits) as http,
        ):

            async def submit() -> None:
                for first in numbers:
                    body = [_review(number, next(said), reviews) for number in range(first, first + _AT_ONCE)]
                    answer = (await http.post("customerReviews", json=body)).raise_for_status()
                    stored.append(answer.json()["ids"])

            async def approve() -> None:
                while stored:
                    (await http.post("customerReviews/approve", json=stored.pop())).raise_for_status()

            for name, client in (("submission", submit), ("approval", approve)):
                before = Processors.of(worker.pid, servers)
                await asyncio.gather(*(client() for _ in range(_CLIENTS)))
                await _until_steady(place)
                tell(f"{name}: {Processors.of(worker.pid, servers).since(before, reviews)}")
    if await place.database["auditLog"].estimated_document_count() < reviews:
        raise RuntimeError("the worker has stopped before its work was done")


async def _until_steady(place: Place) -> None:
    """Wait until no topic grows any more: events and states of the topic of reviews follow within seconds."""
    sizes: list[int] = []
    while len(sizes) < _STEADY or sizes[-1] != sizes[-_STEADY]:
        sizes.append(sum(bytes_of_topic(place, topic) for topic in Topic))
        await asyncio.sleep(_LOOK_S)


def _review(number: int, text: str, reviews: int) -> dict[str, object]:
    object_id = number * 7_919 % (reviews // _OBJECTS)
    user = number * 104_729 % (reviews // 4)
    return {
        **{"storeId": "open", "userId": f"user-{user}", "userName": "Anna Berg", "rating": 1 + number % 5},
        **{"EntityId": f"product-{object_id}", "EntityType": "Product", "EntityName": "Camera"},
        **{"title": text[:30], "review": text},
    }


def bytes_of_topic(place: Place, topic: Topic) -> int:
    """Bytes of a topic's records on the disk of the embedded Kafka."""
    return sum(log.stat().st_size for log in place.settings.data.glob(f"**/{place.topic(topic)}-[0-9]*/*.log"))


def records_of_topic(place: Place, topic: Topic) -> int:
    """Records of a topic so far."""
    name = place.topic(topic)
    consumer = Consumer(
        {"bootstrap.servers": place.settings.kafka_connection().bootstrap_servers, "group.id": "growth"}
    )
    partitions = consumer.list_topics(name).topics[name].partitions
    offsets = [consumer.get_watermark_offsets(TopicPartition(name, number)) for number in partitions]
    consumer.close()
    return sum(last for _, last in offsets)


async def main() -> None:
    """Measure, and print a line for each collection and topic that has grown."""
    reviews = int(sys.argv[1]) if len(sys.argv) > 1 else _REVIEWS
    with tempfile.TemporaryDirectory() as folder:
        async with ground(Path(folder)) as servers, servers.place() as place:
            await moderate(place, reviews, servers.pids)
            await place.database.client.admin.command("fsync")
            for name in sorted(await place.database.list_collection_names()):
                told = await place.database.command("collStats", name)
                if told["count"] >= reviews // _OBJECTS:
                    each = {index: round(size / told["count"], 1) for index, size in told["indexSizes"].items()}
                    about = f"{told['count'] / reviews:.2f} a review; bytes of each"
                    disk, indexes = told["storageSize"] / told["count"], sum(each.values())
                    tell(f"{name}: {about}: {disk:.0f}, indexes {indexes:.0f} {each}")
            for topic in Topic:
                if (records := records_of_topic(place, topic)) >= reviews // _OBJECTS:
                    size = bytes_of_topic(place, topic)
                    tell(f"{topic}: {records / reviews:.2f} a review; {size / records:.0f} bytes of each")


if __name__ == "__main__":
    asyncio.run(main())
