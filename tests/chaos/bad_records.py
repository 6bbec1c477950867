"""Bad records of every kind among good ones, in every partition of every topic, while workers come and go.

Each good one must have its effect, and each bad one must be told by a dead letter; no partition may stand.
"""

import asyncio
import json
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from domain.moderation_rules_text import text_hash
from tests.chaos.record_kinds import Fate, Kind, codes_of
from tests.support.facade import new_id, submission
from tests.support.orders import an_order
from tests.support.raw_batches import batch, produce, record
from tests.support.service import PARTITIONS, Json, Service
from tests.support.waiting import eventually

COLLECTIONS: Final = {
    "store-updates": "stores",
    "object-updates": "objects",
    "order-events": "orders",
    "reminder-commands": "orders",
    "review-submissions": "reviews",
    "return-commands": "returns",
    "moderation-commands": "reviews",
    "moderation-verdicts": "reviews",
    "review-changes": "reviews",
    "review-feedback": "votes",
    "ended-sessions": "endedSessions",
}
"""The collection in which a message of each topic has its effect."""
CONDITIONS: Final[dict[str, Json]] = {
    "moderation-commands": {"status": 1},
    "moderation-verdicts": {"status": 1},
    "review-changes": {"status": 1},
    "reminder-commands": {"reminder.viewed": True},
}
"""The state in which it is then, beyond being there."""
TOPICS: Final = tuple(COLLECTIONS)
LIMIT_MIB: Final = 640
"""Of a worker's 1 GiB in deploy/kubernetes the rest is for the process that rebuilds an image. The model that tells
languages takes 90 of it."""


