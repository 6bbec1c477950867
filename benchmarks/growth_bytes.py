"""Bytes that a moderated review leaves behind: documents, indexes and records, as they lie on the disk.

    python -m benchmarks.growth_bytes [reviews]

It starts its own servers. Reviews and approvals go through facade and worker, as those of customers and moderators do;
benchmarks/growth.py counts on what it tells.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
from confluent_kafka import Consumer, TopicPartition

from benchmarks.facade import serving
from benchmarks.ground import Place, ground
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


async def moderate(place: Place, reviews: int) -> None:
    """Submit so many reviews and approve each, until their ratings have followed."""
    said, numbers = texts(1), iter(range(0, reviews, _AT_ONCE))
    limits = httpx.Limits(max_connections=_CLIENTS)
    with place.running("plaudit", "worker"):
        async with (
            serving(place, "plaudit", "api") as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api", timeout=60, limits=limits) as http,
        ):

            async def client() -> None:
                for first in numbers:
                    body = [_review(number, next(said), reviews) for number in range(first, first + _AT_ONCE)]
                    answer = (await http.post("customerReviews", json=body)).raise_for_status()
                    (await http.post("customerReviews/approve", json=answer.json()["ids"])).raise_for_status()

            await asyncio.gather(*(client() for _ in range(_CLIENTS)))
            # Events and states of the topic of reviews follow within seconds.
            sizes: list[int] = []
            while len(sizes) < _STEADY or sizes[-1] != sizes[-_STEADY]:
                sizes.append(sum(bytes_of_topic(place, topic) for topic in Topic))
                await asyncio.sleep(_LOOK_S)
    if await place.database["auditLog"].estimated_document_count() < reviews:
        raise RuntimeError("the worker has stopped before its work was done")


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
            await moderate(place, reviews)
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
