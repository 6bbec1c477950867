"""Approvals, including the update of ratings.

The rate is measured by the offsets that the last consumer commits; by then statuses, ratings, audit entries and events
are stored. For the bare loop it is measured by its own offsets.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.write_concern import WriteConcern

from benchmarks.comparison import Comparison, in_turns, paired, per_second
from benchmarks.samples import OBJECTS, approvals, stored_review
from benchmarks.servers import Servers, Workspace
from benchmarks.sizes import Size
from messaging.topics import Topic
from storage.database import Document
from storage.indexes import ensure_indexes

_AT_ONCE: Final = 5_000
_HOT_SHARE: Final = 0.5
_FEWEST: Final = 5_000
"""A rate needs more than one batch."""


async def store(
    workspace: Workspace,
    first: int,
    count: int,
    *,
    objects: int = OBJECTS,
    status: int = 0,
    entity_id: str | None = None,
) -> None:
    """Insert `count` reviews into the database, about `objects` objects or about one."""
    durable = workspace.database["reviews"]
    fast = durable.with_options(write_concern=WriteConcern(1))
    end = first + count
    *most, last = (range(start, min(start + _AT_ONCE, end)) for start in range(first, end, _AT_ONCE))
    batches = iter(most)

    async def insert(numbers: range, reviews: AsyncCollection[Document]) -> None:
        documents = [stored_review(number, objects, status, entity_id=entity_id) for number in numbers]
        await reviews.insert_many(documents, ordered=False)

    async def insert_most() -> None:
        for numbers in batches:
            await insert(numbers, fast)

    await asyncio.gather(insert_most(), insert_most())
    # The last insert waits until it is durable, and so all are: otherwise a worker might not see them yet.
    await insert(last, durable)


@asynccontextmanager
async def indexed_afterwards(workspace: Workspace) -> AsyncIterator[None]:
    """Drop the indexes of reviews while the block inserts many, and create them again at its end."""
    await workspace.database["reviews"].drop_indexes()
    yield
    await ensure_indexes(workspace.database, remember_days=workspace.settings.remember_days)


async def our_rate(servers: Servers, count: int, *, objects: int = OBJECTS) -> float:
    """Approvals per second by the worker, until the ratings are updated."""
    async with servers.workspace() as workspace:
        await store(workspace, 0, count, objects=objects)
        await workspace.relay()
        workspace.publish(Topic.MODERATION_COMMANDS, approvals(0, count, objects))
        with workspace.running("plaudit", "worker") as process:
            group = workspace.topic(Topic.REVIEW_CHANGES)
            return await workspace.committed_rate(group, Topic.REVIEW_CHANGES, count, process)


async def bare_rate(servers: Servers, count: int) -> float:
    """Status updates per second by the bare loop."""
    async with servers.workspace() as workspace:
        await store(workspace, 0, count)
        workspace.publish(Topic.MODERATION_COMMANDS, approvals(0, count))
        with workspace.running("benchmarks.subjects.bare_moderation") as process:
            return await workspace.committed_rate("bare", Topic.MODERATION_COMMANDS, count, process)


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Approve reviews of many objects, also by the bare loop, and half as many reviews of one object."""
    count = size.moderation
    await our_rate(servers, _FEWEST)
    await bare_rate(servers, _FEWEST)
    rates = await in_turns(
        size.runs,
        {
            "bare": partial(bare_rate, servers, count),
            "spread": partial(our_rate, servers, count),
            "hot": partial(our_rate, servers, max(_FEWEST, int(count * _HOT_SHARE)), objects=1),
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
