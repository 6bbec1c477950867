"""Reviews and decisions on them, one by one and in bulk."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.chaos.actors import ACTIONS, EXPECTED, REVIEWS, Actor, World, text_hash_field
from tests.chaos.model import CLOSED_STORE, ONE_EACH_STORE, OPEN_STORE, Json
from tests.chaos.outcomes import Outcome
from tests.chaos.partitions import Way


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
