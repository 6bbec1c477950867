"""Feedback under faults: replies, votes and reports on reviews that no other client touches, by HTTP and by Kafka."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.chaos.clients import PATIENCE_S
from tests.chaos.generator import LATE_S, REVIEWS, Actor, World
from tests.chaos.model import Json, Said
from tests.chaos.partitions import Way

VOTERS = 8
"""Number of voters per client."""


def shown_in(row: Json) -> tuple[str | None, int, int, int]:
    """Reply, helpful votes, other votes and open reports of a review in a list, as `Said.shown` has them."""
    reply = row["reply"] and row["reply"]["text"]
    return reply, row["helpful"], row["notHelpful"], row["reports"]


class Audience(Actor):
    """Replies to its own reviews, votes on them and reports them. All feedback on one review has one key, so its
    order is kept."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.approved: list[str] = []

    def deeds(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        always = [(self.submit, 2), (self.speak_early, 1)]
        if not self.approved:
            return always
        way = self.world.partitions.way(self.name)
        speech = [(self.speak_by_kafka, 6)] if way is not Way.HTTP else []
        speech += [(self.speak_by_http, 6)] if way is not Way.KAFKA else []
        return [*always, *speech, (self.decide, 2), (self.delete, 1), (self.repeat_some, 2)]

    async def submit(self) -> None:
        """Submit and approve a review before any feedback on it."""
        review = self.review(id=self.review_id(), storeId=None)
        await self.tell("review-submissions", f"Product:{review['EntityId']}", review)
        self.world.model.submit(review["id"], review)
        await self.approve(review["id"])

    async def approve(self, id: str) -> None:
        await self.until(lambda: self.world.http.send("GET", f"{REVIEWS}/{id}"), 200)
        await self.world.http.wait_for("POST", f"{REVIEWS}/approve", [id], key=self.new_id("key"))
        self.world.model.moderate("approve", id)
        self.world.ledger.acknowledge("approved by its audience", id)
        self.approved.append(id)
        del self.approved[:-50]

    async def speak_early(self) -> None:
        """Publish feedback before its review. The approval afterwards closes the reports."""
        review = self.review(id=self.review_id(), storeId=None)
        for _ in range(self.chance.randint(1, 4)):
            await self.tell_about(review["id"])
        # Immediately, or so late that the feedback was parked.
        await asyncio.sleep(self.chance.choice([0.0, LATE_S]))
        await self.tell("review-submissions", f"Product:{review['EntityId']}", review)
        self.world.model.submit(review["id"], review)
        self.world.ledger.acknowledge("submitted by Kafka behind feedback", review["id"])
        # Separate consumers read feedback and decisions, and a decision closes only earlier reports: wait for these.
        await self.until_heard(review["id"])
        await self.approve(review["id"])
        self.world.model.said[review["id"]].reports = 0

    def words(self, id: str) -> Json:
        """A random feedback command, already applied to the model."""
        said = self.world.model.said.setdefault(id, Said())
        voter = f"{self.name}-voter{self.chance.randint(1, VOTERS)}"
        action = self.chance.choice(["vote", "vote", "vote", "remove-vote", "reply", "remove-reply", "report"])
        match action:
            case "vote":
                said.votes[voter] = helpful = self.chance.random() < 0.6
                return {"action": action, "userId": voter, "helpful": helpful}
            case "remove-vote":
                said.votes.pop(voter, None)
                return {"action": action, "userId": voter}
            case "reply":
                said.reply = self.new_id("reply")
                return {"action": action, "text": said.reply}
            case "remove-reply":
                said.reply = None
                return {"action": action}
        said.reports += 1
        return {"action": action, "reason": "spam", "explanation": self.new_id("report"), "goodFaith": True}

    async def tell_about(self, id: str) -> None:
        command = {**self.words(id), "reviewId": id, "commandId": self.new_id("command")}
        await self.tell("review-feedback", id, command)
        self.world.ledger.acknowledge(f"{command['action']} by Kafka", id)

    async def speak_by_kafka(self) -> None:
        for id in self.chance.sample(self.approved, min(len(self.approved), 5)):
            await self.tell_about(id)

    async def speak_by_http(self) -> None:
        id = self.chance.choice(self.approved)
        body = self.words(id)
        action = body.pop("action")
        ways = {"vote": ("POST", "votes"), "remove-vote": ("DELETE", "votes"), "report": ("POST", "reports")}
        method, part = ways.get(action, ("DELETE" if action == "remove-reply" else "POST", "reply"))
        key, wait = self.new_id("key"), self.chance.choice([None, None, 5])
        # Just after a change of the primary, the facade may read stale data.
        await self.until(
            lambda: self.world.http.send(method, f"{REVIEWS}/{id}/{part}", body or None, key=key, wait=wait), 200, 202
        )
        self.world.ledger.acknowledge(f"{action} by HTTP", id)

    async def until_heard(self, id: str) -> None:
        """Wait until a review shows the expected feedback. After `PATIENCE_S` the final comparison finds the
        difference."""
        expected = self.world.model.said[id].shown()
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_S
        while loop.time() < end:
            answer = await self.world.http.send("GET", f"{REVIEWS}/{id}")
            if answer.status == 200 and shown_in(answer.body) == expected:
                return
            await asyncio.sleep(0.1)  # polling interval

    async def decide(self) -> None:
        """A moderator confirms a review's status, which closes the reports on it."""
        id = self.chance.choice(self.approved)
        if id in self.world.model.said:
            await self.until_heard(id)
            await self.world.http.wait_for("POST", f"{REVIEWS}/approve", [id], key=self.new_id("key"))
            self.world.model.said[id].reports = 0
            self.world.ledger.acknowledge("decided by HTTP", id)
            await self.until_heard(id)

    async def delete(self) -> None:
        """Delete a review together with the feedback on it."""
        id = self.approved.pop(self.chance.randrange(len(self.approved)))
        await self.world.http.wait_for("DELETE", REVIEWS, {"ids": [id]}, key=self.new_id("key"))
        self.world.model.moderate("delete", id)
        self.world.ledger.acknowledge("deleted by its audience", id)
