"""Bad records of every kind among good ones, in every partition of every topic, while workers join and leave.

Each good record must take effect, each bad one must become a dead letter, each odd one either, and no partition may
stop.
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
from typing import Any, Final, NamedTuple
from uuid import uuid4

from domain.images import upload_digest
from domain.moderation_rules_text import text_hash
from tests.chaos.record_kinds import Fate, Kind, expected_codes
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
    "image-uploads": "images",
    "image-commands": "parkedCommands",
    "dead-letter-commands": "outcomes",
}
"""Collection in which a message of each topic takes effect: also an upload without its file, and a command about an
image or a dead letter that doesn't exist."""
LETTER: Final = "mail-commands/0/0"
"""Place of a dead letter that doesn't exist."""
NAMES: Final = {
    "object-updates": "_id.entityId",
    "review-feedback": "_id.reviewId",
    "image-commands": "reviewId",
}
"""Field with the id of the message, if it isn't `_id`."""
CONDITIONS: Final[dict[str, Json]] = {
    "moderation-commands": {"status": 1},
    "moderation-verdicts": {"status": 1},
    "review-changes": {"status": 1},
    "reminder-commands": {"reminder.viewed": True},
    "image-commands": {"kind": "image"},
}
"""Filter that matches a document once the message has taken effect, in addition to its id."""
TOPICS: Final = tuple(COLLECTIONS)
MAX_MEMORY_MIB: Final = 640
"""Maximum resident memory of a worker. The rest of its 1 GiB in deploy/kubernetes is for the process that rebuilds
images; the language detection model takes 90 MiB of it."""


class Odd(NamedTuple):
    """A batch with valid values in unusual envelopes: its kind, and the place of each record."""

    kind: str
    places: Sequence[tuple[str, int, int]]


@dataclass
class Sent:
    """Records written to Kafka: ids of good messages by topic, and offsets of bad records."""

    good: dict[str, list[str]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    dead_letters: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """Kind of each record that must become a dead letter, by topic, partition and offset."""
    odd: dict[str, dict[str, Odd]] = field(default_factory=lambda: {topic: {} for topic in TOPICS})
    """Records that must take effect or become dead letters, by topic and id of their object."""
    refused: Counter[str] = field(default_factory=Counter)
    """Batches that Kafka itself refused, by kind."""


def id_for(topic: str) -> str:
    """An id for a message of this topic."""
    return str(uuid4()) if topic == "image-uploads" else new_id(topic)


def good_value(topic: str, id: str) -> bytes:
    """A message whose effect `effects` can find."""
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
        "image-uploads": lambda: {"id": id, "digest": upload_digest(id.encode())},
        "image-commands": lambda: {"action": "hide", "imageId": str(uuid4()), "reviewId": id},
        "dead-letter-commands": lambda: {"place": LETTER, "commandId": id},
    }
    return json.dumps(values[topic]()).encode()


async def prepare(service: Service, topic: str, ids: Sequence[str]) -> None:
    """Create the orders or reviews that the good messages of a topic refer to."""
    if topic in ("return-commands", "reminder-commands"):
        orders = [f"{id}-order" for id in ids] if topic == "return-commands" else list(ids)
        await put(service, "order-events", [json.dumps(an_order(order, {"l": 1})).encode() for order in orders])
        await eventually(partial(effects, service, "order-events", orders), lambda done: done == set(orders))
    if topic in ("moderation-commands", "moderation-verdicts", "review-changes", "review-feedback"):
        await put(service, "review-submissions", [good_value("review-submissions", id) for id in ids])
        await eventually(partial(effects, service, "review-submissions", ids), lambda done: done == set(ids))


async def put(service: Service, topic: str, values: Sequence[bytes]) -> None:
    """Write values to the partitions of a topic, round-robin."""
    for number, value in enumerate(values):
        placed = await produce(service.servers.kafka, service.topic(topic), number % PARTITIONS, batch(record(value)))
        assert placed.code == 0, placed


async def effects(service: Service, topic: str, ids: Sequence[str]) -> set[str]:
    """Those of `ids` whose message of the topic has taken effect."""
    name = NAMES.get(topic, "_id")
    # The id of an outcome ends with its item.
    item = f"/{LETTER}" if topic == "dead-letter-commands" else ""
    async with service.mongo() as database:
        there = {name: {"$in": [f"{id}{item}" for id in ids]}, **CONDITIONS.get(topic, {})}
        found = await database[COLLECTIONS[topic]].distinct(name, there)
        return {each.removesuffix(item) for each in found}


