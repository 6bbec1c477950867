"""Seeded load. Each actor owns its objects and sends one command after the other, so the expected result is known."""

import asyncio
import hashlib
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from domain.places import partition_at
from tests.chaos.clients import TIMEOUT_S, Answer, Http, Ledger, NotAcknowledgedError, Upstream
from tests.chaos.model import CLOSED_STORE, MAX_MAILS, ONE_EACH_STORE, OPEN_STORE, Json, Model
from tests.chaos.model_returns import NOT_AVAILABLE
from tests.chaos.outcomes import Outcome
from tests.chaos.partitions import Partitions, Way

EXPECTED = (None, None, "New", "Approved", "Rejected")
"""Expected statuses that decisions name; None: any."""
ACTIONS = ("approve", "approve", "approve", "reject", "reset", "delete")
TOPICS = (
    *("review-submissions", "moderation-commands", "review-changes", "review-feedback"),
    *("order-events", "return-commands", "store-updates", "object-updates", "reminder-commands"),
    "moderation-verdicts",
)
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
        mark, topic = self.new_id("poison"), self.rng.choice(TOPICS)
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


class Reviewer(Actor):
    """Submits, edits and moderates reviews, by HTTP and by Kafka.

    Edits and moderation take different ways, so their order is unknown. Edits therefore keep the status: those by HTTP
    are a moderator's, those by Kafka are the author's in a store that keeps it.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.own_ids: list[str] = []

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        submissions = [(self.submit_by_http, 3), (self.submit_by_kafka, 3), (self.moderate_early, 1), (self.race, 1)]
        if not self.own_ids:
            return submissions
        by_http = [(self.moderate_by_http, 5), (self.edit_by_http, 2)]
        by_kafka = [(self.moderate_by_kafka, 4), (self.edit_by_kafka, 2), (self.take_an_id, 1)]
        way = self.world.partitions.way(self.name)
        if way:
            return [(self.submit_by_http, 3), *by_http] if way is Way.HTTP else [(self.submit_by_kafka, 3), *by_kafka]
        others = [(self.moderate_nothing, 1), (self.redeliver_some, 1), (self.poison, 1)]
        return [*submissions, *by_http, *by_kafka, *others]

    async def submit_by_http(self) -> None:
        reviews = [self.review() for _ in range(self.rng.randint(1, 20))]
        key = self.new_id("key")
        if self.rng.random() < 0.1:
            reviews[-1]["storeId"] = CLOSED_STORE
            answer = await self.world.http.send("POST", REVIEWS, reviews, key=key)
            if answer.status != 403:
                self.world.ledger.report_unexpected(f"a closed store accepted a review: {answer}")
            return
        if self.rng.random() < 0.5:
            reviews = [{**review, "id": self.review_id()} for review in reviews]
        wait = self.rng.choice([None, None, 5])
        answer = await self.world.http.send("POST", REVIEWS, reviews, key=key, wait=wait)
        if answer.status not in (200, 202):
            self.world.ledger.report_unexpected(f"submission refused: {answer}")
            return
        ids = answer.body["ids"]
        submit, command = self.world.model.submit, answer.command
        outcomes = [submit(id, review, command) for id, review in zip(ids, reviews, strict=True)]
        self.acknowledge("submitted by HTTP", *ids)
        self.expect(answer, ids, outcomes)
        self.own_ids += ids

    async def submit_by_kafka(self) -> None:
        for _ in range(self.rng.randint(1, 10)):
            store = self.rng.choice([None, OPEN_STORE, OPEN_STORE, CLOSED_STORE])
            await self.submit(self.review(id=self.review_id(), storeId=store))

    async def submit(self, review: Json) -> None:
        id = review["id"]
        await self.publish("review-submissions", f"Product:{review['EntityId']}", review)
        self.world.model.submit(id, review)
        self.acknowledge(f"submitted by Kafka to {review['storeId']}", id)
        self.own_ids.append(id)

    async def take_an_id(self) -> None:
        """Submit a review by another author with an id in use, with the key of its object, so that it comes after
        the owner's."""
        id = self.rng.choice(self.own_ids)
        known = self.world.model.reviews.get(id)
        if known is None:
            return
        rival = self.review(id=id, EntityId=known.entity, storeId=known.store, userId=f"{self.name}-rival")
        await self.publish("review-submissions", f"Product:{known.entity}", rival)
        self.world.model.submit_by_rival(id)
        self.acknowledge("wanted by another author", id)

    async def edited(self, id: str, **fields: Any) -> Json:
        """The review with another title, text and rating; once it is stored, some edits omit text, rating or both."""
        known, marker = self.world.model.reviews[id], self.new_id("edit")
        review = self.review(id=id, EntityId=known.entity, storeId=known.store, title=marker, **fields)
        omitted = self.rng.choice([(), (), ("review",), ("rating",), ("review", "rating")])
        # The version before requires both.
        if not omitted or self.world.is_mixed or (await self.world.http.send("GET", f"{REVIEWS}/{id}")).status != 200:
            return review
        return {name: value for name, value in review.items() if name not in omitted}

    async def edit_by_http(self) -> None:
        id = self.rng.choice(self.own_ids)
        if id not in self.world.model.reviews:
            return
        review = await self.edited(id, userId=None)
        del review["storeId"]
        wait = self.rng.choice([None, None, 5])
        answer = await self.world.http.send("POST", REVIEWS, [review], key=self.new_id("key"), wait=wait)
        outcome = self.world.model.edit(id, review, is_reset=False, command=answer.command)
        self.acknowledge(f"edited by HTTP to {review['title']}: {outcome}", id)
        if outcome == "applied" and answer.status not in (200, 202):
            self.world.ledger.report_unexpected(f"edit of {id} refused: {answer}")
        elif outcome == "applied":
            self.expect(answer, [id], [outcome])

    async def edit_by_kafka(self) -> None:
        for id in self.rng.sample(self.own_ids, min(len(self.own_ids), 4)):
            known = self.world.model.reviews.get(id)
            if known is not None and known.store == OPEN_STORE:
                review = await self.edited(id)
                await self.publish("review-submissions", f"Product:{known.entity}", review)
                outcome = self.world.model.edit(id, review, is_reset=False)
                self.acknowledge(f"edited by Kafka to {review['title']}: {outcome}", id)

    async def race(self) -> None:
        """Submit reviews of one object by one customer to a store that takes one, by both ways and to several
        partitions."""
        entity, rng = self.new_id("once"), self.rng
        reviews = [self.review(id=self.review_id(), EntityId=entity, storeId=ONE_EACH_STORE) for _ in range(6)]
        keys = [self.new_id("key") for _ in reviews]
        by_kafka = [self.publish("review-submissions", k, r) for k, r in zip(keys[:3], reviews[:3], strict=True)]
        by_http = [
            self.world.http.send("POST", REVIEWS, [r], key=k) for k, r in zip(keys[3:], reviews[3:], strict=True)
        ]
        posts = [asyncio.ensure_future(each) for each in by_http]
        sent = [*by_kafka, *posts]
        rng.shuffle(sent)
        await asyncio.gather(*sent)
        ids = [review["id"] for review in reviews]
        taken = [id for id, post in zip(ids[3:], posts, strict=True) if post.result().status in (200, 202)]
        for id, post in zip(ids[3:], posts, strict=True):
            if id in taken:
                refused = Outcome("refused", "duplicate-review")
                self.world.model.outcomes.compete(post.result().body["commandId"], id, refused)
        self.world.model.races[entity] = ids
        self.world.model.raced.update(ids[:3], taken)
        self.acknowledge("race", entity)

    async def moderate_early(self) -> None:
        """Publish decisions before their review."""
        review = self.review(id=self.review_id())
        for _ in range(self.rng.randint(1, 3)):
            await self.moderate(review["id"])
        await self.submit(review)

    async def moderate_by_kafka(self) -> None:
        for id in self.rng.sample(self.own_ids, min(len(self.own_ids), 8)):
            await self.moderate(id)

    async def moderate_nothing(self) -> None:
        """Send decisions on reviews that are never submitted, by both ways: they are parked and have no effect."""
        ids = [self.review_id() for _ in range(self.rng.randint(1, 10))]
        command: Json = {"action": self.rng.choice(ACTIONS), "ids": ids, "commandId": self.new_id("command")}
        await self.publish("moderation-commands", ids[0], command)
        answer = await self.world.http.send("POST", f"{REVIEWS}/approve", ids, key=self.new_id("key"))
        if answer.status not in (202, 409):
            self.world.ledger.report_unexpected(f"unexpected response to moderation of unknown reviews: {answer}")
        for id in ids:
            self.world.model.moderate(command["action"], id, command=command["commandId"])
            self.world.model.moderate("approve", id, command=answer.command)
        self.acknowledge("moderated before any submission", *ids, *ids)

    async def moderate(self, id: str) -> None:
        action, expected = self.rng.choice(ACTIONS), self.rng.choice(EXPECTED)
        command_id = self.new_id("command")
        command = {"action": action, "ids": [id], "expectedStatus": expected, "commandId": command_id}
        await self.publish("moderation-commands", id, command)
        self.world.model.moderate(action, id, expected, command=command_id)
        self.acknowledge(f"{action} {expected or 'any'} by Kafka", id)

    async def moderate_by_http(self) -> None:
        ids = self.rng.sample(self.own_ids, min(len(self.own_ids), self.rng.randint(1, 20)))
        action, key, expected = self.rng.choice(ACTIONS), self.new_id("key"), self.rng.choice(EXPECTED)
        wait = self.rng.choice([None, None, None, 5])
        query = f"?expectedStatus={expected}" if expected else ""
        if action == "delete":
            answer = await self.world.http.send("DELETE", REVIEWS + query, {"ids": ids}, key=key, wait=wait)
        else:
            answer = await self.world.http.send("POST", f"{REVIEWS}/{action}{query}", ids, key=key, wait=wait)
        if answer.status not in (200, 202, 409):
            self.world.ledger.report_unexpected(f"moderation refused: {answer}")
            return
        outcomes = [self.world.model.moderate(action, id, expected, command=answer.command) for id in ids]
        self.acknowledge(f"{action} {expected or 'any'} by HTTP", *ids)
        self.expect(answer, ids, outcomes)
        # Real clients mostly act on recent reviews, and an ever longer list would cost more and more.
        del self.own_ids[:-500]


