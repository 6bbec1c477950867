"""Clients with seeded load. Each owns its objects and sends one command after the other, so the expected result is
known."""

import asyncio
import hashlib
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from domain.places import partition_at
from tests.chaos.clients import TIMEOUT_S, Answer, Http, Ledger, NotAcknowledgedError, Upstream
from tests.chaos.model import OPEN_STORE, STATUS_AFTER, Json, Model
from tests.chaos.partitions import Partitions
from tests.support.service import FLOW

EXPECTED = (None, None, *STATUS_AFTER.values())
"""Expected statuses that decisions name; None: any."""
ACTIONS = ("approve", "approve", *STATUS_AFTER, "delete")
REVIEWS = "/api/customerReviews"
RETURNS = "/api/return"
SHOP_OPENED = datetime(2025, 1, 1, tzinfo=UTC)
LATE_S = 2.0
"""Seconds within which a record is normally consumed."""
COMPLETE = "Complete"
REMEMBERED = 300
"""Number of recent messages that an actor keeps for redelivery."""
TextHashes = Mapping[str, str]
"""Text hashes by review id."""


class Published(NamedTuple):
    """A message that may be redelivered. `event_id`: the id of its CloudEvent, if it has one."""

    topic: str
    key: str
    value: Json | Sequence[Json]
    event_id: str | None = None