async def send(service: Service, topic: str, kinds: Mapping[str, Kind], rng: random.Random, sent: Sent) -> None:
    """Write each kind once to each partition of the topic, in random order, each between good records."""
    places = [(name, partition) for name in kinds for partition in range(PARTITIONS)]
    rng.shuffle(places)
    ids = [id_for(topic) for _ in range(len(places) + PARTITIONS)]
    # An odd record has an object of its own, so its effect can't disturb the good records.
    odd_ids = [id_for(topic) for _ in places]
    odd = [id for id, (name, _) in zip(odd_ids, places, strict=True) if kinds[name].fate is Fate.EFFECT_OR_DEAD_LETTER]
    await prepare(service, topic, [*ids, *odd])
    full = service.topic(topic)
    remaining = iter(ids)

    async def put_good(partition: int) -> None:
        id = next(remaining)
        placed = await produce(service.servers.kafka, full, partition, batch(record(good_value(topic, id))))
        assert placed.code == 0, placed
        sent.good[topic].append(id)

    for (name, partition), odd_id in zip(places, odd_ids, strict=True):
        await put_good(partition)
        kind = kinds[name]
        placed = await produce(service.servers.kafka, full, partition, kind.make(good_value(topic, odd_id)))
        taken = [(full, partition, placed.offset + delta) for delta in range(kind.records)]
        if placed.code:
            sent.refused[name] += 1
        elif kind.fate is Fate.DEAD_LETTER:
            sent.dead_letters |= dict.fromkeys(taken, name)
        else:
            sent.odd[topic][odd_id] = Odd(name, taken)
    for partition in range(PARTITIONS):
        await put_good(partition)


async def dead_letter_codes(service: Service) -> dict[tuple[str, int, int], str]:
    """The code of each dead letter, by the place of its record."""
    found: dict[tuple[str, int, int], str] = {}
    for topic in TOPICS:
        for letter in await service.records(f"{topic}.dlq"):
            headers = {n: (v or b"").decode(errors="replace") for n, v in letter.headers if n.startswith("x-")}
            first, partition = int(headers["x-source-offset"]), int(headers["x-source-partition"])
            found[headers["x-source-topic"], partition, first] = headers["x-error-code"]
    return found


async def missing_dead_letters(service: Service, sent: Sent) -> list[str]:
    """Bad records without a dead letter that has a code of their kind."""
    found = await dead_letter_codes(service)
    return [
        f"{name} at {place}: {found.get(place)}"
        for place, name in sent.dead_letters.items()
        if found.get(place) not in expected_codes(name)
    ]


async def vanished(service: Service, sent: Sent) -> list[str]:
    """Odd records that neither took effect nor became dead letters."""
    found, gone = await dead_letter_codes(service), list[str]()
    for topic, odd in sent.odd.items():
        applied = await effects(service, topic, list(odd))
        gone += [
            f"{kind} at {places[0]}"
            for id, (kind, places) in odd.items()
            if id not in applied and not found.keys() >= set(places)
        ]
    return gone


async def lost_ids(service: Service, sent: Sent) -> list[str]:
    """Good messages that have had no effect."""
    lost: list[str] = []
    for topic, ids in sent.good.items():
        lost += sorted(set(ids) - await effects(service, topic, ids))
    return lost


def peak_memory_mib(service: Service) -> dict[str, int]:
    """Peak resident memory of each process, in MiB; a process that was just killed has none."""
    statuses = {name: Path(f"/proc/{each.pid}/status").read_text() for name, each in service.processes.items()}
    found = {name: re.search(r"VmHWM:\s+(\d+) kB", status) for name, status in statuses.items()}
    return {name: int(kilobytes[1]) // 1024 for name, kilobytes in found.items() if kilobytes}


async def disturb(service: Service, done: asyncio.Event, rng: random.Random) -> None:
    """Start, stop and kill workers until `done`."""
    number = 0
    while not done.is_set():
        workers = [name for name in service.processes if name.startswith("worker")]
        if len(workers) < 3:
            number += 1
            service.start("worker", f"worker-{number}")
        else:
            how = rng.choice([signal.SIGKILL, signal.SIGTERM])
            await service.stop(rng.choice(workers), how)
        try:
            await asyncio.wait_for(done.wait(), rng.uniform(2, 8))
        except TimeoutError:
            continue


async def run(service: Service, kinds: Mapping[str, Kind], number: int, *, disturbed: bool) -> dict[str, Any]:
    """Send everything to a running service. Returns the figures; `faults` is empty if all promises held."""
    rng, sent, done = random.Random(number), Sent(), asyncio.Event()
    disturbing = asyncio.create_task(disturb(service, done, rng)) if disturbed else None
    memory: Counter[str] = Counter()
    faults: list[str] = []
    try:
        for topic in TOPICS:
            await send(service, topic, kinds, rng, sent)
            for name, held in peak_memory_mib(service).items():
                memory[name] = max(memory[name], held)
    finally:
        done.set()
        if disturbing:
            await disturbing
    try:
        await eventually(partial(lost_ids, service, sent), lambda lost: not lost, deadline_s=120, pause_s=1)
        for topic in TOPICS:
            await eventually(partial(service.lag, topic), lambda lag: lag == 0, deadline_s=90)
    except AssertionError as error:
        faults.append(f"a partition has stopped, or good records are lost: {error}")
    faults += [f"no dead letter: {record}" for record in await missing_dead_letters(service, sent)]
    faults += [f"neither effect nor dead letter: {record}" for record in await vanished(service, sent)]
    for name, held in peak_memory_mib(service).items():
        memory[name] = max(memory[name], held)
    faults += [f"{name} used {held} MiB of memory" for name, held in memory.items() if held > MAX_MEMORY_MIB]
    return {
        "kinds": len(kinds),
        "good": sum(len(ids) for ids in sent.good.values()),
        "bad": len(sent.dead_letters),
        "refusedByKafka": dict(sent.refused),
        "memoryMiB": dict(memory),
        "faults": faults[:50],
    }
