"""Decisions in bulk under faults: about reviews of which the service, upstream systems or nobody chose the ids."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tests.chaos.generator import EXPECTED, REVIEWS, Actor, Texts, World, named_texts
from tests.chaos.model import OPEN_STORE, Json
from tests.chaos.partitions import Way

ACTIONS = ("approve", "approve", "reject", "reset")
BATCHES = 12
REMEMBERED = 12
"""Its messages are large: to deliver all of them again must not take longer than the run."""


class Reviews(NamedTuple):
    """Reviews that are decided about together: each command about one of them by the key of its id, by HTTP or Kafka,
    or all commands about several by one key of theirs. Between both ways no order is promised."""

    ids: list[str]
    key: str | None = None


class Decider(Actor):
    """Decides about its reviews hundreds at a time, by HTTP and by Kafka in turns.

    Each message is sent when the one before it was acknowledged, and now and then when that has taken effect: so the
    order about each review is known, and commands of both ways are under way at once. Of its reviews some have ids that
    the service gave, which tell their place; others foreign ones, of which some tell any place.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.told = deque(maxlen=REMEMBERED)
        self.batches: deque[Reviews] = deque(maxlen=BATCHES)

    def deeds(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        if not self.batches:
            return [(self.submit, 1)]
        others = [(self.decide_early, 1), (self.decide_about_nothing, 1), (self.repeat_some, 1)]
        return [(self.decide, 16), (self.submit, 2), *others]

    async def submit(self) -> None:
        """Reviews by HTTP; a third of them leave their ids to the service."""
        reviews = [self.review(storeId=self.chance.choice([None, OPEN_STORE])) for _ in range(self.size())]
        if self.chance.random() < 0.66:
            reviews = [{**review, "id": self.review_id()} for review in reviews]
        answer = await self.world.http.send("POST", REVIEWS, reviews, key=self.new_id("key"))
        if answer.status not in (200, 202):
            self.world.ledger.object_to(f"bulk submission refused: {answer}")
            return
        ids: list[str] = answer.body["ids"]
        for id, review in zip(ids, reviews, strict=True):
            self.world.model.submit(id, review)
        self.world.ledger.acknowledge("submitted by HTTP in bulk", *ids)
        self.batches.append(Reviews(ids))

    async def decide_early(self) -> None:
        """One record of commands that comes before its reviews."""
        reviews = [self.review(id=self.review_id(), storeId=None) for _ in range(self.size())]
        batch = Reviews([review["id"] for review in reviews], self.new_id("batch"))
        await self.decide_together(batch, self.chance.choice(ACTIONS), batch.ids, None, {})
        await self.tell("review-submissions", self.new_id("batch"), reviews)
        for review in reviews:
            self.world.model.submit(review["id"], review)
        self.world.ledger.acknowledge("submitted by Kafka in bulk behind decisions", *batch.ids)
        await self.until_shown(batch.ids[-1])
        self.batches.append(batch)

    async def decide(self) -> None:
        """A command about most of a batch, in any order; a deletion about a few."""
        batch, expected = self.chance.choice(self.batches), self.chance.choice(EXPECTED)
        ids = self.chance.sample(batch.ids, self.chance.randint(len(batch.ids) // 2, len(batch.ids)))
        action = self.chance.choice(ACTIONS)
        if self.chance.random() < 0.05:
            action, ids = "delete", ids[:20]
        texts = self.texts_of(ids)
        if batch.key:
            await self.decide_together(batch, action, ids, expected, texts)
        elif (self.world.partitions.way(batch.ids[0]) or self.chance.choice(list(Way))) is Way.HTTP:
            await self.decide_by_http(action, ids, expected, texts)
        else:
            await self.decide_one_by_one(action, ids, expected, texts)
        if self.chance.random() < 0.5:
            await self.until_shown(ids[-1])

    async def decide_by_http(self, action: str, ids: Sequence[str], expected: str | None, texts: Texts) -> None:
        query = f"?expectedStatus={expected}" if expected else ""
        key, wait = self.new_id("key"), self.chance.choice([None, None, 20])
        named = {"ids": ids, **named_texts(texts)}
        if action == "delete":
            answer = await self.world.http.send("DELETE", REVIEWS + query, named, key=key, wait=wait)
        else:
            body = named if texts else ids
            answer = await self.world.http.send("POST", f"{REVIEWS}/{action}{query}", body, key=key, wait=wait)
        if answer.status not in (200, 202, 409):
            self.world.ledger.object_to(f"bulk moderation refused: {answer}")
            return
        self.expect(answer, ids, self.decided("by HTTP in bulk", action, ids, expected, texts))

    async def decide_one_by_one(self, action: str, ids: Sequence[str], expected: str | None, texts: Texts) -> None:
        """A record for each, all under way at once."""
        told = {id: {id: texts[id]} if id in texts else {} for id in ids}
        commands = {id: self.command(action, [id], expected, told[id]) for id in ids}
        await self.world.upstream.publish_each("moderation-commands", commands)
        self.decided("by Kafka one by one", action, ids, expected, texts)

    async def decide_together(
        self, batch: Reviews, action: str, ids: Sequence[str], expected: str | None, texts: Texts
    ) -> None:
        """One record for all of them."""
        await self.tell("moderation-commands", batch.key or ids[0], self.command(action, ids, expected, texts))
        self.decided("by Kafka in bulk", action, ids, expected, texts)

    async def decide_about_nothing(self) -> None:
        """Commands about reviews that nobody submits: they wait, and nothing comes of them."""
        ids = [self.review_id() for _ in range(self.size() // 4 + 1)]
        answer = await self.world.http.send("POST", f"{REVIEWS}/approve", ids, key=self.new_id("key"))
        if answer.status != 202:
            self.world.ledger.object_to(f"bulk moderation of nothing: {answer}")
        await self.tell("moderation-commands", ids[0], self.command("reject", ids, None, {}))
        self.world.ledger.acknowledge("moderated before any submission, in bulk", *ids, *ids)

    def decided(self, way: str, action: str, ids: Sequence[str], expected: str | None, texts: Texts) -> list[str]:
        """Note that a command was acknowledged; the outcomes that it must have."""
        self.world.ledger.acknowledge(f"{action} {expected or 'any'} {way}", *ids)
        return [self.world.model.moderate(action, id, expected, texts.get(id)) for id in ids]

    def command(self, action: str, ids: Sequence[str], expected: str | None, texts: Texts) -> Json:
        decision = {"action": action, "expectedStatus": expected, "commandId": self.new_id("command")}
        return {**decision, "ids": list(ids), **named_texts(texts)}

    def size(self) -> int:
        return self.chance.randint(self.world.batch // 2, self.world.batch)
