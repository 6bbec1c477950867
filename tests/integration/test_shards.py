"""The listener that reports commands without a shard key, on commands that are really sent."""

from pathlib import Path

import pytest

from storage.database import Database
from storage.indexes import ensure_indexes
from storage.outcomes import OutcomeRepository
from storage.reviews.repository import ReviewRepository
from storage.shards import SHARD_KEYS, shard
from tests.support import targeting
from tests.support.targeting import found_in


async def test_untargeted_query_is_reported_unless_it_may_scatter(
    database: Database, untargeted_commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(reviews: ReviewRepository, outcomes: OutcomeRepository) -> list[str]:
        await reviews.entities(["a", "b"])
        await outcomes.of_command("a", 10)
        await reviews.by_user("ann")
        return [str(found) for found in found_in(untargeted_commands)]

    repositories = ReviewRepository(database), OutcomeRepository(database)
    assert await ask(*repositories) == []
    monkeypatch.setattr(targeting, "SCATTERING", {})
    assert await ask(*repositories) == [
        "reviews.repository.ReviewRepository.by_user goes to every shard: reviews by userId"
    ]
    untargeted_commands.unlink()


async def test_ranged_shard_keys_are_index_prefixes(database: Database) -> None:
    await ensure_indexes(database, remember_days=7)
    assert await shard(database) == []  # a replica set has no shards
    for name, key in SHARD_KEYS.items():
        index_keys = [dict(index["key"]) for index in (await database[name].index_information()).values()]
        prefixes = [list(each.items())[: len(key)] for each in index_keys]
        assert "hashed" in key.values() or list(key.items()) in prefixes
