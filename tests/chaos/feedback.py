"""Feedback under faults: replies, votes and reports on reviews that no other client touches, by HTTP and by Kafka."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.chaos.actors import LATE_S, REVIEWS, Actor, World
from tests.chaos.clients import TIMEOUT_S
from tests.chaos.model import Feedback, Json
from tests.chaos.outcomes import APPLIED, NOT_FOUND, UNCHANGED, Outcome
from tests.chaos.partitions import Way

VOTERS = 8
"""Number of voters per client."""


def shown_in(row: Json) -> tuple[str | None, int, int, int]:
    """Reply, helpful votes, other votes and open reports of a review in a list, as `Feedback.shown` has them."""
    reply = row["reply"] and row["reply"]["text"]
    return reply, row["helpful"], row["notHelpful"], row["reports"]


class Audience(Actor):
    """Replies to its own reviews, votes on them and reports them. All feedback on one review has one key, so its
    order is kept."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.approved: list[str] = []

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        always = [(self.submit, 2), (self.send_feedback_early, 1)]
        if not self.approved:
            return always
        way = self.world.partitions.way(self.name)
        sending = [(self.send_feedback_by_kafka, 6)] if way is not Way.HTTP else []
        sending += [(self.send_feedback_by_http, 6)] if way is not Way.KAFKA else []
        return [*always, *sending, (self.decide, 2), (self.delete, 1), (self.redeliver_some, 2)]

    async def submit(self) -> None:
        """Submit and approve a review before any feedback on it."""
        review = self.review(id=self.review_id(), storeId=None)
        await self.publish("review-submissions", f"Product:{review['EntityId']}", review)
        self.world.model.submit(review["id"], review)
        await self.approve(review["id"])

    async def approve(self, id: str) -> None:
        await self.until(lambda: self.world.http.send("GET", f"{REVIEWS}/{id}"), 200)
        answer = await self.world.http.wait_for("POST", f"{REVIEWS}/approve", [id], key=self.new_id("key"))
        self.world.model.moderate("approve", id, command=answer.command)
        self.acknowledge("approved by its audience", id)
        self.approved.append(id)
        del self.approved[:-50]

    async def send_feedback_early(self) -> None:
        """Publish feedback before its review. The approval afterwards closes the reports."""
        review = self.review(id=self.review_id(), storeId=None)
        for _ in range(self.rng.randint(1, 4)):
            await self.publish_feedback(review["id"])
        # Immediately, or so late that the feedback was parked.
        await asyncio.sleep(self.rng.choice([0.0, LATE_S]))
        await self.publish("review-submissions", f"Product:{review['EntityId']}", review)
        self.world.model.submit(review["id"], review)
        self.acknowledge("submitted by Kafka behind feedback", review["id"])
        # Separate consumers read feedback and decisions, and a decision closes only earlier reports: wait for these.
        await self.until_feedback_shown(review["id"])
        await self.approve(review["id"])
        self.world.model.feedback[review["id"]].reports = 0

    def feedback_command(self, id: str) -> tuple[Json, Outcome]:
        """A random feedback command, already applied to the model, and its outcome."""
        feedback = self.world.model.feedback.setdefault(id, Feedback())
        before = Feedback(feedback.reply, dict(feedback.votes), feedback.reports)
        command = self.random_feedback(feedback)
        if command["action"] not in ("vote", "remove-vote"):
            self.world.model.sent[id, command["action"].removeprefix("remove-")] += 1
        return command, UNCHANGED if feedback == before else APPLIED

    def random_feedback(self, feedback: Feedback) -> Json:
        """A random feedback command, already applied to this feedback."""
        voter = f"{self.name}-voter{self.rng.randint(1, VOTERS)}"
        action = self.rng.choice(["vote", "vote", "vote", "remove-vote", "reply", "remove-reply", "report"])
        match action:
            case "vote":
                feedback.votes[voter] = helpful = self.rng.random() < 0.6
                return {"action": action, "userId": voter, "helpful": helpful}
            case "remove-vote":
                feedback.votes.pop(voter, None)
                return {"action": action, "userId": voter}
            case "reply":
                feedback.reply = self.new_id("reply")
                return {"action": action, "text": feedback.reply}
            case "remove-reply":
                feedback.reply = None
                return {"action": action}
        feedback.reports += 1
        return {"action": action, "reason": "spam", "explanation": self.new_id("report"), "goodFaith": True}

    async def publish_feedback(self, id: str) -> None:
        body, outcome = self.feedback_command(id)
        command = {**body, "reviewId": id}
        if body["action"] == "report" and self.rng.random() < 0.5:
            # A report is recognised by its CloudEvent, too.
            await self.publish("review-feedback", id, command, event_id=self.new_id("event"))
        else:
            command["commandId"] = self.new_id("command")
            await self.publish("review-feedback", id, command)
            self.expect_outcome(command["commandId"], id, outcome)
        self.acknowledge(f"{command['action']} by Kafka", id)

    async def send_feedback_by_kafka(self) -> None:
        for id in self.rng.sample(self.approved, min(len(self.approved), 5)):
            await self.publish_feedback(id)

    async def send_feedback_by_http(self) -> None:
        id = self.rng.choice(self.approved)
        body, outcome = self.feedback_command(id)
        action = body.pop("action")
        ways = {"vote": ("POST", "votes"), "remove-vote": ("DELETE", "votes"), "report": ("POST", "reports")}
        method, part = ways.get(action, ("DELETE" if action == "remove-reply" else "POST", "reply"))
        key, wait = self.new_id("key"), self.rng.choice([None, None, 5])
        # Just after a change of the primary, the facade may read stale data.
        answer = await self.until(
            lambda: self.world.http.send(method, f"{REVIEWS}/{id}/{part}", body or None, key=key, wait=wait), 200, 202
        )
        self.expect_outcome(answer.body["commandId"], id, outcome)
        self.acknowledge(f"{action} by HTTP", id)

    def expect_outcome(self, command: str, id: str, outcome: Outcome) -> None:
        """Expect an outcome of feedback, which the deletion of its review may have overtaken."""
        self.world.model.outcomes.expect(command, id, outcome)
        self.world.model.outcomes.if_gone[command, id] = NOT_FOUND

    async def until_feedback_shown(self, id: str) -> None:
        """Wait until a review shows the expected feedback. After `TIMEOUT_S` the final comparison finds the
        difference."""
        expected = self.world.model.feedback[id].shown()
        loop = asyncio.get_running_loop()
        end = loop.time() + TIMEOUT_S
        while loop.time() < end:
            answer = await self.world.http.send("GET", f"{REVIEWS}/{id}")
            if answer.status == 200 and shown_in(answer.body) == expected:
                return
            await asyncio.sleep(0.1)  # polling interval

    async def decide(self) -> None:
        """A moderator confirms a review's status, which closes the reports on it."""
        id = self.rng.choice(self.approved)
        if id in self.world.model.feedback:
            await self.until_feedback_shown(id)
            answer = await self.world.http.wait_for("POST", f"{REVIEWS}/approve", [id], key=self.new_id("key"))
            self.world.model.close_reports("approve", id, answer.command)
            self.acknowledge("decided by HTTP", id)
            await self.until_feedback_shown(id)

    async def delete(self) -> None:
        """Delete a review together with the feedback on it."""
        id = self.approved.pop(self.rng.randrange(len(self.approved)))
        answer = await self.world.http.wait_for("DELETE", REVIEWS, {"ids": [id]}, key=self.new_id("key"))
        self.world.model.moderate("delete", id, command=answer.command)
        self.acknowledge("deleted by its audience", id)
