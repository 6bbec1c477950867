"""Lists of reviews: the first page of 20 with `totalCount`, on one connection.

The bare loop runs the same query, and counts each time. The facade caches large counts for a second, and computes some
from tallies, which explains ratios above 1. p99 is over all responses of all rounds.
"""

from datetime import UTC, datetime
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.comparison import Comparison, in_turns, p99, paired
from benchmarks.facade import serving
from benchmarks.http_load import open_connection, post
from benchmarks.moderation import indexed_afterwards, store
from benchmarks.samples import object_id, stored_review
from benchmarks.servers import Servers, Workspace
from benchmarks.sizes import Size
from storage.database import Document

_SEARCH: Final = "/api/customerReviews/reviewList"
_NEWEST: Final = [("createdDate", -1), ("_id", -1)]
_P99_MS: Final = 25.0
_PHRASE_MS: Final = 300.0
_PHRASE: Final = "no such words"
_MINUTE: Final = (datetime(2026, 1, 1, 0, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 2, tzinfo=UTC))
"""A minute with 60,000 reviews: samples are one millisecond apart."""


def _sorted(field: str, stored: str, direction: int = 1) -> tuple[str, dict[str, Any], Document, list[tuple[str, int]]]:
    word = {1: "asc", -1: "desc"}[direction]
    return f"by {field}, {word}", {"sort": f"{field}:{word}"}, {}, [(stored, direction), ("_id", direction)]


CASES: Final[tuple[tuple[str, dict[str, Any], Document, list[tuple[str, int]]], ...]] = (
    ("all", {}, {}, _NEWEST),
    ("New", {"reviewStatus": "New"}, {"status": 0}, _NEWEST),
    ("Approved", {"reviewStatus": "Approved"}, {"status": 1}, _NEWEST),
    (
        "of an object",
        {"entityIds": [object_id(7)], "entityType": "Product"},
        {"entityType": "Product", "entityId": object_id(7)},
        _NEWEST,
    ),
    (
        "approved of an object",
        {"reviewStatus": "Approved", "entityIds": [object_id(7)], "entityType": "Product"},
        {"status": 1, "entityType": "Product", "entityId": object_id(7)},
        _NEWEST,
    ),
    ("of a type", {"entityType": "Product"}, {"entityType": "Product"}, _NEWEST),
    ("of a customer", {"userId": "user-7"}, {"userId": "user-7"}, _NEWEST),
    ("of a small store", {"storeId": "small"}, {"storeId": "small"}, _NEWEST),
    (
        "of a minute",
        {"startDate": _MINUTE[0].isoformat(), "endDate": _MINUTE[1].isoformat()},
        {"createdDate": {"$gte": _MINUTE[0], "$lte": _MINUTE[1]}},
        _NEWEST,
    ),
    ("rating 5", {"startRating": 5}, {"ratingHundredths": {"$gte": 500}}, _NEWEST),
    _sorted("createdDate", "createdDate"),
    _sorted("modifiedDate", "modifiedDate", -1),
    _sorted("rating", "ratingHundredths", -1),
    _sorted("title", "title"),
    _sorted("userName", "userName"),
    _sorted("entityName", "entityName"),
    _sorted("entityType", "entityType"),
    _sorted("reviewStatus", "status"),
    _sorted("storeId", "storeId"),
    (
        "phrase",
        {"searchPhrase": _PHRASE},
        {
            "$or": [
                {field: {"$regex": _PHRASE, "$options": "i"}} for field in ("title", "review", "userName", "entityName")
            ]
        },
        _NEWEST,
    ),
)


async def fill(workspace: Workspace, count: int) -> None:
    """Store `count` reviews, of which a tenth are new, 100 reviews of a small store, and the tallies."""
    reviews = workspace.database["reviews"]
    async with indexed_afterwards(workspace):
        await store(workspace, 0, count * 9 // 10, status=1)
        await store(workspace, count * 9 // 10, count - count * 9 // 10)
        await reviews.insert_many([stored_review(count + number, store="small") for number in range(100)])
    key = {name: f"${name}" for name in ("entityType", "entityId", "storeId")}
    tallies: list[Document] = [
        {"$match": {"status": 1}},
        {"$group": {"_id": key, "count": {"$sum": 1}, "sumHundredths": {"$sum": "$ratingHundredths"}}},
        {"$replaceWith": {"$mergeObjects": ["$_id", {"count": "$count", "sumHundredths": "$sumHundredths"}]}},
        {"$merge": {"into": "ratings", "on": list(key)}},
    ]
    await reviews.aggregate(tallies)


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Request the first page of each case from the facade and from a bare loop, in turns.

    In each round up to `list_requests` times, or as often as fits into `list_seconds`, but at least once.
    """
    comparisons = []
    async with servers.workspace() as workspace:
        await fill(workspace, size.listed_reviews)
        async with serving(workspace, "plaudit", "api") as port:
            for name, body, condition, sort in CASES:
                pages = Pages(port, workspace, post(_SEARCH, body), condition, sort)
                asks = max(1, min(size.list_requests, int(size.list_seconds / await pages.ask_facade(1))))
                pages.answers_ms.clear()
                measures = {name: partial(pages.ask_facade, asks), "bare": partial(pages.ask_bare, asks)}
                times = await in_turns(size.runs, measures)
                title = f"List of {size.listed_reviews:,} reviews, {name}"
                absolute = f"{1000 * median(times[name]):.3g} ms against {1000 * median(times['bare']):.3g} ms"
                limit = "a bare loop that runs the same query, and counts each time"
                ratios = paired(times["bare"], times[name])
                comparisons.append(Comparison(title, limit, ratios, 0.7, absolute=absolute))
                goal = _PHRASE_MS if name == "phrase" else _P99_MS
                of = f"of {len(pages.answers_ms)} responses"
                comparisons.append(Comparison(f"{title}, p99", "", [p99(pages.answers_ms)], goal, "at most", "ms", of))
    return comparisons


class Pages:
    """One page, requested repeatedly, with the times of the facade's responses in milliseconds."""

    def __init__(
        self, port: int, workspace: Workspace, request: bytes, condition: Document, sort: list[tuple[str, int]]
    ) -> None:
        self._port = port
        self._reviews = workspace.database["reviews"]
        self._request = request
        self._condition = condition
        self._sort = sort
        self.answers_ms: list[float] = []

    async def ask_facade(self, times: int) -> float:
        """Request the page `times` times from the facade. Returns seconds for one. Raises AssertionError: an error."""
        # A new one each time: the facade closes connections that were idle while the bare loop ran.
        connection = await open_connection(self._port)
        started = perf_counter()
        for _ in range(times):
            asked = perf_counter()
            await connection.body_of(self._request, 200)
            self.answers_ms.append(1000 * (perf_counter() - asked))
        took = perf_counter() - started
        connection.close()
        return took / times

    async def ask_bare(self, times: int) -> float:
        """Query and count `times` times by the bare loop. Returns seconds per page."""
        started = perf_counter()
        for _ in range(times):
            await self._reviews.find(self._condition).sort(self._sort).limit(20).to_list()
            await self._reviews.count_documents(self._condition)
        return (perf_counter() - started) / times
