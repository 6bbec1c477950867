"""PyMongo's asynchronous API against Motor, its predecessor: the same query, in turns."""

import asyncio
from functools import partial
from time import perf_counter
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClient

from benchmarks.comparison import Comparison, in_turns, paired, per_second
from benchmarks.moderation import store
from benchmarks.servers import Servers
from benchmarks.sizes import Size

_CLIENTS = 16


async def _rate(collection: Any, seconds: float) -> float:
    end, done = perf_counter() + seconds, 0

    async def client() -> None:
        nonlocal done
        while perf_counter() < end:
            await collection.find({"storeId": "open"}).sort("createdDate", -1).limit(20).to_list(20)
            done += 1

    started = perf_counter()
    await asyncio.gather(*(client() for _ in range(_CLIENTS)))
    return done / (perf_counter() - started)


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Pages of 20 reviews, requested by 16 concurrent tasks of one process with the same read concern."""
    async with servers.workspace() as workspace:
        await store(workspace, 0, 5_000)
        motor: AsyncIOMotorClient[Any] = AsyncIOMotorClient(servers.mongo, tz_aware=True)
        database = motor.get_database(workspace.settings.mongo.database, read_concern=workspace.database.read_concern)
        collections = {"PyMongo async": workspace.database["reviews"], "Motor": database["reviews"]}
        for collection in collections.values():
            await _rate(collection, size.seconds / 4)
        rates = await in_turns(
            size.runs, {name: partial(_rate, collection, size.seconds) for name, collection in collections.items()}
        )
        motor.close()
    ours, theirs = rates.values()
    absolute = f"{per_second(ours)} against {per_second(theirs)}"
    return [
        Comparison("Driver: pages of 20 reviews by PyMongo async", "Motor", paired(ours, theirs), absolute=absolute)
    ]
