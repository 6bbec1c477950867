"""Approvals, with the ratings following.

The rate is that of the offsets that the last consumer in the chain commits, by when statuses, ratings, audit and events
are stored; for the bare loop the same of its own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.write_concern import WriteConcern

from benchmarks.comparison import Comparison, in_turns, paired, per_second
from benchmarks.ground import Ground, Place
from benchmarks.samples import OBJECTS, approvals, stored_review
from benchmarks.sizes import Size
from messaging.topics import Topic
from storage.database import Document
from storage.indexes import ensure_indexes

_AT_ONCE: Final = 5_000
_HOT_SHARE: Final = 0.5
_FEWEST: Final = 5_000
"""A few batches: a rate needs more than one."""


async def store(
    place: Place, first: int, count: int, *, objects: int = OBJECTS, status: int = 0, entity_id: str | None = None
) -> None:
    """Have so many reviews in the database, of so many objects or of one."""
    lasting = place.database["reviews"]
    quick = lasting.with_options(write_concern=WriteConcern(1))
    end = first + count
    *most, last = (range(start, min(start + _AT_ONCE, end)) for start in range(first, end, _AT_ONCE))
    left = iter(most)

    async def insert(numbers: range, reviews: AsyncCollection[Document]) -> None:
        documents = [stored_review(number, objects, status, entity_id=entity_id) for number in numbers]
        await reviews.insert_many(documents, ordered=False)

    async def insert_most() -> None:
        for numbers in left:
            await insert(numbers, quick)

    await asyncio.gather(insert_most(), insert_most())
    # The last waits for the disk, and with it all: else a worker doesn't see them yet.
    await insert(last, lasting)


@asynccontextmanager
async def indexed_afterwards(place: Place) -> AsyncIterator[None]:
    """Reviews have no indexes while the block stores a million of them, and all of them afterwards."""
    await place.database["reviews"].drop_indexes()
    yield
    await ensure_indexes(place.database, remember_days=place.settings.remember_days)


async def our_rate(ground: Ground, count: int, *, objects: int = OBJECTS) -> float:
    """Approvals a second until the ratings have followed."""
    async with ground.place() as place:
        await store(place, 0, count, objects=objects)
        await place.relay()
        place.publish(Topic.MODERATION_COMMANDS, approvals(0, count, objects))
        with place.running("plaudit", "worker") as process:
            group = place.topic(Topic.REVIEW_CHANGES)
            return await place.committed_rate(group, Topic.REVIEW_CHANGES, count, process)


async def bare_rate(ground: Ground, count: int) -> float:
    """Status updates a second by a bare loop."""
    async with ground.place() as place:
        await store(place, 0, count)
        place.publish(Topic.MODERATION_COMMANDS, approvals(0, count))
        with place.running("benchmarks.subjects.bare_moderation") as process:
            return await place.committed_rate("bare", Topic.MODERATION_COMMANDS, count, process)


async def compare(ground: Ground, size: Size) -> list[Comparison]:
    """Approve reviews of many objects, by the bare loop, too; and half as many of one object."""
    count = size.moderation
    await our_rate(ground, _FEWEST)
    await bare_rate(ground, _FEWEST)
    rates = await in_turns(
        size.runs,
        {
            "bare": partial(bare_rate, ground, count),
            "spread": partial(our_rate, ground, count),
            "hot": partial(our_rate, ground, max(_FEWEST, int(count * _HOT_SHARE)), objects=1),
        },
    )
    spread, hot, bare = rates["spread"], rates["hot"], rates["bare"]
    return [
        Comparison(
            f"Moderation, {size.runs * count:,} approvals in {size.runs} turns",
            "limit: a bare loop of status updates, no rating",
            paired(spread, bare),
            0.75,
            absolute=f"{per_second(spread)} against {per_second(bare)}",
        ),
        Comparison(
            "Hot object, all approvals on one",
            f"the same over {OBJECTS:,} objects",
            paired(hot, spread),
            0.8,
            absolute=f"{per_second(hot)} against {per_second(spread)}",
        ),
    ]
