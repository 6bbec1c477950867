"""The ids of objects whose reviews changed, read and written in batches."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from typing import Final

import orjson

from api.services import Services
from storage.reviews.late import shortly_before

CHANGES_BYTES: Final = 1024 * 1024
"""Bytes for ids in memory: those being written, and those that the three queries have read meanwhile."""


async def changed_objects(services: Services, moment: datetime, stores: Collection[str] | None) -> AsyncIterator[str]:
    """The ids of objects whose reviews or ratings, in these stores (None: anywhere), changed at this moment or later,
    or shortly before; ascending, without duplicates."""
    # A change may become visible after its timestamp: a client that polls would miss it.
    moment = shortly_before(moment)
    found = await asyncio.gather(
        services.reviews.entities_reviewed_since(moment, stores),
        services.audit.entities_moderated_since(moment, stores),
        services.ratings.entities_recounted_since(moment, stores),
    )
    async for id in merged(found):
        yield id


async def merged(found: Sequence[AsyncIterator[str]]) -> AsyncIterator[str]:
    """The ids of several queries, each ascending, as one: ascending, without duplicates."""
    heads = await asyncio.gather(*(anext(each, None) for each in found))
    while present := [id for id in heads if id is not None]:
        lowest = min(present)
        yield lowest
        for index, each in enumerate(found):
            if heads[index] == lowest:
                heads[index] = await anext(each, None)


async def json_array(batches: AsyncIterator[Sequence[str]]) -> AsyncIterator[bytes]:
    """A JSON array of all ids, in pieces."""
    yield orjson.dumps(await anext(batches, []))[:-1]
    async for ids in batches:
        yield b"," + orjson.dumps(ids)[1:-1]
    yield b"]"