@dataclass
class Sent:
    """Records put into Kafka: ids of good messages by topic, and bad records by their places."""

    good: dict[str, list[str]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    told: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """The kind of each record that must become a dead letter, by topic, partition and offset."""
    refused: Counter[str] = field(default_factory=Counter)
    """Batches that Kafka itself did not take, by kind."""


def good_value(topic: str, id: str) -> bytes:
    """A message that has an effect by which `effects` finds it."""
    review_change = {"kind": "moderation", "action": "approve", "reviewId": id, "source": [0, 0, 1]}
    values: Mapping[str, Callable[[], Json]] = {
        "store-updates": lambda: {"id": id, "name": "Shop"},
        "order-events": lambda: an_order(id, {"l": 1}),
        "object-updates": lambda: {"entityType": "Product", "entityId": id, "name": "Camera"},
        "reminder-commands": lambda: {"action": "viewed", "customerOrderId": id},
        "review-submissions": lambda: submission(new_id(), 4, id=id),
        "return-commands": lambda: {
            "action": "create",
            "return": {"id": id, "orderId": f"{id}-order", "lineItems": [{"orderLineItemId": "l", "quantity": 1}]},
        },
        "moderation-commands": lambda: {"action": "approve", "ids": [id]},
        "moderation-verdicts": lambda: {
            **{"reviewId": id, "source": "ai", "verdict": "approve"},
            "textHash": text_hash("As good as they say", "Sharp pictures, and the battery lasts."),
        },
        "review-changes": lambda: review_change,
        "ended-sessions": lambda: {"sessionId": id},
        "review-feedback": lambda: {"action": "vote", "reviewId": id, "userId": "u", "helpful": True},
    }
    return json.dumps(values[topic]()).encode()


async def prepare(service: Service, topic: str, ids: Sequence[str]) -> None:
    """Put there what the good messages of a topic are about."""
    if topic in ("return-commands", "reminder-commands"):
        orders = [f"{id}-order" for id in ids] if topic == "return-commands" else list(ids)
        await put(service, "order-events", [json.dumps(an_order(order, {"l": 1})).encode() for order in orders])
        await eventually(partial(effects, service, "order-events", orders), lambda done: done == set(orders))
    if topic in ("moderation-commands", "moderation-verdicts", "review-changes", "review-feedback"):
        await put(service, "review-submissions", [good_value("review-submissions", id) for id in ids])
        await eventually(partial(effects, service, "review-submissions", ids), lambda done: done == set(ids))


async def put(service: Service, topic: str, values: Sequence[bytes]) -> None:
    """Put values into the partitions of a topic in turns."""
    for number, value in enumerate(values):
        placed = await produce(service.servers.kafka, service.topic(topic), number % PARTITIONS, batch(record(value)))
        assert placed.code == 0, placed


async def effects(service: Service, topic: str, ids: Sequence[str]) -> set[str]:
    """Those of the ids whose message of that topic has had its effect."""
    names = {"object-updates": "_id.entityId", "review-feedback": "_id.reviewId"}
    name = names.get(topic, "_id")
    async with service.mongo() as database:
        there = {name: {"$in": list(ids)}, **CONDITIONS.get(topic, {})}
        return set(await database[COLLECTIONS[topic]].distinct(name, there))


async def send(service: Service, topic: str, kinds: Mapping[str, Kind], chance: random.Random, sent: Sent) -> None:
    """Each kind once into each partition of the topic, in any order, each between good records."""
    places = [(name, partition) for name in kinds for partition in range(PARTITIONS)]
    chance.shuffle(places)
    ids = [new_id(topic) for _ in range(len(places) + PARTITIONS)]
    await prepare(service, topic, ids)
    full = service.topic(topic)
    remaining = iter(ids)

    async def put_good(partition: int) -> None:
        id = next(remaining)
        placed = await produce(service.servers.kafka, full, partition, batch(record(good_value(topic, id))))
        assert placed.code == 0, placed
        sent.good[topic].append(id)

    for name, partition in places:
        await put_good(partition)
        kind = kinds[name]
        # About a thing of its own: whether an odd record takes effect doesn't matter to the good ones.
        raw = kind.make(good_value(topic, new_id("odd")))
        placed = await produce(service.servers.kafka, full, partition, raw)
        if placed.code:
            sent.refused[name] += 1
        elif kind.fate is Fate.TOLD:
            for delta in range(kind.records):
                sent.told[full, partition, placed.offset + delta] = name
    for partition in range(PARTITIONS):
        await put_good(partition)


async def untold(service: Service, sent: Sent) -> list[str]:
    """Bad records of which no dead letter tells with the code of their kind."""
    found: dict[tuple[str, int, int], str] = {}
    for topic in TOPICS:
        for letter in await service.records(f"{topic}.dlq"):
            headers = {n: (v or b"").decode(errors="replace") for n, v in letter.headers if n.startswith("x-")}
            first, partition = int(headers["x-source-offset"]), int(headers["x-source-partition"])
            found[headers["x-source-topic"], partition, first] = headers["x-error-code"]
    return [
        f"{name} at {place}: {found.get(place)}"
        for place, name in sent.told.items()
        if found.get(place) not in codes_of(name)
    ]


async def without_effect(service: Service, sent: Sent) -> list[str]:
    """Good messages that have had no effect."""
    lost: list[str] = []
    for topic, ids in sent.good.items():
        lost += sorted(set(ids) - await effects(service, topic, ids))
    return lost


def most_memory_mib(service: Service) -> dict[str, int]:
    """The most that each process has ever held, in MiB; one that was just killed holds nothing any more."""
    statuses = {name: Path(f"/proc/{each.pid}/status").read_text() for name, each in service.processes.items()}
    found = {name: re.search(r"VmHWM:\s+(\d+) kB", status) for name, status in statuses.items()}
    return {name: int(kilobytes[1]) // 1024 for name, kilobytes in found.items() if kilobytes}


async def disturb(service: Service, done: asyncio.Event, chance: random.Random) -> None:
    """Have workers join, leave in order and be killed, until `done`."""
    number = 0
    while not done.is_set():
        workers = [name for name in service.processes if name.startswith("worker")]
        if len(workers) < 3:
            number += 1
            service.start("worker", f"worker-{number}")
        else:
            how = chance.choice([signal.SIGKILL, signal.SIGTERM])
            await service.stop(chance.choice(workers), how)
        try:
            await asyncio.wait_for(done.wait(), chance.uniform(2, 8))
        except TimeoutError:
            continue


async def run(service: Service, kinds: Mapping[str, Kind], number: int, *, disturbed: bool) -> dict[str, Any]:
    """Send everything to a running service; returns what was found, `faults` empty if all is as promised."""
    chance, sent, done = random.Random(number), Sent(), asyncio.Event()
    disturbing = asyncio.create_task(disturb(service, done, chance)) if disturbed else None
    memory: Counter[str] = Counter()
    faults: list[str] = []
    try:
        for topic in TOPICS:
            await send(service, topic, kinds, chance, sent)
            for name, held in most_memory_mib(service).items():
                memory[name] = max(memory[name], held)
    finally:
        done.set()
        if disturbing:
            await disturbing
    try:
        await eventually(partial(without_effect, service, sent), lambda lost: not lost, deadline_s=120, pause_s=1)
        for topic in TOPICS:
            await eventually(partial(service.lag, topic), lambda lag: lag == 0, deadline_s=90)
    except AssertionError as error:
        faults.append(f"a partition stands, or good records are lost: {error}")
    faults += [f"not told: {record}" for record in await untold(service, sent)]
    for name, held in most_memory_mib(service).items():
        memory[name] = max(memory[name], held)
    faults += [f"{name} held {held} MiB" for name, held in memory.items() if held > LIMIT_MIB]
    return {
        "kinds": len(kinds),
        "good": sum(len(ids) for ids in sent.good.values()),
        "bad": len(sent.told),
        "refusedByKafka": dict(sent.refused),
        "memoryMiB": dict(memory),
        "faults": faults[:50],
    }
