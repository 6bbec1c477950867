"""Growth on paper: what was measured for one review, taken to many; and simulations of what sums don't tell.

    python -m benchmarks.growth

It needs no server, and says the same each time: docs/scale.md shows the sums.
"""

import random
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Final

from aiokafka.partitioner import DefaultPartitioner

from benchmarks.comparison import p99
from benchmarks.samples import object_id
from domain.places import entity_key
from domain.ratings import Entity


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a core for one message, with the servers on the same machine."""

    worker: float
    mongod: float
    kafka: float


# By `today` of [ingest_of_november_22] in benchmarks/results/by-hand.toml, the start of the worker and Kafka's compiler
# among them: the newest that have all three.
INGEST: Final = Cost(worker=302e-6, mongod=127e-6, kafka=96e-6)
# Within the bounds of [one_review] there, but for Kafka's part, which is below them. A worker passed approvals by HTTP
# on then, as it no longer does with ids that tell their place. Nothing later has all three.
APPROVAL: Final = Cost(worker=270e-6, mongod=390e-6, kafka=75e-6)
HOT_OBJECT: Final = 2_000.0
"""Approvals a second of one object, which is one partition and one tally."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes on the disk for one review."""

    documents: float
    indexes: float


# By `python -m benchmarks.growth_costs`: [growth] of benchmarks/results/by-hand.toml. The indexes of reviews are those
# of then: with `unapproved_newest`, which schema 3 drops, and without those that came later, as `helpful`.
STAYING: Final = {
    "reviews": Bytes(386, 616),
    "ratings": Bytes(99 / 20, 499 / 20),
    "auditLog": Bytes(84, 173),
}
"""Collections that grow with the reviews; of the audit log, until it is archived."""

OUTCOMES: Final = Bytes(2 * 55, 2 * 76)
"""Of a submission and an approval by HTTP."""

TOPICS: Final = {"review-submissions": 882, "review-changes": 464, "events": 1_158}
"""Bytes of records for one review in topics that keep them for a time: [growth], records times records for a review. An
approval of an id that tells its place goes straight to `review-changes`, and not through `moderation-commands`."""

REVIEWS_TOPIC: Final = (1_065, 1.62)
"""Bytes of a record of the compacted topic, and records for a review, of which the last one stays."""

_COPIES: Final = 3
_DAY_S: Final = 86_400
_RETENTION_S: Final = 7 * _DAY_S
_OWED_S: Final = 15
"""Seconds of events in the outbox, if every worker died at once."""

_HOT: Final = 0.2
"""The part of the indexes that is asked for."""

# What one of each is, and how much of its processor is given out: the rest is for peaks.
_CORES: Final = 8
_MEMORY_GB: Final = 64
_BROKER_TB: Final = 16
"""The disk of a broker."""
_BUSY: Final = 0.6
_WORKER_BUSY: Final = 0.7
_PARTITIONS: Final = 12
_SHARES: Final = 2
_CORE_PRICE, _GB_PRICE = 25.0, 0.10
"""A month of a core with 8 GB of memory, and of a GB on an SSD: an assumption, in any currency."""

