"""Reviews from Kafka to MongoDB: rules applied, indexes as in production."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.comparison import Comparison, paired, per_second
from benchmarks.ground import Ground
from benchmarks.samples import submissions
from messaging.topics import Topic


@dataclass(frozen=True, slots=True)
class Subject:
    """A program that takes reviews in, and how many of the whole it gets: slow ones show their rate by fewer."""

    name: str
    command: tuple[str, ...]
    goal: float
    share: float = 1.0


OURS = ("plaudit", "worker")
SUBJECTS = (
    Subject("a bare loop, one step after the other", ("benchmarks.subjects.bare_ingest",), 1.0),
    Subject("limit: a bare loop with the next fetch under way", ("benchmarks.subjects.pipelined_ingest",), 0.85),
    Subject("the usual FastStream handler", ("benchmarks.subjects.faststream_ingest",), 6.0, 0.05),
)


async def ingest_rate(ground: Ground, command: tuple[str, ...], count: int) -> float:
    """Reviews a second."""
    async with ground.place() as place:
        place.publish(Topic.REVIEW_SUBMISSIONS, submissions(count))
        with place.running(*command) as process:
            return await place.stored_rate("reviews", count, process)


async def compare(ground: Ground, runs: int, count: int) -> list[Comparison]:
    """Take `count` reviews in, by each program in turn, `runs` times."""
    ours: list[float] = []
    theirs: dict[str, list[float]] = {subject.name: [] for subject in SUBJECTS}
    for _ in range(runs):
        ours.append(await ingest_rate(ground, OURS, count))
        for subject in SUBJECTS:
            theirs[subject.name].append(await ingest_rate(ground, subject.command, int(count * subject.share)))
    return [
        Comparison(
            f"Ingest, {count:,} reviews",
            subject.name,
            paired(ours, theirs[subject.name]),
            subject.goal,
            absolute=f"{per_second(ours)} against {per_second(theirs[subject.name])}",
        )
        for subject in SUBJECTS
    ]
