"""From a request until its effect can be seen, while the service has other work."""

from __future__ import annotations

import asyncio
from statistics import median, quantiles
from time import perf_counter

from benchmarks.comparison import Comparison
from benchmarks.facade import serving, submission
from benchmarks.ground import Ground
from benchmarks.http_load import Connection, connected, post, rate

_REVIEWS = "/api/customerReviews"
_SHARE = 0.3


async def _load(port: int, per_second: float) -> None:
    """Submit reviews at a steady rate until cancelled."""
    connections = [await connected(port) for _ in range(8)]
    number, started = 50_000_000, perf_counter()
    while True:
        due = started + (number - 50_000_000) / per_second
        await asyncio.sleep(max(0.0, due - perf_counter()))
        requests = [post(_REVIEWS, submission(number + n)) for n in range(len(connections))]
        await asyncio.gather(*(c.ask(r) for c, r in zip(connections, requests, strict=True)))
        number += len(connections)


async def _until(connection: Connection, request: bytes, wanted: bytes) -> None:
    while True:
        _, answer = await connection.ask(request)
        if wanted in answer:
            return
        await asyncio.sleep(0.001)


async def compare(ground: Ground, count: int) -> list[Comparison]:
    """Submit and approve `count` reviews, one after the other, at 30% of what the facade can take."""
    visible, rated = [], []
    async with ground.place() as place, serving(place, "plaudit", "api") as port:
        with place.running("plaudit", "worker"):
            connection = await connected(port)
            most = await rate(port, lambda n: post(_REVIEWS, submission(n)), seconds=2, status=202)
            # Once the worker has caught up with that.
            await connection.ask(post(_REVIEWS, [submission(99_999_998)[0] | {"EntityId": "last"}]))
            await _until(connection, _list("last"), b'"totalCount":1')
            load = asyncio.create_task(_load(port, most * _SHARE))
            for number in range(count):
                review = submission(90_000_000 + number)[0] | {"EntityId": f"watched-{number}"}
                started = perf_counter()
                await connection.ask(post(_REVIEWS, [review]))
                await _until(connection, _list(f"watched-{number}"), b'"totalCount":1')
                visible.append(1000 * (perf_counter() - started))
                started = perf_counter()
                await connection.ask(post(f"{_REVIEWS}/approve", [review["id"]]))
                asked = {"entityIds": [f"watched-{number}"], "entityType": "Product"}
                await _until(connection, post("/api/rating/entityRating", asked), b'"reviewCount":1')
                rated.append(1000 * (perf_counter() - started))
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
    comparisons = []
    for name, times in (("POST to visible", visible), ("approve to rating", rated)):
        for quantile, value, goal in (("p50", median(times), 20), ("p99", quantiles(times, n=100)[-1], 100)):
            comparisons.append(Comparison(f"{name}, {quantile}", "at 30% load", [value], goal, "at most", "ms"))
    return comparisons


def _list(entity: str) -> bytes:
    return post(f"{_REVIEWS}/reviewList", {"entityIds": [entity], "entityType": "Product", "take": 1})
