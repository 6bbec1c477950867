"""Reviews from Kafka to MongoDB: rules applied, indexes as in production.

All reviews are in Kafka before a program starts. Its rate is that of MongoDB's number of documents, from the first that
is seen until all are there, so that no start is in it. Slow peers are done after fewer reviews.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.comparison import Comparison, paired, per_second, tell_round, turns
from benchmarks.ground import Ground, Place
from benchmarks.samples import submissions
from benchmarks.sizes import Size
from messaging.topics import Topic

PEERS: Final = f"{sys.prefix}-peer/bin/python"
"""The Python of the environment of peers, which `make bench` sets up."""

OURS: Final = "ours"
_BARE: Final = "a bare loop, one step after the other"
_WARM_UP: Final = 5_000
_ONE_BY_ONE: Final = 300
"""Reviews for those that insert one by one: a second or two."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A program that takes reviews in, and how many it gets at most: slow ones show their rate by fewer."""

    command: tuple[str, ...]
    goal: float | None
    most: int | None = None
    python: str = sys.executable


SUBJECTS: Final = {
    # Ours between the two that are closest to it.
    _BARE: Subject(("benchmarks.subjects.bare_ingest",), 1.0),
    OURS: Subject(("plaudit", "worker"), None),
    "limit: a bare loop with the next fetch under way": Subject(("benchmarks.subjects.pipelined_ingest",), 0.85),
    "peer: the usual FastStream handler": Subject(("benchmarks.subjects.faststream_ingest",), 6.0, _ONE_BY_ONE),
    "peer: MongoDB's own sink of Kafka Connect": Subject(("benchmarks.subjects.connect_sink",), 1.5, 40_000),
    "peer: the usual agent of faust-streaming": Subject(
        ("benchmarks.subjects.faust_ingest", "worker"), 3.0, _ONE_BY_ONE, PEERS
    ),
}


@asynccontextmanager
async def published(ground: Ground, count: int) -> AsyncIterator[Place]:
    """A place with so many submissions in Kafka."""
    async with ground.place() as place:
        place.publish(Topic.REVIEW_SUBMISSIONS, submissions(count))
        yield place


async def ingest_rate(place: Place, subject: Subject, count: int) -> float:
    """Reviews a second, from the first that is stored to the last, in a database of its own."""
    count = min(count, subject.most or count)
    async with place.beside() as beside:
        with beside.running(*subject.command, python=subject.python) as process:
            return await beside.stored_rate("reviews", count, process)


async def compare(ground: Ground, size: Size) -> list[Comparison]:
    """Take the same reviews in, by each program in turn."""
    async with published(ground, _WARM_UP) as place:
        for name in (OURS, _BARE):
            await ingest_rate(place, SUBJECTS[name], _WARM_UP)
    rates: dict[str, list[float]] = {name: [] for name in SUBJECTS}
    for number, order in enumerate(turns(size.runs, SUBJECTS)):
        async with published(ground, size.ingest) as place:
            for name in order:
                rates[name].append(await ingest_rate(place, SUBJECTS[name], size.ingest))
        tell_round(number, size.runs, rates)
    ours = rates.pop(OURS)
    return [
        Comparison(
            f"Ingest, {size.ingest:,} reviews",
            name,
            paired(ours, theirs),
            SUBJECTS[name].goal,
            absolute=f"{per_second(ours)} against {per_second(theirs)}",
        )
        for name, theirs in rates.items()
    ]
