"""Ingest of reviews from Kafka into MongoDB, with the service's indexes.

All reviews are in Kafka before a program starts. Its rate is measured by the number of documents in MongoDB, from the
first one seen until all are stored, so it excludes the start. Slow alternatives get fewer reviews.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.comparison import Comparison, paired, per_second, print_round, turns
from benchmarks.samples import submissions
from benchmarks.servers import Servers, Workspace
from benchmarks.sizes import Size
from messaging.topics import Topic

ALTERNATIVES_PYTHON: Final = f"{sys.prefix}-peer/bin/python"
"""The Python of the virtual environment for alternatives, which `make bench` sets up."""

OURS: Final = "ours"
_BARE: Final = "a bare loop, one step after the other"
_WARM_UP: Final = 5_000
_ONE_BY_ONE: Final = 300
"""Reviews for programs that insert them one by one: a second or two."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A program that ingests reviews, the goal for the ratio to it, and the most reviews that a slow one gets."""

    command: tuple[str, ...]
    goal: float | None
    most: int | None = None
    python: str = sys.executable


SUBJECTS: Final = {
    # Ours runs between the two with the closest results.
    _BARE: Subject(("benchmarks.subjects.bare_ingest",), 1.0),
    OURS: Subject(("plaudit", "worker"), None),
    "limit: a bare loop with the next fetch under way": Subject(("benchmarks.subjects.pipelined_ingest",), 0.85),
    "alternative: the usual FastStream handler": Subject(("benchmarks.subjects.faststream_ingest",), 6.0, _ONE_BY_ONE),
    "alternative: MongoDB's sink of Kafka Connect": Subject(("benchmarks.subjects.connect_sink",), 1.5, 40_000),
    "alternative: the usual agent of faust-streaming": Subject(
        ("benchmarks.subjects.faust_ingest", "worker"), 3.0, _ONE_BY_ONE, ALTERNATIVES_PYTHON
    ),
}


@asynccontextmanager
async def published(servers: Servers, count: int) -> AsyncIterator[Workspace]:
    """A workspace with `count` submissions in Kafka."""
    async with servers.workspace() as workspace:
        workspace.publish(Topic.REVIEW_SUBMISSIONS, submissions(count))
        yield workspace


async def ingest_rate(workspace: Workspace, subject: Subject, count: int) -> float:
    """Reviews per second, from the first stored one to the last, in a separate database."""
    count = min(count, subject.most or count)
    async with workspace.with_new_database() as own:
        with own.running(*subject.command, python=subject.python) as process:
            return await own.stored_rate("reviews", count, process)


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Ingest the same reviews with each program, in turns."""
    async with published(servers, _WARM_UP) as workspace:
        for name in (OURS, _BARE):
            await ingest_rate(workspace, SUBJECTS[name], _WARM_UP)
    rates: dict[str, list[float]] = {name: [] for name in SUBJECTS}
    for number, order in enumerate(turns(size.runs, SUBJECTS)):
        async with published(servers, size.ingest) as workspace:
            for name in order:
                rates[name].append(await ingest_rate(workspace, SUBJECTS[name], size.ingest))
        print_round(number, size.runs, rates)
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
