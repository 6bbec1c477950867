"""Ingest, moderation and the facade of this version against those of an earlier one, in turns.

    python -m benchmarks.before COMMIT [--runs 5]

Both use the same servers. Each measurement has new topics and a new database, which this version prepares, so the
earlier version must be compatible with its schema.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.comparison import Comparison, in_turns, paired, per_second
from benchmarks.facade import always, rate_products, rating_request, serving, submission
from benchmarks.http_load import post, rate
from benchmarks.ingest import OURS, SUBJECTS, ingest_rate, published
from benchmarks.moderation import our_rate
from benchmarks.progress import print_progress
from benchmarks.servers import Servers, running_servers
from tests.chaos.versions import version_before

_THIS: Final = "this"
_BEFORE: Final = "before"
_REVIEWS: Final = 100_000
_APPROVALS: Final = 20_000
_SECONDS: Final = 3.0

Measure = Callable[[Servers], Awaitable[float]]


async def measure_ingest(servers: Servers) -> float:
    """Reviews per second from Kafka to MongoDB."""
    async with published(servers, _REVIEWS) as workspace:
        return await ingest_rate(workspace, SUBJECTS[OURS], _REVIEWS)


async def _served(servers: Servers, request: Callable[[int], bytes], status: int) -> float:
    """Requests per second to the facade."""
    async with servers.workspace() as workspace:
        await rate_products(workspace, 100)
        async with serving(workspace, "plaudit", "api") as port:
            await rate(port, request, seconds=_SECONDS, status=status)
            return await rate(port, request, seconds=_SECONDS, status=status)


MEASURES: Final[dict[str, Measure]] = {
    "Ingest": measure_ingest,
    "Moderation": partial(our_rate, count=_APPROVALS),
    "Facade, POST one review": partial(
        _served, request=lambda number: post("/api/customerReviews", submission(number)), status=202
    ),
    "Facade, entityRating of 100": partial(
        _served, request=always(post("/api/rating/entityRating", rating_request(100))), status=200
    ),
}


async def compare(servers: Servers, commit: str, runs: int) -> list[Comparison]:
    """Measure both versions in turns."""
    version = version_before(commit, servers.folder)
    # Otherwise Python imports from the current folder first, which has this version.
    earlier = replace(servers, version={**version.environment, "PYTHONSAFEPATH": "1"})
    comparisons = []
    for name, measure in MEASURES.items():
        print_progress(name)
        rates = await in_turns(runs, {_BEFORE: partial(measure, earlier), _THIS: partial(measure, servers)})
        absolute = f"{per_second(rates[_THIS])} against {per_second(rates[_BEFORE])}"
        comparisons.append(Comparison(name, version.name, paired(rates[_THIS], rates[_BEFORE]), absolute=absolute))
    return comparisons


async def _main(commit: str, runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with running_servers(Path(folder)) as servers:
            for comparison in await compare(servers, commit, runs):
                print_progress(str(comparison))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before", description=__doc__)
    parser.add_argument("commit", help="commit of the earlier version")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the same event loop as the service
        runner.run(_main(arguments.commit, arguments.runs))
