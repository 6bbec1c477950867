"""Counts over all reviews of a store."""

import asyncio

import pytest
from pymongo.errors import AutoReconnect, ExecutionTimeout, NetworkTimeout, PyMongoError

from domain.feed import MOST_BYTES, feed_bytes
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from storage.database import connect
from storage.reviews.extents import Extent, Extents
from storage.reviews.search import ReviewSearch
from tests.support.app import NOWHERE, facade_services


@pytest.mark.parametrize("error", [ExecutionTimeout("slow"), NetworkTimeout("slow"), AutoReconnect("away")], ids=repr)
async def test_slow_feed_count_does_not_fail_others(monkeypatch: pytest.MonkeyPatch, error: PyMongoError) -> None:
    client, database = connect(f"mongodb://{NOWHERE}", "nothing", timeout=0)
    services = facade_services(database, Publisher(KafkaConnection(NOWHERE)))

    async def extent(_: Extents, search: ReviewSearch) -> Extent:
        if search.store_id == "slow":
            raise error
        return Extent(1, 100)

    async def object_bytes(_: Extents, search: ReviewSearch) -> int:
        return 7

    monkeypatch.setattr(Extents, "extent", extent)
    monkeypatch.setattr(Extents, "object_bytes", object_bytes)
    async with client:
        extents = map(services.store_counts.extent_of_feed, ("small", "slow", "other"))
        small, slow, other = await asyncio.gather(*extents, return_exceptions=True)
    if type(error) is AutoReconnect:
        assert [small, slow, other] == [error] * 3
        return
    assert (small, other) == (Extent(1, 100, object_bytes=7), Extent(1, 100, object_bytes=7))
    assert isinstance(slow, Extent)
    assert feed_bytes(*slow) > MOST_BYTES
