"""Approvals, with the ratings following."""

from __future__ import annotations

from benchmarks.comparison import Comparison, paired, per_second
from benchmarks.ground import Ground, Place
from benchmarks.samples import OBJECTS, approvals, stored_review
from messaging.topics import Topic

_AT_ONCE = 5_000


async def store(place: Place, first: int, count: int, *, objects: int = OBJECTS, status: int = 0) -> None:
    """Have so many reviews in the database."""
    for start in range(first, first + count, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, first + count))
        documents = [stored_review(number, objects, status) for number in numbers]
        await place.database["reviews"].insert_many(documents, ordered=False)


async def our_rate(ground: Ground, count: int, *, objects: int = OBJECTS) -> float:
    """Approvals a second until the ratings have followed."""
    async with ground.place() as place:
        await store(place, 0, count, objects=objects)
        place.publish(Topic.MODERATION_COMMANDS, approvals(0, count))
        with place.running("plaudit", "worker") as process:
            group = place.topic(Topic.REVIEW_CHANGES)
            return await place.committed_rate(group, Topic.REVIEW_CHANGES, count, process)


async def bare_rate(ground: Ground, count: int) -> float:
    """Status updates a second by a bare loop."""
    async with ground.place() as place:
        await store(place, 0, count)
        place.publish(Topic.MODERATION_COMMANDS, approvals(0, count))
        with place.running("benchmarks.subjects.bare_moderation") as process:
            return await place.committed_rate("bare", Topic.MODERATION_COMMANDS, count, process)


async def compare(ground: Ground, runs: int, count: int) -> list[Comparison]:
    """Approve `count` reviews, over many objects, of one object, and by the bare loop, `runs` times."""
    spread, hot, bare = [], [], []
    for _ in range(runs):
        spread.append(await our_rate(ground, count))
        bare.append(await bare_rate(ground, count))
        hot.append(await our_rate(ground, count, objects=1))
    name = f"Moderation, {count:,} approvals"
    return [
        Comparison(
            name,
            "limit: a bare loop of status updates, no rating",
            paired(spread, bare),
            0.75,
            absolute=f"{per_second(spread)} against {per_second(bare)}",
        ),
        Comparison(
            f"{name} of one object",
            f"the same over {OBJECTS:,} objects",
            paired(hot, spread),
            0.8,
            absolute=f"{per_second(hot)} against {per_second(spread)}",
        ),
    ]
