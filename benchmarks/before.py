"""This version of the service against an earlier one: ingest, moderation and the facade, in turns.

    python -m benchmarks.before COMMIT [--runs 5]

Both work on the same servers, each run at a place of its own, which this version prepares: the earlier one has to be
near enough for that.
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
from benchmarks.facade import question, rate_products, serving, submission
from benchmarks.ground import Ground, ground
from benchmarks.http_load import post, rate
from benchmarks.ingest import OURS, SUBJECTS, ingest_rate, published
from benchmarks.moderation import our_rate
from benchmarks.progress import tell
from tests.chaos.versions import version_before

_THIS: Final = "this"
_BEFORE: Final = "before"
_REVIEWS: Final = 100_000
_APPROVALS: Final = 20_000
_SECONDS: Final = 3.0

Measure = Callable[[Ground], Awaitable[float]]


async def ingested(ground: Ground) -> float:
    """Reviews a second from Kafka to MongoDB."""
    async with published(ground, _REVIEWS) as place:
        return await ingest_rate(place, SUBJECTS[OURS], _REVIEWS)


async def approved(ground: Ground) -> float:
    """Approvals a second, with their ratings."""
    return await our_rate(ground, _APPROVALS)


async def posted(ground: Ground) -> float:
    """Requests a second, each with a review."""
    return await _served(ground, lambda number: post("/api/customerReviews", submission(number)), status=202)


async def asked(ground: Ground) -> float:
    """Requests a second, each for the ratings of 100 objects."""
    request = post("/api/rating/entityRating", question(100))
    return await _served(ground, lambda _: request, status=200)


async def _served(ground: Ground, request: Callable[[int], bytes], *, status: int) -> float:
    async with ground.place() as place:
        await rate_products(place, 100)
        async with serving(place, "plaudit", "api") as port:
            await rate(port, request, seconds=_SECONDS, status=status)
            return await rate(port, request, seconds=_SECONDS, status=status)


MEASURES: Final[dict[str, Measure]] = {
    "Ingest": ingested,
    "Moderation": approved,
    "Facade, POST one review": posted,
    "Facade, entityRating of 100": asked,
}


async def compare(ground: Ground, commit: str, runs: int) -> list[Comparison]:
    """Measure both versions."""
    version = version_before(commit, ground.folder)
    # The folder that the command was given in comes first otherwise.
    earlier = replace(ground, version={**version.environment, "PYTHONSAFEPATH": "1"})
    comparisons = []
    for name, measure in MEASURES.items():
        tell(name)
        rates = await in_turns(runs, {_BEFORE: partial(measure, earlier), _THIS: partial(measure, ground)})
        absolute = f"{per_second(rates[_THIS])} against {per_second(rates[_BEFORE])}"
        comparisons.append(Comparison(name, version.name, paired(rates[_THIS], rates[_BEFORE]), absolute=absolute))
    return comparisons


async def _main(commit: str, runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with ground(Path(folder)) as servers:
            for comparison in await compare(servers, commit, runs):
                tell(str(comparison))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before", description=__doc__)
    parser.add_argument("commit", help="the earlier version")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the service has it
        runner.run(_main(arguments.commit, arguments.runs))
