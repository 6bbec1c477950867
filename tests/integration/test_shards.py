"""The listener that reports commands without a shard key, on commands that are really sent."""

from pathlib import Path

import pytest

from storage.indexes import ensure_indexes
from storage.outcomes import OutcomeRepository
from storage.reviews import ReviewRepository
from storage.shards import SHARD_KEYS, shard
from tests.support import targeting
from tests.support.service import Servers, own_database
from tests.support.targeting import found_in


async def test_a_query_without_a_place_is_told_unless_it_may_scatter(
    servers: Servers, untargeted_commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(reviews: ReviewRepository, outcomes: OutcomeRepository) -> list[str]:
        await reviews.entities(["a", "b"])
        await outcomes.of_command("a", 10)
        await reviews.by_user("ann")
        return [str(found) for found in found_in(untargeted_commands)]

    async with own_database(servers) as database:
        repositories = ReviewRepository(database), OutcomeRepository(database)
        assert await ask(*repositories) == []
        monkeypatch.setattr(targeting, "SCATTERING", {})
        assert await ask(*repositories) == ["reviews.ReviewRepository.by_user goes to every shard: reviews by userId"]
    untargeted_commands.unlink()


async def test_each_key_that_is_not_hashed_begins_an_index(servers: Servers) -> None:
    async with own_database(servers) as database:
        await ensure_indexes(database, remember_days=7)
        assert await shard(database) == []  # a replica set has no shards
        for name, key in SHARD_KEYS.items():
            there = [dict(index["key"]) for index in (await database[name].index_information()).values()]
            begins = [list(each.items())[: len(key)] for each in there]
            assert "hashed" in key.values() or list(key.items()) in begins