GROWTH: Final = ((100, 10_000_000), (1_000, 100_000_000), (10_000, 1_000_000_000), (100_000, 10_000_000_000))
"""Reviews a second, each of them approved once, and reviews in all."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The servers that a rate and a number of reviews need."""

    rate: int
    reviews: int

    @property
    def worker_cores(self) -> float:
        """Cores of all workers."""
        return self.rate * (INGEST.worker + APPROVAL.worker)

    @property
    def workers(self) -> int:
        """Processes of one core, with room for peaks."""
        return ceil(self.worker_cores / _WORKER_BUSY)

    @property
    def partitions(self) -> int:
        """Of each busy topic, in dozens: two consumers of each worker want two of them, so that none is idle."""
        return max(_PARTITIONS, 12 * ceil(self.workers * _SHARES * 2 / 12))

    @property
    def mongod_cores(self) -> float:
        """Cores of all primaries."""
        return self.rate * (INGEST.mongod + APPROVAL.mongod)

    @property
    def hot_gb(self) -> float:
        """Memory for the part of the indexes that is asked for, in each copy."""
        return self.indexes_tb / _COPIES * _HOT * 1e3

    @property
    def shards(self) -> int:
        """Replica sets, by their processors and by their memory."""
        return max(1, ceil(self.mongod_cores / (_CORES * _BUSY)), ceil(self.hot_gb / (_MEMORY_GB / 2)))

    @property
    def kafka_cores(self) -> float:
        """Cores of all brokers; followers fetch what leaders took."""
        return self.rate * (INGEST.kafka + APPROVAL.kafka) * _COPIES

    @property
    def brokers(self) -> int:
        """Brokers, by their processors and by their disks; three at least, for three copies."""
        return max(_COPIES, ceil(self.kafka_cores / (_CORES * _BUSY)), ceil(self.kafka_tb / _BROKER_TB))

    @property
    def documents_tb(self) -> float:
        """Documents on the disks, all copies: what stays, outcomes of a day, and the outbox at its fullest."""
        staying = self.reviews * sum(each.documents for each in STAYING.values())
        passing = OUTCOMES.documents * _DAY_S + TOPICS["events"] * _OWED_S
        return (staying + self.rate * passing) * _COPIES / 1e12

    @property
    def indexes_tb(self) -> float:
        """Indexes on the disks, all copies."""
        staying = self.reviews * sum(each.indexes for each in STAYING.values())
        return (staying + self.rate * OUTCOMES.indexes * _DAY_S) * _COPIES / 1e12

    @property
    def topics_tb(self) -> float:
        """A week of the topics that forget, all copies, at the full rate day and night."""
        return self.rate * sum(TOPICS.values()) * _RETENTION_S * _COPIES / 1e12

    @property
    def reviews_topic_tb(self) -> float:
        """The topic of reviews, all copies: the last record of each, and earlier ones of a day, as a rule."""
        record, number = REVIEWS_TOPIC
        return record * (self.reviews + self.rate * (number - 1) * _DAY_S) * _COPIES / 1e12

    @property
    def kafka_tb(self) -> float:
        """Disks of all brokers."""
        return self.topics_tb + self.reviews_topic_tb

    @property
    def price(self) -> float:
        """A month of all of it."""
        cores = self.workers + _CORES * (self.brokers + _COPIES * self.shards)
        terabytes = self.documents_tb + self.indexes_tb + self.kafka_tb
        return cores * _CORE_PRICE + 1_000 * terabytes * _GB_PRICE

    def loads(self, before: "Needs") -> dict[str, float]:
        """The load of each part as a share of its capacity before: beyond 1 it breaks."""
        return {
            "workers": self.worker_cores / _WORKER_BUSY / before.workers,
            "partitions": self.workers * _SHARES / before.partitions,
            "primaries": self.mongod_cores / (before.shards * _CORES * _BUSY),
            "memory for indexes": self.hot_gb / (before.shards * _MEMORY_GB / 2),
            "brokers": self.kafka_cores / (before.brokers * _CORES * _BUSY),
            "disks of brokers": self.kafka_tb / (before.brokers * _BROKER_TB),
        }


def popularity(objects: int, exponent: float) -> list[float]:
    """The share of each object, the first the most popular one: Zipf's law. They add up to 1."""
    weights = [1 / rank**exponent for rank in range(1, objects + 1)]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def fullest(shares: list[float], partitions: list[int], count: int) -> float:
    """The load of the fullest of so many partitions, as a multiple of an equal part."""
    loads = [0.0] * count
    for share, partition in zip(shares, partitions, strict=True):
        loads[partition % count] += share
    return max(loads) * count


def hashes(objects: int) -> list[int]:
    """The objects' keys as Kafka's own partitioner hashes them, before the remainder by the number of partitions."""
    partitioner, everything = DefaultPartitioner(), range(2**31)
    keys = (entity_key(Entity("Product", object_id(number, objects))) for number in range(objects))
    return [partitioner(key.encode(), everything, ()) for key in keys]


