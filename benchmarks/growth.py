"""Growth on paper: the measured costs of a review extrapolated to many, and simulations of partitions and waits.

    python -m benchmarks.growth

It needs no server, and always prints the same: docs/scale.md shows the first part.
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
    """Seconds of CPU time per message, with all servers on the same machine."""

    worker: float
    mongod: float
    kafka: float


# From `today` of [ingest_of_november_22] in benchmarks/results/by-hand.toml, including the start of the worker and
# Kafka's compiler: the newest figures for all three.
INGEST: Final = Cost(worker=302e-6, mongod=127e-6, kafka=96e-6)
# Within the bounds of [one_review] there, except Kafka's part, which is below them. At that time a worker forwarded
# approvals by HTTP, which it no longer does for ids that contain their place. There are no later figures for all three.
APPROVAL: Final = Cost(worker=270e-6, mongod=390e-6, kafka=75e-6)
HOT_OBJECT: Final = 2_000.0
"""Approvals per second of one object, which has one partition and one tally."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes on disk for one review."""

    documents: float
    indexes: float


# From `python -m benchmarks.growth_costs`: [growth] of benchmarks/results/by-hand.toml. The indexes of reviews are
# those of that time: with `unapproved_newest`, which schema 3 drops, and without later ones such as `helpful`.
PERMANENT: Final = {
    "reviews": Bytes(386, 616),
    "ratings": Bytes(99 / 20, 499 / 20),
    "auditLog": Bytes(84, 173),
}
"""Collections that grow with the reviews; the audit log only until it is archived."""

OUTCOMES: Final = Bytes(2 * 55, 2 * 76)
"""Outcomes of a submission and an approval by HTTP."""

TOPICS: Final = {"review-submissions": 882, "review-changes": 464, "events": 1_158}
"""Bytes of records per review in topics with a retention: `records` times `records_for_a_review` of [growth]. The
approval of an id that contains its place goes directly to `review-changes`, not through `moderation-commands`."""

REVIEWS_TOPIC: Final = (1_065, 1.62)
"""Bytes per record of the compacted topic, and records per review, of which the last one stays."""

_COPIES: Final = 3
_DAY_S: Final = 86_400
_RETENTION_S: Final = 7 * _DAY_S
_OWED_S: Final = 15
"""Seconds of events in the outbox, if all workers failed at the same time."""

_HOT: Final = 0.2
"""The share of the indexes that is in use."""

# The size of each server, and the planned use of its CPU: the rest is for peaks.
_CORES: Final = 8
_MEMORY_GB: Final = 64
_BROKER_TB: Final = 16
"""The disk of a broker."""
_BUSY: Final = 0.6
_WORKER_BUSY: Final = 0.7
_PARTITIONS: Final = 12
_CONSUMERS: Final = 2
"""Consumers of each worker that need a partition of a busy topic."""
_CORE_PRICE, _GB_PRICE = 25.0, 0.10
"""Assumed monthly price of a core with 8 GB of memory, and of a GB on an SSD, in any currency."""

GROWTH: Final = ((100, 10_000_000), (1_000, 100_000_000), (10_000, 1_000_000_000), (100_000, 10_000_000_000))
"""Reviews per second, each approved once, and the total number of reviews."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The servers needed for a rate of reviews per second and a total number of reviews."""

    rate: int
    reviews: int

    @property
    def worker_cores(self) -> float:
        """Cores of all workers."""
        return self.rate * (INGEST.worker + APPROVAL.worker)

    @property
    def workers(self) -> int:
        """Worker processes with one core each, including room for peaks."""
        return ceil(self.worker_cores / _WORKER_BUSY)

    @property
    def partitions(self) -> int:
        """Partitions of each busy topic, a multiple of 12: two for each consumer of a worker, so that none is idle."""
        return max(_PARTITIONS, 12 * ceil(self.workers * _CONSUMERS * 2 / 12))

    @property
    def mongod_cores(self) -> float:
        """Cores of all primaries."""
        return self.rate * (INGEST.mongod + APPROVAL.mongod)

    @property
    def hot_gb(self) -> float:
        """GB of memory for the indexes in use, in each copy."""
        return self.indexes_tb / _COPIES * _HOT * 1e3

    @property
    def shards(self) -> int:
        """Replica sets needed for the CPU time and for the memory."""
        return max(1, ceil(self.mongod_cores / (_CORES * _BUSY)), ceil(self.hot_gb / (_MEMORY_GB / 2)))

    @property
    def kafka_cores(self) -> float:
        """Cores of all brokers; followers copy what leaders receive."""
        return self.rate * (INGEST.kafka + APPROVAL.kafka) * _COPIES

    @property
    def brokers(self) -> int:
        """Brokers needed for the CPU time and for the disk space; at least three, for three copies."""
        return max(_COPIES, ceil(self.kafka_cores / (_CORES * _BUSY)), ceil(self.kafka_tb / _BROKER_TB))

    @property
    def documents_tb(self) -> float:
        """TB of documents in all copies: permanent ones, outcomes of a day, and the largest outbox."""
        permanent = self.reviews * sum(each.documents for each in PERMANENT.values())
        temporary = OUTCOMES.documents * _DAY_S + TOPICS["events"] * _OWED_S
        return (permanent + self.rate * temporary) * _COPIES / 1e12

    @property
    def indexes_tb(self) -> float:
        """TB of indexes in all copies."""
        permanent = self.reviews * sum(each.indexes for each in PERMANENT.values())
        return (permanent + self.rate * OUTCOMES.indexes * _DAY_S) * _COPIES / 1e12

    @property
    def topics_tb(self) -> float:
        """TB of a week of the topics with a retention, in all copies, at the full rate day and night."""
        return self.rate * sum(TOPICS.values()) * _RETENTION_S * _COPIES / 1e12

    @property
    def reviews_topic_tb(self) -> float:
        """TB of the topic of reviews in all copies: the last record of each, and usually the earlier ones of a day."""
        record, number = REVIEWS_TOPIC
        return record * (self.reviews + self.rate * (number - 1) * _DAY_S) * _COPIES / 1e12

    @property
    def kafka_tb(self) -> float:
        """TB on the disks of all brokers."""
        return self.topics_tb + self.reviews_topic_tb

    @property
    def price(self) -> float:
        """Monthly price of all servers and disks."""
        cores = self.workers + _CORES * (self.brokers + _COPIES * self.shards)
        terabytes = self.documents_tb + self.indexes_tb + self.kafka_tb
        return cores * _CORE_PRICE + 1_000 * terabytes * _GB_PRICE

    def loads(self, before: "Needs") -> dict[str, float]:
        """The load of each part as a share of its earlier capacity; above 1 it is overloaded."""
        return {
            "workers": self.worker_cores / _WORKER_BUSY / before.workers,
            "partitions": self.workers * _CONSUMERS / before.partitions,
            "primaries": self.mongod_cores / (before.shards * _CORES * _BUSY),
            "memory for indexes": self.hot_gb / (before.shards * _MEMORY_GB / 2),
            "brokers": self.kafka_cores / (before.brokers * _CORES * _BUSY),
            "disks of brokers": self.kafka_tb / (before.brokers * _BROKER_TB),
        }


