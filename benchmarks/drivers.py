"""PyMongo's asynchronous API against Motor, which it replaces: the same query, side by side."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClient

from benchmarks.comparison import Comparison, paired, per_second
from benchmarks.ground import Ground
from benchmarks.moderation import store

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


async def compare(ground: Ground, runs: int, seconds: float) -> list[Comparison]:
    """Pages of twenty reviews, by sixteen clients of one process."""
    async with ground.place() as place:
        await store(place, 0, 5_000)
        motor: AsyncIOMotorClient[Any] = AsyncIOMotorClient(ground.mongo, tz_aware=True)
        ours, theirs = [], []
        for _ in range(runs):
            ours.append(await _rate(place.database["reviews"], seconds))
            theirs.append(await _rate(motor[place.settings.mongo.database]["reviews"], seconds))
        motor.close()
    absolute = f"{per_second(ours)} against {per_second(theirs)}"
    return [Comparison("Pages of 20 reviews by PyMongo async", "Motor", paired(ours, theirs), absolute=absolute)]