def waits(rate: float, cost_s: float, fixed_s: float, *, messages: int, most: int, seed: int) -> list[float]:
    """Seconds from the arrival of each message until its batch is done.

    One consumer takes whatever has come, up to `most`; a batch takes `fixed_s` for its round trips and `cost_s` for
    each message. Arrivals are a Poisson process of `rate` a second.
    """
    chance = random.Random(seed)  # noqa: S311 - a simulation
    arrivals: deque[float] = deque()
    at = 0.0
    for _ in range(messages):
        at += chance.expovariate(rate)
        arrivals.append(at)
    free, done = 0.0, []
    while arrivals:
        free = max(free, arrivals[0])
        batch: list[float] = []
        while arrivals and arrivals[0] <= free and len(batch) < most:
            batch.append(arrivals.popleft())
        free += fixed_s + cost_s * len(batch)
        done += [free - arrival for arrival in batch]
    return done


def _sums() -> Iterator[str]:
    yield (
        "reviews/s  reviews  workers  partitions  shards  brokers  documents  indexes  topics, a week"
        "  topic reviews  a month"
    )
    for rate, reviews in GROWTH:
        n = Needs(rate, reviews)
        yield (
            f"{rate:9,}  {reviews / 1e6:5,.0f} M  {n.workers:7,}  {n.partitions:10,}  {n.shards:6,}  {n.brokers:7,}"
            f"  {n.documents_tb:6.2f} TB  {n.indexes_tb:4.2f} TB  {n.topics_tb:11.2f} TB  {n.reviews_topic_tb:10.2f} TB"
            f"  {n.price:7,.0f}"
        )


def _collections() -> Iterator[str]:
    yield "Bytes of a review on one disk:"
    for name, each in {**STAYING, "outcomes, a day": OUTCOMES}.items():
        yield f"{name:20} documents {each.documents:5.0f}  indexes {each.indexes:5.0f}"
    for name, size in {**TOPICS, "reviews, for good": REVIEWS_TOPIC[0]}.items():
        yield f"{name:20} records   {size:5,.0f}"


def _breaks() -> Iterator[str]:
    yield "What breaks when ten times as much comes to what was enough before:"
    for (rate, reviews), (more, many) in pairwise(GROWTH):
        loads = Needs(more, many).loads(Needs(rate, reviews))
        broken = sorted((load, part) for part, load in loads.items() if load > 1)[::-1]
        yield f"{rate:7,} to {more:7,}/s: " + (", ".join(f"{part} {load:.1f}" for load, part in broken) or "nothing")


def _partitions() -> Iterator[str]:
    yield "The fullest partition, as a multiple of an equal part, 100,000 objects by Kafka's partitioner:"
    objects = 100_000
    of_objects = hashes(objects)
    for exponent in (0.0, 0.5, 0.8, 1.0):
        shares = popularity(objects, exponent)
        parts = ", ".join(f"{fullest(shares, of_objects, count):.2f} of {count}" for count in (12, 48, 192))
        limit = HOT_OBJECT / shares[0]
        yield f"Zipf {exponent:.1f}: {parts}; the first object has {shares[0]:.3%}: full at {limit:,.0f} approvals/s"


def _waits() -> Iterator[str]:
    yield "Waiting for one consumer of submissions, 13 ms of round trips a batch, up to 1,000 in one:"
    cost = INGEST.worker + INGEST.mongod
    for busy in (0.02, 0.3, 0.6, 0.7, 0.8, 0.9):
        rate = busy / cost
        times = sorted(waits(rate, cost, 0.013, messages=100_000, most=1_000, seed=1))
        yield (
            f"{rate:6,.0f}/s, {busy:4.0%} of the most without round trips: "
            f"median {times[len(times) // 2] * 1e3:6.1f} ms, p99 {p99(times) * 1e3:6.1f} ms"
        )


def main() -> None:
    """Print all of it."""
    for section in (_sums, _collections, _breaks, _partitions, _waits):
        sys.stdout.write("\n".join([*section(), "", ""]))


if __name__ == "__main__":
    main()
