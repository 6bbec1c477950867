"""Lists of reviews, with their total, while there are many."""

from __future__ import annotations

from statistics import quantiles
from time import perf_counter
from typing import Any

from benchmarks.comparison import Comparison, paired
from benchmarks.facade import serving
from benchmarks.ground import Ground, Place
from benchmarks.http_load import connected, post
from benchmarks.moderation import store
from benchmarks.samples import object_id, stored_review

_SEARCH = "/api/customerReviews/reviewList"
_NEWEST = [("createdDate", -1), ("_id", -1)]
_P99_MS = 25.0
_PHRASE_MS = 300.0

CASES: tuple[tuple[str, dict[str, Any], dict[str, Any], list[tuple[str, int]]], ...] = (
    ("all", {}, {}, _NEWEST),
    ("New", {"reviewStatus": "New"}, {"status": 0}, _NEWEST),
    ("Approved", {"reviewStatus": "Approved"}, {"status": 1}, _NEWEST),
    (
        "of an object",
        {"entityIds": [object_id(7)], "entityType": "Product"},
        {"entityType": "Product", "entityId": object_id(7)},
        _NEWEST,
    ),
    ("of a customer", {"userId": "user-7"}, {"userId": "user-7"}, _NEWEST),
    ("of a store", {"storeId": "small"}, {"storeId": "small"}, _NEWEST),
    ("rating 5", {"startRating": 5}, {"ratingHundredths": {"$gte": 500}}, _NEWEST),
    ("by rating", {"sort": "rating:desc"}, {}, [("ratingHundredths", -1), ("_id", -1)]),
    ("by title", {"sort": "title"}, {}, [("title", 1), ("_id", 1)]),
    ("phrase", {"searchPhrase": "no such words"}, {"$or": []}, _NEWEST),
)


async def fill(place: Place, count: int) -> None:
    """Have so many reviews: one in ten new, a hundred of a small store."""
    await store(place, 0, count * 9 // 10, status=1)
    await store(place, count * 9 // 10, count - count * 9 // 10)
    small = [stored_review(count + number, store="small") for number in range(100)]
    await place.database["reviews"].insert_many(small)


async def compare(ground: Ground, runs: int, count: int, requests: int) -> list[Comparison]:
    """The first page of each case, by the facade and by a bare loop of the same find and count."""
    comparisons = []
    async with ground.place() as place:
        await fill(place, count)
        reviews = place.database["reviews"]
        async with serving(place, "plaudit", "api") as port:
            connection = await connected(port)
            for name, body, condition, sort in CASES:
                is_phrase = "$or" in condition
                request, asks = post(_SEARCH, body), 3 if is_phrase else requests
                if is_phrase:
                    pattern = {"$regex": "no such words", "$options": "i"}
                    condition = {"$or": [{f: pattern} for f in ("title", "review", "userName", "entityName")]}
                ours, theirs, every_ms = [], [], []
                for _ in range(runs):
                    started = perf_counter()
                    for _ in range(asks):
                        asked = perf_counter()
                        status, answer = await connection.ask(request)
                        if status != 200:
                            raise AssertionError(answer)
                        every_ms.append(1000 * (perf_counter() - asked))
                    ours.append(perf_counter() - started)
                    started = perf_counter()
                    for _ in range(asks):
                        await reviews.find(condition).sort(sort).limit(20).to_list()
                        await reviews.count_documents(condition)
                    theirs.append(perf_counter() - started)
                p99 = quantiles(every_ms, n=100)[-1]
                title = f"List of {count:,} reviews, {name}"
                comparisons.append(
                    Comparison(title, "limit: the same find and count by a bare loop", paired(theirs, ours), 0.7)
                )
                limit = _PHRASE_MS if is_phrase else _P99_MS
                comparisons.append(Comparison(f"{title}, p99", "", [p99], limit, "at most", "ms"))
    return comparisons