@dataclass(frozen=True)
class World:
    """The parts that all actors share."""

    http: Http
    upstream: Upstream
    ledger: Ledger
    model: Model
    hot: Sequence[str]
    """Objects that all actors review."""
    series: str
    expire_holds: Callable[[Sequence[str]], Awaitable[None]]
    """Makes the hold of these reviews expire, so that a rule approves them."""
    batch: int = 60
    """Maximum number of reviews in one message."""
    is_mixed: bool = False
    """True if the version before takes part. There, commands that wait for an order lose their place among later
    ones, and the source of two pasts of a review decides which one counts."""
    partitions: Partitions = field(default_factory=Partitions)
    may_send: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared while the workers are far behind: without it, a slow machine would never apply a command in time."""

    def __post_init__(self) -> None:
        self.may_send.set()


class Actor(ABC):
    """A client. All its actions follow from the seed, only their timing doesn't."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        self.world, self.name = world, f"{world.series}-{name}"
        self.rng = random.Random(f"{seed}/{name}")
        self.count = self.turns = 0
        self.redeliverable: deque[Published] = deque(maxlen=REMEMBERED)

    @abstractmethod
    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        """The methods to choose the next action from, with weights."""

    async def act(self, is_over: asyncio.Event, pause_s: float) -> None:
        """Send commands until `is_over` is set; all are acknowledged when this returns."""
        while not is_over.is_set():
            await self.world.may_send.wait()
            actions, weights = zip(*self.actions(), strict=True)
            await self.rng.choices(actions, weights)[0]()
            self.turns += 1
            await asyncio.sleep(self.rng.random() * pause_s)

    def acknowledge(self, what: str, *objects: str) -> None:
        """Record an acknowledged command of this client for each of these objects."""
        self.world.ledger.acknowledge(what, *objects, by=type(self).__name__)

    async def redeliver_all(self) -> None:
        """Redeliver all remembered messages at the end, when no newer message can hide an effect."""
        await self.redeliver(list(self.redeliverable))

    def new_id(self, kind: str) -> str:
        self.count += 1
        return f"{self.name}-{kind}{self.count}"

    def text_hashes(self, ids: Sequence[str]) -> TextHashes:
        """Text hashes for a decision on these reviews: none, or one for each known review, a tenth of them wrong."""
        if self.world.is_mixed or self.rng.random() < 0.5:
            return {}
        known = {id: self.world.model.reviews[id].text_hash for id in ids if id in self.world.model.reviews}
        wrong = hashlib.sha256(self.name.encode()).hexdigest()
        return {id: text if self.rng.random() < 0.9 else wrong for id, text in known.items()}

    def review_id(self) -> str:
        """An id as upstream systems choose one; some look like the service's own ids, with any place."""
        id = self.new_id("review")
        if self.rng.random() < 0.6:
            return id
        digits = hashlib.sha256(id.encode()).hexdigest()
        return f"{digits[:8]}-{digits[8:12]}-8{digits[12:15]}-8{digits[15:18]}-{digits[18:30]}"

    async def publish(self, topic: str, key: str, value: Json | Sequence[Json], *, event_id: str | None = None) -> None:
        """Publish a message that may be redelivered later, then with the same id of its CloudEvent."""
        await self.world.upstream.publish(topic, key, value, event_id=event_id)
        self.redeliverable.append(Published(topic, key, value, event_id))

    async def redeliver_some(self) -> None:
        await self.redeliver(
            self.rng.sample(list(self.redeliverable), min(len(self.redeliverable), self.rng.randint(1, 10)))
        )

    async def redeliver(self, messages: list[Published]) -> None:
        """Redeliver messages in random order: they must have no effect."""
        self.rng.shuffle(messages)
        for topic, key, value, event_id in messages:
            await self.world.upstream.publish(topic, key, value, event_id=event_id)

    async def poison(self) -> None:
        """Publish a message that can never be processed, among those of others."""
        mark, topic = self.new_id("poison"), self.rng.choice(FLOW)
        await self.world.upstream.publish(topic, f"Product:{self.rng.choice(self.world.hot)}", mark.encode())
        self.world.model.poison[mark] += 1
        self.acknowledge(f"poison to {topic}", mark)

    def review(self, **fields: Any) -> Json:
        rng = self.rng
        entity = rng.choice(self.world.hot) if rng.random() < 0.7 else f"{self.name}-cold{rng.randint(1, 20)}"
        return {
            "storeId": rng.choice([None, OPEN_STORE]),
            "userId": self.name,
            "userName": f"{self.name}, customer {self.count}",
            "EntityId": entity,
            "EntityType": "Product",
            "EntityName": entity,
            "title": f"{self.name} {self.count}",
            "review": f"Sharp pictures, and the battery lasts: {self.count}.",
            "rating": rng.randint(100, 500) / 100,
            **fields,
        }

    async def until(self, ask: Callable[[], Awaitable[Answer]], *statuses: int) -> Answer:
        """Repeat a request until its status is one of these."""
        for _ in range(1_000):
            answer = await ask()
            if answer.status in statuses:
                return answer
            await asyncio.sleep(0.1)  # until it is asked again
        raise NotAcknowledgedError(f"expected {statuses}: {answer}")

    async def until_shown(self, id: str) -> bool:
        """Wait until the API shows a review as the model has it. Returns False after `TIMEOUT_S`; the final
        comparison finds it."""
        review = self.world.model.reviews[id]
        expected = (review.status, review.title) if review.status else (None, None)
        end = asyncio.get_running_loop().time() + TIMEOUT_S
        while asyncio.get_running_loop().time() < end:
            answer = await self.world.http.send("GET", f"{REVIEWS}/{id}")
            row = answer.body if answer.status == 200 else {"reviewStatus": None, "title": None}
            if (row["reviewStatus"], row["title"]) == expected:
                return True
            await asyncio.sleep(0.1)  # until it is asked again
        return False

    async def until_all_shown(self, ids: Sequence[str]) -> None:
        """Wait until the API shows reviews as the model has them: the last one of each partition, whose changes keep
        their order."""
        reviews = {id: self.world.model.reviews[id] for id in ids if id in self.world.model.reviews}
        count = self.world.partitions.count
        places = {partition_at(f"Product:{each.entity}".encode(), count): id for id, each in reviews.items()}
        for id in places.values():
            await self.until_shown(id)

    async def until_answered(self, command_id: str, items: int) -> None:
        """Wait until each item of a command has an outcome.

        An item without an effect shows in no review, and a message to another topic could overtake it.
        """
        path = f"/api/commands/{command_id}"
        for _ in range(1_200):
            answer = await self.world.http.send("GET", path)
            if answer.status == 200 and len(answer.body["results"]) >= items:
                return
            await asyncio.sleep(0.3)  # until it is asked again
        self.world.ledger.report_unexpected(
            f"a command of {items} items lacks outcomes after six minutes: {command_id}"
        )

    def expect(self, answer: Answer, ids: Sequence[str], outcomes: Sequence[str]) -> None:
        """Compare the outcomes in a response, if it has any, with those of the model.

        "not-found" is accepted for everything: the subject may not have been stored by the end of the wait.
        """
        reported = [result["outcome"] for result in answer.body.get("results", ())]
        as_expected = len(reported) == len(outcomes) and all(
            actual in (expected, "not-found") for actual, expected in zip(reported, outcomes, strict=True)
        )
        if reported and not as_expected:
            history = self.world.ledger.histories[ids[0]]
            self.world.ledger.report_unexpected(
                f"outcomes {reported} for {list(ids)}, expected {list(outcomes)}: {history}"
            )


def text_hash_field(texts: TextHashes) -> Json:
    return {"textHashes": dict(texts)} if texts else {}