def popularity(objects: int, exponent: float) -> list[float]:
    """The shares of objects by Zipf's law, the most popular object first. Their sum is 1."""
    weights = [1 / rank**exponent for rank in range(1, objects + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


def busiest(shares: list[float], partitions: list[int], count: int) -> float:
    """The load of the busiest of `count` partitions, as a multiple of an equal share."""
    loads = [0.0] * count
    for share, partition in zip(shares, partitions, strict=True):
        loads[partition % count] += share
    return max(loads) * count


def hashes(objects: int) -> list[int]:
    """The hashes of the objects' keys by Kafka's own partitioner, before the modulo by the number of partitions."""
    partitioner, everything = DefaultPartitioner(), range(2**31)
    keys = (entity_key(Entity("Product", object_id(number, objects))) for number in range(objects))
    return [partitioner(key.encode(), everything, ()) for key in keys]


def waiting_times(rate: float, cost_s: float, fixed_s: float, *, messages: int, most: int, seed: int) -> list[float]:
    """Seconds from the arrival of each message until its batch is done.

    A single consumer takes all messages that have arrived, up to `most`, as a batch. A batch takes `fixed_s` for its
    round trips, and `cost_s` for each message. Arrivals are a Poisson process with `rate` messages per second.
    """
    randomness = random.Random(seed)  # noqa: S311 - a simulation
    arrivals: deque[float] = deque()
    at = 0.0
    for _ in range(messages):
        at += randomness.expovariate(rate)
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


def _servers() -> Iterator[str]:
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


def _bytes() -> Iterator[str]:
    yield "Bytes per review on one disk:"
    for name, each in {**PERMANENT, "outcomes, a day": OUTCOMES}.items():
        yield f"{name:20} documents {each.documents:5.0f}  indexes {each.indexes:5.0f}"
    for name, size in {**TOPICS, "reviews, compacted": REVIEWS_TOPIC[0]}.items():
        yield f"{name:20} records   {size:5,.0f}"


def _overloads() -> Iterator[str]:
    yield "Overloaded parts (load by capacity) if the load grows tenfold and the servers stay the same:"
    for (rate, reviews), (more, many) in pairwise(GROWTH):
        loads = Needs(more, many).loads(Needs(rate, reviews))
        overloaded = sorted((load, part) for part, load in loads.items() if load > 1)[::-1]
        yield f"{rate:7,} to {more:7,}/s: " + (
            ", ".join(f"{part} {load:.1f}" for load, part in overloaded) or "nothing"
        )


def _partitions() -> Iterator[str]:
    yield "Load of the busiest partition, as a multiple of an equal share; 100,000 objects, Kafka's partitioner:"
    objects = 100_000
    of_objects = hashes(objects)
    for exponent in (0.0, 0.5, 0.8, 1.0):
        shares = popularity(objects, exponent)
        parts = ", ".join(f"{busiest(shares, of_objects, count):.2f} of {count}" for count in (12, 48, 192))
        limit = HOT_OBJECT / shares[0]
        first = f"the first object has {shares[0]:.3%}, and reaches its limit at {limit:,.0f} approvals/s in all"
        yield f"Zipf {exponent:.1f}: {parts}; {first}"


def _waiting_times() -> Iterator[str]:
    yield "Waiting times at one consumer of submissions, with 13 ms of round trips per batch of up to 1,000:"
    cost = INGEST.worker + INGEST.mongod
    for busy in (0.02, 0.3, 0.6, 0.7, 0.8, 0.9):
        rate = busy / cost
        times = sorted(waiting_times(rate, cost, 0.013, messages=100_000, most=1_000, seed=1))
        yield (
            f"{rate:6,.0f}/s, {busy:4.0%} of the capacity without round trips: "
            f"median {times[len(times) // 2] * 1e3:6.1f} ms, p99 {p99(times) * 1e3:6.1f} ms"
        )


def main() -> None:
    """Print all sections."""
    for section in (_servers, _bytes, _overloads, _partitions, _waiting_times):
        sys.stdout.write("\n".join([*section(), "", ""]))


if __name__ == "__main__":
    main()
