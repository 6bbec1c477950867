"""The time from a request until its effect is visible, while the service is under load."""

import asyncio
from statistics import median
from time import perf_counter
from typing import Final

import orjson

from benchmarks.comparison import Comparison, p99
from benchmarks.facade import serving, submission
from benchmarks.http_load import Connection, open_connection, post, rate
from benchmarks.progress import print_progress
from benchmarks.servers import Servers
from benchmarks.sizes import Size

_REVIEWS: Final = "/api/customerReviews"
_SHARE: Final = 0.3
_WARM_UP: Final = 20
_PAUSE_S: Final = 0.001

# Numbers of sample reviews; `rate` uses those below 160,000,000.
_LAST: Final = 200_000_000
_WATCHED: Final = 300_000_000
_LOAD: Final = 400_000_000


async def _load(port: int, per_second: float) -> None:
    """Submit reviews at a steady rate until cancelled."""
    connections = [await open_connection(port) for _ in range(8)]
    number, started = _LOAD, perf_counter()
    while True:
        due = started + (number - _LOAD) / per_second
        await asyncio.sleep(max(0.0, due - perf_counter()))
        requests = [post(_REVIEWS, submission(number + n)) for n in range(len(connections))]
        await asyncio.gather(*(c.ask(r) for c, r in zip(connections, requests, strict=True)))
        number += len(connections)


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Submit and approve reviews, one after the other, while the facade is at 30% of its maximum load."""
    visible: list[list[float]] = []
    rated: list[list[float]] = []
    async with servers.workspace() as workspace, serving(workspace, "plaudit", "api") as port:
        with workspace.running("plaudit", "worker"):
            connection = await open_connection(port)
            # The first seconds are for warm-up.
            for seconds in (4, 2):
                most = await rate(port, lambda n: post(_REVIEWS, submission(n)), seconds=seconds, status=202)
            # Wait until the worker has caught up.
            await _submit(connection, submission(_LAST)[0] | {"EntityId": "last"})
            await connection.wait_for(b'"totalCount":1', _list("last"), pause_s=_PAUSE_S)
            load = asyncio.create_task(_load(port, most * _SHARE))
            await _watch(connection, range(_WATCHED, _WATCHED + _WARM_UP))
            for run in range(size.runs):
                first = _WATCHED + _WARM_UP + run * size.observed
                times = await _watch(connection, range(first, first + size.observed))
                visible.append(times[0])
                rated.append(times[1])
                medians = f"visible {median(times[0]):.3g} ms, rated {median(times[1]):.3g} ms"
                print_progress(f"  Round {run + 1} of {size.runs}: {medians}")
            if load.done():
                load.result()
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)
    comparisons = []
    for name, runs_of in (("POST to visible", visible), ("approve to rating", rated)):
        for quantile, of, goal in (("p50", median, 20), ("p99", p99, 100)):
            values = [of(times) for times in runs_of]
            title, absolute = f"Latency, {name}, {quantile}", f"{most * _SHARE:,.0f} POST/s meanwhile"
            comparisons.append(Comparison(title, "at 30% load", values, goal, "at most", "ms", absolute))
    return comparisons


async def _watch(connection: Connection, numbers: range) -> tuple[list[float], list[float]]:
    """Milliseconds from the POST of each review until it is listed, and from its approval until it is in the rating."""
    visible, rated = [], []
    for number in numbers:
        entity = f"watched-{number}"
        review = submission(number)[0] | {"EntityId": entity}
        del review["id"]
        started = perf_counter()
        (id,) = await _submit(connection, review)
        await connection.wait_for(b'"totalCount":1', _list(entity), pause_s=_PAUSE_S)
        visible.append(1000 * (perf_counter() - started))
        started = perf_counter()
        await connection.body_of(post(f"{_REVIEWS}/approve", [id]), 202)
        rating = post("/api/rating/entityRating", {"entityIds": [entity], "entityType": "Product"})
        await connection.wait_for(b'"reviewCount":1', rating, pause_s=_PAUSE_S)
        rated.append(1000 * (perf_counter() - started))
    return visible, rated


async def _submit(connection: Connection, review: dict[str, object]) -> list[str]:
    """Submit a review. Returns its id, in a list."""
    ids: list[str] = orjson.loads(await connection.body_of(post(_REVIEWS, [review]), 202))["ids"]
    return ids


def _list(entity: str) -> bytes:
    return post(f"{_REVIEWS}/reviewList", {"entityIds": [entity], "entityType": "Product", "take": 1})
