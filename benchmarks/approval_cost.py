"""The cost of an approval, a vote and a reply, for objects with few and with many approved reviews.

It is measured from the publication of some thousand messages until the last one is committed. For comparison, an
aggregation recounts the object.
"""

import subprocess
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from time import perf_counter
from typing import Final

from benchmarks.comparison import Comparison, in_turns, paired
from benchmarks.moderation import indexed_afterwards, store
from benchmarks.samples import approvals, feedback
from benchmarks.servers import Servers, Workspace
from benchmarks.sizes import Size
from domain.ratings import Entity, RatingTally, TallyKey
from domain.reviews import ReviewStatus
from messaging.topics import Topic
from storage.database import in_transaction
from storage.ratings import RatingRepository

_HUGE: Final = 100_000
"""An object with this many reviews or more is created once, and grows a little in each round. Smaller objects are
created for each round."""


@dataclass(slots=True)
class Objects:
    """Objects with approved reviews, and a running worker: its start is not measured."""

    workspace: Workspace
    approvals: int
    worker: subprocess.Popen[bytes] = field(init=False)
    _next_review: int = 0
    _approved: int = 0
    _feedback_sent: int = 0
    _numbers: "count[int]" = field(default_factory=count)
    _huge: dict[int, Entity] = field(default_factory=dict)

    async def with_approved(self, size: int) -> Entity:
        """An object with `size` approved reviews, counted in its rating."""
        if size in self._huge:
            return self._huge[size]
        entity = Entity("Product", f"measured-{next(self._numbers)}")
        async with indexed_afterwards(self.workspace) if size >= _HUGE else nullcontext():
            await self._store(entity, size, ReviewStatus.APPROVED)
        tally = {TallyKey(entity, "open"): RatingTally(size, 300 * size, (0, 0, size, 0, 0))}
        ratings = RatingRepository(self.workspace.database)
        await in_transaction(self.workspace.database, lambda session: ratings.add(tally, session))
        if size >= _HUGE:
            self._huge[size] = entity
        return entity

    async def approval_us(self, size: int) -> float:
        """Microseconds per approval for more reviews of an object, from publication until the ratings are updated."""
        entity = await self.with_approved(size)
        first = await self._store(entity, self.approvals, ReviewStatus.NEW)
        self._approved += self.approvals
        group = self.workspace.topic(Topic.REVIEW_CHANGES)
        started = perf_counter()
        self.workspace.publish(Topic.MODERATION_COMMANDS, approvals(first, self.approvals, entity_id=entity.id))
        await self.workspace.until_committed(group, Topic.REVIEW_CHANGES, self._approved, self.worker)
        return (perf_counter() - started) / self.approvals * 1e6

    async def feedback_us(self, action: str, size: int) -> float:
        """Microseconds per vote on, or reply to, more reviews of an object, from publication until they are applied."""
        entity = await self.with_approved(size)
        first = await self._store(entity, self.approvals, ReviewStatus.APPROVED)
        self._feedback_sent += self.approvals
        group = self.workspace.topic(Topic.REVIEW_FEEDBACK)
        started = perf_counter()
        self.workspace.publish(Topic.REVIEW_FEEDBACK, feedback(action, first, self.approvals, entity.id))
        await self.workspace.until_committed(group, Topic.REVIEW_FEEDBACK, self._feedback_sent, self.worker)
        return (perf_counter() - started) / self.approvals * 1e6

    async def recount_us(self, size: int) -> float:
        """Microseconds to count all approved reviews of an object, as the reference module does at each approval."""
        entity = await self.with_approved(size)
        started = perf_counter()
        found = await self.workspace.database["reviews"].aggregate(
            [
                {"$match": {"entityType": entity.type, "entityId": entity.id, "status": int(ReviewStatus.APPROVED)}},
                {"$group": {"_id": None, "count": {"$sum": 1}, "sum": {"$sum": "$ratingHundredths"}}},
            ]
        )
        await found.to_list()
        return (perf_counter() - started) * 1e6

    async def _store(self, entity: Entity, number: int, status: ReviewStatus) -> int:
        first, self._next_review = self._next_review, self._next_review + number
        await store(self.workspace, first, number, status=int(status), entity_id=entity.id)
        return first


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Measure approvals, votes, replies and recounts for objects with few and with many approved reviews."""
    sizes = size.object_sizes
    async with servers.workspace() as workspace:
        objects = Objects(workspace, size.approvals)
        await objects.with_approved(sizes[-1])
        with workspace.running("plaudit", "worker") as objects.worker:
            await workspace.until_relayed(objects.worker)  # else it would relay them beside the first rounds
            for number in sizes:
                await objects.approval_us(number)
            costs = await in_turns(size.runs, {f"{n:,}": partial(objects.approval_us, n) for n in sizes})
            feedback_costs = {
                action: await in_turns(size.runs, {f"{n:,}": partial(objects.feedback_us, action, n) for n in sizes})
                for action in ("vote", "reply")
            }
            recounts = await in_turns(size.runs, {f"recount {n:,}": partial(objects.recount_us, n) for n in sizes})
    (small, *_), (small_recount, *_) = costs.values(), recounts.values()
    comparisons = [
        Comparison(
            f"Speed of a {action}, an object with {number:,} approved reviews",
            f"one with {sizes[0]:,}",
            paired(few, cost),
            0.9,
            absolute=f"{min(cost):,.0f} µs against {min(few):,.0f} µs",
        )
        for action, (few, *others) in ((action, list(by_size.values())) for action, by_size in feedback_costs.items())
        for number, cost in zip(sizes[1:], others, strict=True)
    ]
    for number, cost, recount in zip(sizes, costs.values(), recounts.values(), strict=True):
        if cost is not small:
            name, against = f"{number:,} approved reviews", f"one with {sizes[0]:,}"
            comparisons += [
                Comparison(
                    f"Speed of an approval, an object with {name}",
                    against,
                    paired(small, cost),
                    0.9,
                    absolute=f"{min(cost):,.0f} µs against {min(small):,.0f} µs",
                ),
                Comparison(
                    f"Time of a recount, an object with {name}",
                    against,
                    paired(recount, small_recount),
                    absolute=f"{min(recount):,.0f} µs against {min(small_recount):,.0f} µs",
                ),
            ]
        comparisons.append(
            Comparison(
                f"Approvals in the time of a recount, an object with {number:,}",
                "alternative: a recount of all reviews",
                paired(recount, cost),
                absolute=f"{min(cost):,.0f} µs against {min(recount):,.0f} µs",
            )
        )
    return comparisons
