"""Requests per second of the facade, and of a bare server with a prepared response; each is one process.

The load comes over 16 keep-alive connections.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any

from benchmarks.comparison import Comparison, in_turns, paired, per_second
from benchmarks.http_load import open_connection, post, rate
from benchmarks.samples import review_id, submitted_review
from benchmarks.servers import Servers, Workspace
from benchmarks.sizes import Size
from domain.ratings import Entity, RatingTally, TallyKey
from storage.database import in_transaction
from storage.ratings.repository import RatingRepository
from tests.support.waiting import free_port

_START_S = 120.0
_TALLY = RatingTally.of([300, 400])

Rate = Callable[..., Awaitable[float]]
"""`rate` with all arguments but `seconds`."""


@asynccontextmanager
async def serving(workspace: Workspace, *command: str) -> AsyncIterator[int]:
    """Run a process that serves HTTP until the block ends; yields its port."""
    port = free_port()
    with workspace.running(*command, PORT=str(port), PLAUDIT_HTTP__PORT=str(port)) as process:
        await until_open(process, port)
        yield port


async def until_open(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a process accepts connections. Raises OSError if it has ended, or doesn't within two minutes."""
    end = monotonic() + _START_S
    while True:
        try:
            (await open_connection(port)).close()
        except OSError:
            if process.poll() is not None or monotonic() > end:
                raise
            await asyncio.sleep(0.05)
        else:
            return


def submission(number: int) -> list[dict[str, Any]]:
    """The body of a request that submits one review."""
    return [submitted_review(number) | {"id": f"http-{review_id(number)}"}]


def rating_request(ids: int) -> dict[str, object]:
    """The body of a request for the ratings of this many objects."""
    return {"entityIds": [f"product-{number}" for number in range(ids)], "entityType": "Product"}


async def rate_products(workspace: Workspace, count: int) -> None:
    """Store a rating for each of `count` products."""
    tallies = {TallyKey(Entity("Product", f"product-{number}"), "open"): _TALLY for number in range(count)}
    await in_transaction(workspace.database, lambda session: RatingRepository(workspace.database).add(tallies, session))


def always(request: bytes) -> Callable[[int], bytes]:
    """A function that returns the same request for each number."""
    return lambda _: request


@asynccontextmanager
async def serving_both(workspace: Workspace) -> AsyncIterator[tuple[int, int]]:
    """Run the facade and the bare server until the block ends; yields their ports."""
    async with (
        serving(workspace, "plaudit", "api") as port,
        serving(workspace, "benchmarks.subjects.bare_facade") as bare_port,
    ):
        yield port, bare_port


async def compare_rates(title: str, against: str, goal: float, ours: Rate, bare: Rate, size: Size) -> Comparison:
    """Measure requests per second of the facade and of the bare server, in turns, after a warm-up."""
    for warm_up in (ours, bare):
        await warm_up(seconds=size.seconds / 4)
    measures = {title: partial(ours, seconds=size.seconds), "bare": partial(bare, seconds=size.seconds)}
    rates = await in_turns(size.runs, measures)
    absolute = f"{per_second(rates[title])} against {per_second(rates['bare'])}"
    return Comparison(title, against, paired(rates[title], rates["bare"]), goal, absolute=absolute)


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Measure the facade and the bare server in turns."""
    async with servers.workspace() as workspace:
        await rate_products(workspace, 100)
        async with serving_both(workspace) as (port, bare_port):
            ours = partial(rate, port, lambda number: post("/api/customerReviews", submission(number)), status=202)
            bare = partial(rate, bare_port, lambda number: post("/publish", submission(number)), status=202)
            limit = "limit: a bare endpoint that publishes with acks=all"
            comparisons = [await compare_rates("Facade, POST one review", limit, 0.85, ours, bare, size)]
            for ids, goal in ((1, 0.80), (100, 0.60)):
                body = rating_request(ids)
                ours = partial(rate, port, always(post("/api/rating/entityRating", body)), status=200)
                bare = partial(rate, bare_port, always(post("/ratings", body)), status=200)
                limit = "limit: a bare endpoint that returns the same JSON"
                comparisons.append(await compare_rates(f"Facade, entityRating of {ids}", limit, goal, ours, bare, size))
    return comparisons
