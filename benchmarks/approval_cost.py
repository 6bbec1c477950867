"""The cost of an approval, a vote and a reply, for objects with few and with many approved reviews.

It is measured from the publication of some thousand messages until the last one is committed. For comparison, an
aggregation recounts the object.
"""

import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
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
from storage.ratings.repository import RatingRepository

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
    _sent: Counter[Topic] = field(default_factory=Counter)
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
        messages = approvals(first, self.approvals, entity_id=entity.id)
        return await self._message_us(messages, Topic.MODERATION_COMMANDS, Topic.REVIEW_CHANGES)

    async def feedback_us(self, action: str, size: int) -> float:
        """Microseconds per vote on, or reply to, more reviews of an object, from publication until they are applied."""
        entity = await self.with_approved(size)
        first = await self._store(entity, self.approvals, ReviewStatus.APPROVED)
        messages = feedback(action, first, self.approvals, entity.id)
        return await self._message_us(messages, Topic.REVIEW_FEEDBACK, Topic.REVIEW_FEEDBACK)

    async def _message_us(self, messages: Iterable[tuple[str, bytes]], topic: Topic, applied_from: Topic) -> float:
        self._sent[applied_from] += self.approvals
        started = perf_counter()
        self.workspace.publish(topic, messages)
        await self.workspace.until_committed(applied_from, self._sent[applied_from], self.worker)
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
            measures: dict[str, Callable[[int], Awaitable[float]]] = {
                "an approval": objects.approval_us,
                "a vote": partial(objects.feedback_us, "vote"),
                "a reply": partial(objects.feedback_us, "reply"),
            }
            costs = {
                action: await in_turns(size.runs, {f"{n:,}": partial(measure, n) for n in sizes})
                for action, measure in measures.items()
            }
            recounts = await in_turns(size.runs, {f"recount {n:,}": partial(objects.recount_us, n) for n in sizes})
    smallest, comparisons = f"one with {sizes[0]:,}", list[Comparison]()
    for action, by_size in costs.items():
        few, *others = by_size.values()
        for number, cost in zip(sizes[1:], others, strict=True):
            name = f"Speed of {action}, an object with {number:,} approved reviews"
            comparisons.append(Comparison(name, smallest, paired(few, cost), 0.9, absolute=_times(cost, few)))
    few, *others = recounts.values()
    for number, recount in zip(sizes[1:], others, strict=True):
        name = f"Time of a recount, an object with {number:,} approved reviews"
        comparisons.append(Comparison(name, smallest, paired(recount, few), absolute=_times(recount, few)))
    for number, cost, recount in zip(sizes, costs["an approval"].values(), recounts.values(), strict=True):
        name = f"Approvals in the time of a recount, an object with {number:,}"
        against = "alternative: a recount of all reviews"
        comparisons.append(Comparison(name, against, paired(recount, cost), absolute=_times(cost, recount)))
    return comparisons


def _times(ours: list[float], theirs: list[float]) -> str:
    return f"{min(ours):,.0f} µs against {min(theirs):,.0f} µs"
