"""Reviews in a store with moderation rules. Each client computes the expected result with the product's pure rules."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from pymongo.errors import PyMongoError

from domain.moderation_rules import RuleInput, RuleOutcome, RuleSet
from messaging.moderation_rules import MODERATION_RULES
from storage.planned_approvals import COLLECTION as PLANNED_APPROVALS
from tests.chaos.actors import REVIEWS, Actor, World
from tests.chaos.clients import TIMEOUT_S
from tests.chaos.model import RULED_STORE, Json, Model
from tests.support.service import Service

RULES: list[Json] = [
    {"id": "words", "kind": "words", "outcome": "hold", "words": ["scam", "buy now"]},
    {"id": "links", "kind": "links", "outcome": "flag"},
    {"id": "contact", "kind": "contact", "outcome": "flag"},
    {"id": "twice", "kind": "duplicate", "outcome": "flag"},
    {"id": "low", "kind": "stars", "outcome": "hold", "below": 2, "publishAfterHours": 336},
    {"id": "good", "kind": "stars", "outcome": "approve", "above": 3},
]
TEXTS = ("Sharp pictures.", "A scam!", "See www.example.com", "Buy  NOW, at shop.org", "Call +49 170 1234567", "Fair.")
DECISIONS = (None, None, None, "reset", "reset", "reject", "delete")
MAX_EXPIRED = 10
"""Maximum number of reviews whose hold expires at once."""
_SET = RuleSet([each.rule() for each in MODERATION_RULES.validate_python(RULES, strict=False)])


class Ruled(Actor):
    """Submits reviews to a store with rules, edits them as their authors, and sends verdicts as a classifier.

    A review either is edited or receives a verdict, and only texts that are never edited are shared, so the order of
    effects is known: a batch stores new reviews before it edits.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.edited: list[Json] = []
        self.awaiting_verdict: list[Json] = []

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        more = [(self.edit, 2)] if self.edited else []
        more += [(self.classify, 2)] if self.awaiting_verdict else []
        return [(self.submit, 4), (self.redeliver_some, 1), *more]

    def text(self) -> str:
        """A text that no other review has."""
        return f"{self.rng.choice(TEXTS)} {self.new_id('text')}"

    async def submit(self) -> None:
        for _ in range(self.rng.randint(1, 10)):
            id = self.new_id("ruled")
            entity = f"{self.name}-ruled{self.rng.randint(1, 10)}"
            is_shared = self.rng.random() < 0.2
            text = self.rng.choice(TEXTS) if is_shared else self.text()
            about = {"storeId": RULED_STORE, "EntityId": entity, "userId": id, "review": text}
            review = self.review(id=id, **about)
            await self.publish("review-submissions", f"Product:{entity}", review)
            self.world.model.submit(id, review)
            apply_rules(self.world, review)
            (self.awaiting_verdict if is_shared or self.rng.random() < 0.5 else self.edited).append(review)

    async def edit(self) -> None:
        review = {**self.rng.choice(self.edited), "review": self.text(), "title": self.new_id("edit")}
        review["rating"] = self.rng.randint(100, 500) / 100
        await self.publish("review-submissions", f"Product:{review['EntityId']}", review)
        self.world.model.edit(review["id"], review, is_reset=True)
        apply_rules(self.world, review)

    async def classify(self) -> None:
        """Send a verdict, at times about another text. It may arrive before its review."""
        review = self.awaiting_verdict.pop(self.rng.randrange(len(self.awaiting_verdict)))
        text_source = review if self.rng.random() < 0.8 else {**review, "review": "Another text"}
        outcome = self.rng.choice([each.value for each in RuleOutcome])
        digest = sha256(f"{text_source['title']}\n{text_source['review']}".encode()).hexdigest()
        verdict = {"reviewId": review["id"], "textHash": digest, "source": "ai", "verdict": outcome}
        await self.publish("moderation-verdicts", review["id"], verdict)
        self.acknowledge(f"verdict {outcome} about {text_source['review']}", review["id"])
        if text_source is not review:
            return
        known, flags = self.world.model.reviews[review["id"]], self.world.model.flags[review["id"]]
        if outcome != "approve":
            flags.append("verdict:ai")
        elif known.status == "New" and not {"words", "low"} & set(flags):
            known.status = "Approved"


def apply_rules(world: World, review: Json) -> None:
    model: Model = world.model
    place = review["EntityId"], " ".join(review["review"].casefold().split())
    is_second = model.texts.setdefault(place, review["id"]) != review["id"]
    texts = review["title"], review["review"]
    ruling = _SET.judge(RuleInput(texts, round(review["rating"] * 100), is_duplicate=is_second))
    model.reviews[review["id"]].status = ruling.status.label
    model.flags[review["id"]] = list(ruling.flags)
    words = f"{review['review']}, {review['rating']}: {ruling.flags}"
    world.ledger.acknowledge(f"submitted to rules: {words}", review["id"])