def text_hash_field(texts: TextHashes) -> Json:
    """The field of a decision that carries text hashes."""
    return {"textHashes": dict(texts)} if texts else {}


class Importer(Actor):
    """Submits, edits and moderates reviews in bulk: one message for many, the next one once that has taken effect."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.batches: deque[tuple[str, list[str]]] = deque(maxlen=50)

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        more = [(self.moderate, 4), (self.edit, 2)] if self.batches else []
        return [(self.submit, 1), (self.redeliver_some, 1), *more]

    async def submit(self) -> None:
        """Publish an array of reviews of many objects."""
        batch = self.new_id("batch")
        ids = [self.review_id() for _ in range(self.rng.randint(self.world.batch // 3, self.world.batch))]
        reviews = [self.review(id=id, storeId=self.rng.choice([None, OPEN_STORE, CLOSED_STORE])) for id in ids]
        await self.publish("review-submissions", batch, reviews)
        for id, review in zip(ids, reviews, strict=True):
            self.world.model.submit(id, review)
        self.acknowledge("submitted by Kafka in bulk", *ids)
        await self.until_all_shown(ids)
        self.batches.append((batch, ids))

    async def edit(self) -> None:
        """Publish an array of edits of a whole batch with the key of the batch, so that it comes after it."""
        batch, ids = self.rng.choice(self.batches)
        known = {id: self.world.model.reviews[id] for id in ids if id in self.world.model.reviews}
        edits = [
            self.review(id=id, EntityId=review.entity, storeId=review.store, title=self.new_id("edit"))
            for id, review in known.items()
        ]
        await self.publish("review-submissions", batch, edits)
        for edit in edits:
            # The store keeps the status; without a store the review becomes New again.
            self.world.model.edit(edit["id"], edit, is_reset=edit["storeId"] is None)
            self.acknowledge(f"edited in bulk to {edit['title']}", edit["id"])
        await self.until_all_shown(ids)

    async def moderate(self) -> None:
        """Publish one decision on a whole batch. All decisions on a batch have one key, so they keep their order."""
        (key, batch), action = self.rng.choice(self.batches), self.rng.choice(ACTIONS)
        command_id, texts = self.new_id("command"), self.text_hashes(batch)
        command = {"action": action, "ids": batch, "commandId": command_id, **text_hash_field(texts)}
        await self.publish("moderation-commands", batch[-1], command)
        for id in batch:
            self.world.model.moderate(action, id, text=texts.get(id), command=command_id)
        self.acknowledge(f"{action} by Kafka in bulk", *batch)
        await self.until_all_shown(batch)
        await self.until_answered(command_id, len(batch))
        if action == "delete":
            self.batches.remove((key, batch))


class Buyer(Actor):
    """Places orders and returns some of each: those of one order always by HTTP or always by Kafka.

    By HTTP it waits until each command is applied, because the facade decides by stored data.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.orders: list[str] = []
        self.by_http: set[str] = set()
        self.returns: list[str] = []
        self.customer = ""

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        always = [(self.place_order, 3), (self.return_early, 1), (self.rush, 1)]
        more = [(self.create_one, 5), (self.redeliver_some, 1)] if self.orders else []
        changes = [(self.change_one, 5), (self.create_again, 1), (self.delete_one, 1)] if self.returns else []
        return [*always, *more, *changes]

    def events(self, quantities: dict[str, int]) -> list[Json]:
        """The events of a new order: late, duplicated and out of order."""
        rng, id = self.rng, self.new_id("order")
        if not self.customer or rng.random() < 0.4:
            self.customer = self.new_id("customer")
        is_complete, has_address = rng.random() < 0.5, rng.random() < 0.9
        store = rng.choice([None, OPEN_STORE, OPEN_STORE, CLOSED_STORE])
        statuses = ["New", "Processing", COMPLETE if is_complete else "Cancelled"][: rng.randint(2, 3)]
        # A closed store asks nobody for a review.
        if statuses[-1] == COMPLETE and has_address and store != CLOSED_STORE:
            self.world.model.mails[self.customer] = MAX_MAILS
        events = [
            {
                "id": id,
                "number": f"CO-{id}",
                "storeId": store,
                "status": status,
                "customerId": self.customer,
                "customerEmail": f"{self.customer}@example.com" if has_address else None,
                "modifiedDate": (SHOP_OPENED + timedelta(minutes=minute)).isoformat(),
                "items": [
                    {
                        "id": line,
                        "productId": f"{id}-{line}",
                        "name": f"Lens {line} of {id}",
                        "quantity": q,
                        "price": 9.5,
                    }
                    for line, q in quantities.items()
                ],
                "note": f"{self.name} says {minute}",
            }
            for minute, status in enumerate(statuses)
        ]
        events += rng.choices(events, k=rng.randint(0, 2))
        rng.shuffle(events)
        return events

    async def publish_order(self, events: Sequence[Json]) -> str:
        id: str = events[0]["id"]
        for event in events:
            await self.publish("order-events", id, event)
            self.world.model.apply_order_event(event)
            self.acknowledge(f"order {event['status']}", id)
        return id

    async def place_order(self) -> None:
        lines = {f"line{n}": self.rng.randint(1, 6) for n in range(self.rng.randint(1, 3))}
        id = await self.publish_order(self.events(lines))
        self.orders.append(id)
        del self.orders[:-50]
        # By Kafka the next commands may come before the order is known: they are parked, and applied in their order.
        is_by_http = self.rng.random() < 0.3
        if is_by_http or self.world.is_mixed:
            await self.until(lambda: self.world.http.send("GET", f"{RETURNS}/available-quantities/{id}"), 200)
        if is_by_http:
            self.by_http.add(id)

    def requested_lines(self, order: str) -> list[Json]:
        lines = list(self.world.model.orders[order].lines)
        chosen = self.rng.sample(lines, self.rng.randint(1, len(lines)))
        return [{"orderLineItemId": line, "quantity": self.rng.randint(1, 4)} for line in chosen]

    async def return_early(self) -> None:
        """Create returns before their order, which has enough for all of them, with changes behind them.

        More changes follow once the order is published, whether it is stored or not.
        """
        events = self.events({"line0": 6})
        order, early = events[0]["id"], []
        for _ in range(self.rng.randint(1, 3)):
            early.append(await self.create(order, [{"orderLineItemId": "line0", "quantity": self.rng.randint(1, 2)}]))
            while self.rng.random() < 0.6 and not self.world.is_mixed:
                await self.change_early(order, early)
        await self.publish_order(events)
        self.returns += () if self.world.is_mixed else early

    async def change_early(self, order: str, early: list[str]) -> None:
        """Change or delete a return that waits for its order; if none is left, create another."""
        id = self.rng.choice(early)
        if self.rng.random() < 0.2:
            early.remove(id)
            await self.send_return("delete", order, {"id": id})
        else:
            lines = [{"orderLineItemId": "line0", "quantity": self.rng.randint(1, 2)}]
            status, resolution = self.rng.choice(["New", "Approved", "Canceled"]), self.new_id("early")
            possible: list[Json] = [{"status": status}, {"lineItems": lines}, {"resolution": resolution}]
            changes = {"id": id, **self.rng.choice(possible)}
            await self.send_return("update", order, changes)
        if not early:
            early.append(await self.create(order, [{"orderLineItemId": "line0", "quantity": 1}]))

    async def rush(self) -> None:
        """Create more returns at once than the order has pieces: which are granted is open, how many is not."""
        quantity = self.rng.randint(1, 5)
        order = await self.publish_order(self.events({"line0": quantity}))
        await self.until(lambda: self.world.http.send("GET", f"{RETURNS}/available-quantities/{order}"), 200)
        ids = [self.new_id("rush") for _ in range(quantity + self.rng.randint(0, 4))]
        wanted = [{"orderId": order, "lineItems": [{"orderLineItemId": "line0", "quantity": 1}]} for _ in ids]
        by_kafka = [{"action": "create", "return": {"id": id, **w}} for id, w in zip(ids, wanted, strict=True)]
        by_http = [self.world.http.send("POST", RETURNS, w, key=self.new_id("key")) for w in wanted[:2]]
        answers = await asyncio.gather(self.world.upstream.publish("return-commands", order, *by_kafka), *by_http)
        taken = [answer for answer in answers[1:] if answer.status in (200, 202)]
        for answer in taken:
            self.world.model.outcomes.compete(answer.body["commandId"], answer.body["id"], NOT_AVAILABLE)
        ids += [answer.body["id"] for answer in taken]
        self.world.model.rushes[order] = quantity, ids
        self.acknowledge("rush", *ids)

    async def create_one(self) -> None:
        order = self.rng.choice(self.orders)
        self.returns.append(await self.create(order, self.requested_lines(order)))
        del self.returns[:-50]

    async def create(self, order: str, lines: list[Json]) -> str:
        id = self.new_id("return")
        wanted = {"id": id, "orderId": order, "lineItems": lines, "resolution": "Repair"}
        await self.send_return("create", order, wanted)
        return id

    async def create_again(self) -> None:
        """Repeat the request that created a return in any state, or send another one with its id."""
        id = self.rng.choice(self.returns)
        asked = self.world.model.return_requests.get(id)
        if asked is not None:
            # The version before has no other outcome.
            is_same = self.world.is_mixed or self.rng.random() < 0.5
            wanted = asked if is_same else {**asked, "resolution": self.new_id("other")}
            await self.send_return("create", asked["orderId"], wanted)

    async def change_one(self) -> None:
        id = self.rng.choice(self.returns)
        known = self.world.model.returns.get(id)
        # The version before lets canceled returns exceed the ordered quantity.
        if known is not None and not (self.world.is_mixed and known.status == "Canceled"):
            await self.send_return("update", known.order, self.changes(id, known.order))

    async def delete_one(self) -> None:
        id = self.returns.pop(self.rng.randrange(len(self.returns)))
        known = self.world.model.returns.get(id)
        if known is not None:
            await self.send_return("delete", known.order, {"id": id})

    def changes(self, id: str, order: str) -> Json:
        return {"id": id} | self.rng.choice(
            [
                {"status": self.rng.choice(["New", "Approved", "Processing", "Completed", "Canceled"])},
                {"status": "Canceled"},
                {"lineItems": self.requested_lines(order)},
                {"resolution": self.new_id("resolution")},
            ]
        )

    async def send_return(self, action: str, order: str, wanted: Json) -> None:
        """Send a command on a return, after the model has applied it."""
        model, command = self.world.model, self.new_id("command")
        outcome = model.command_return(action, wanted["id"], wanted, command)
        if order not in self.by_http:
            await self.publish("return-commands", order, {"action": action, "return": wanted, "commandId": command})
        else:
            method, key = {"create": "POST", "update": "PUT", "delete": "DELETE"}[action], self.new_id("key")
            path = f"{RETURNS}?ids={wanted['id']}" if action == "delete" else RETURNS
            # Just after a change of the primary, the facade may read stale data.
            expected = (422, 409) if outcome == "refused" else (200,)
            answer = await self.until(lambda: self.world.http.wait_for(method, path, wanted, key=key), *expected)
            model.outcomes.rename(command, answer.command)
            # The version before reports "applied" for an update without a change.
            if outcome != "unchanged":
                self.expect(answer, [wanted["id"]], [outcome])
        self.acknowledge(f"{action} {wanted}: {outcome}", wanted["id"], order)
