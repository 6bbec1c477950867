"""What one approval costs for an object with few and with many approved reviews."""

from __future__ import annotations

from time import perf_counter

from benchmarks.comparison import Comparison, paired, per_second
from benchmarks.ground import Ground, Place
from benchmarks.moderation import store
from benchmarks.samples import approvals
from domain.ratings import Entity, RatingTally, TallyKey
from domain.reviews import ReviewStatus
from messaging.topics import Topic
from storage.database import in_transaction
from storage.ratings import RatingRepository

_OBJECT = Entity("Product", "product-0")


async def _approval_rate(ground: Ground, approved: int, count: int) -> tuple[float, float]:
    """Approvals a second of an object with so many approved reviews, and how long one count of them takes."""
    async with ground.place() as place:
        await store(place, 0, approved, objects=1, status=int(ReviewStatus.APPROVED))
        await store(place, approved, count, objects=1)
        tally = {TallyKey(_OBJECT, "open"): RatingTally(approved, 300 * approved)}
        ratings = RatingRepository(place.database)
        await in_transaction(place.database, lambda session: ratings.add(tally, session))
        place.publish(Topic.MODERATION_COMMANDS, approvals(approved, count))
        with place.running("plaudit", "worker") as process:
            group = place.topic(Topic.REVIEW_CHANGES)
            rate = await place.committed_rate(group, Topic.REVIEW_CHANGES, count, process)
        return rate, await _recount_s(place)


async def _recount_s(place: Place) -> float:
    started = perf_counter()
    found = await place.database["reviews"].aggregate(
        [
            {"$match": {"entityType": _OBJECT.type, "entityId": _OBJECT.id, "status": int(ReviewStatus.APPROVED)}},
            {"$group": {"_id": None, "count": {"$sum": 1}, "sum": {"$sum": "$ratingHundredths"}}},
        ]
    )
    await found.to_list()
    return perf_counter() - started


async def compare(ground: Ground, runs: int, count: int, sizes: tuple[int, ...]) -> list[Comparison]:
    """Approve `count` reviews more of an object that has so many."""
    rates: dict[int, list[float]] = {size: [] for size in sizes}
    recounts: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(runs):
        for size in sizes:
            rate, recount_s = await _approval_rate(ground, size, count)
            rates[size].append(rate)
            recounts[size].append(recount_s)
    small = sizes[0]
    comparisons = []
    for size in sizes[1:]:
        absolute = f"{per_second(rates[size])} against {per_second(rates[small])}"
        comparisons.append(
            Comparison(
                f"Approvals, an object with {size:,} approved reviews",
                f"an object with {small:,}",
                paired(rates[size], rates[small]),
                0.9,
                absolute=absolute,
            )
        )
        comparisons.append(
            Comparison(
                f"One count of all reviews, {size:,}",
                f"of {small:,}",
                paired(recounts[size], recounts[small]),
                absolute=f"{min(recounts[size]) * 1000:.1f} ms; no approval of ours does it",
            )
        )
    return comparisons