class Critic(Actor):
    """Submits reviews with few stars, which a rule holds for a time, and edits, moderates or leaves them meanwhile.

    A hold expires when the client says so, after all earlier changes have taken effect, except for decisions that Kafka
    has just acknowledged.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.reviews: dict[str, Json] = {}
        self.held: list[str] = []
        self.published: list[str] = []

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        more = [(self.edit, 4)] if self.held else []
        # It waits until the reviews are shown, so it is worth doing for many at once.
        more += [(self.expire_holds, 2)] if len(self.held) > MAX_EXPIRED else []
        more += [(self.take_back, 1)] if self.published else []
        return [(self.submit, 4), (self.redeliver_some, 1), *more]

    async def act(self, is_over: asyncio.Event, pause_s: float) -> None:
        await super().act(is_over, pause_s)
        await self.expire_holds()  # at least once, even in a short run

    async def submit(self) -> None:
        for _ in range(self.rng.randint(1, 8)):
            id, entity = self.new_id("poor"), f"{self.name}-poor{self.rng.randint(1, 5)}"
            about = {"storeId": RULED_STORE, "EntityId": entity, "userId": id, "review": f"Fair. {id}"}
            review = self.review(id=id, **about, rating=self.rng.randint(100, 199) / 100)
            await self.publish("review-submissions", f"Product:{entity}", review)
            self.world.model.submit(id, review)
            apply_rules(self.world, review)
            self.reviews[id] = review
            self.held.append(id)

    async def edit(self) -> None:
        """An edit of the text plans the approval anew; more stars end the hold."""
        known = self.reviews[self.rng.choice(self.held)]
        review = {**known, "title": self.new_id("edit"), "rating": self.rng.choice((1.5, 1.75, 2.5, 3.5))}
        await self.publish("review-submissions", f"Product:{review['EntityId']}", review)
        self.world.model.edit(review["id"], review, is_reset=True)
        apply_rules(self.world, review)
        self.reviews[review["id"]] = review

    async def expire_holds(self) -> None:
        """Let some holds expire: reviews held only for their stars are approved unless a moderator decided before, even
        if no worker has read that yet.

        A moderator who leaves a review New has decided, too.
        """
        ids = await self.some_shown(self.held)
        decided = {id: action for id in ids if (action := self.rng.choice(DECISIONS))}
        for action in sorted(set(decided.values())):
            await self.moderate(action, [id for id in decided if decided[id] == action])
        await self.world.expire_holds(ids)
        for id in ids:
            self.acknowledge("end of its hold", id)
            if id not in decided and self.world.model.flags[id] == ["low"]:
                self.world.model.reviews[id].status = "Approved"
                self.published.append(id)

    async def take_back(self) -> None:
        """Reset or reject reviews that the rule has approved; it doesn't approve them again."""
        if ids := await self.some_shown(self.published):
            await self.moderate(self.rng.choice(("reset", "reject")), ids)

    async def some_shown(self, ids: list[str]) -> list[str]:
        """Remove some of these ids, and return those whose changes have all taken effect."""
        chosen = self.rng.sample(ids, min(len(ids), MAX_EXPIRED))
        ids[:] = [id for id in ids if id not in chosen]
        return [id for id in chosen if await self.until_shown(id)]

    async def moderate(self, action: str, ids: Sequence[str]) -> None:
        key = self.new_id("key")
        if action == "delete":
            answer = await self.world.http.send("DELETE", REVIEWS, {"ids": ids}, key=key)
        else:
            answer = await self.world.http.send("POST", f"{REVIEWS}/{action}", ids, key=key)
        for id in ids:
            # A decision that leaves a review New ends the plan to approve it, and is logged.
            is_planned = self.world.model.reviews[id].status == "New" and self.world.model.flags[id] == ["low"]
            self.world.model.closings[id, action] += is_planned and action == "reset"
            self.world.model.moderate(action, id, command=answer.command)
            if action == "delete":
                del self.world.model.flags[id]
        self.acknowledge(f"{action} by HTTP", *ids)


async def expire_holds(service: Service, ids: Sequence[str]) -> None:
    """Make the planned approvals of reviews due now, directly in the database. Raises TimeoutError."""
    # Not earlier: only what was acknowledged before a plan is due ends it.
    now = datetime.now(UTC)
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                async with service.mongo() as database:
                    await database[PLANNED_APPROVALS].update_many({"_id": {"$in": list(ids)}}, {"$set": {"at": now}})
                return
            except PyMongoError:
                await asyncio.sleep(0.2)  # retry while the database is unavailable


def wrong_flags(model: Model, shown: dict[str, list[Any]]) -> list[tuple[str, str]]:
    """Id and description of each review whose flags differ from the model's."""
    return [
        (id, f"flags {shown.get(id)}, expected {flags}") for id, flags in model.flags.items() if shown.get(id) != flags
    ]


SEARCH = f"{REVIEWS}/search"
