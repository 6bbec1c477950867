"""The settled dead letters that checks count."""

from datetime import UTC, datetime, timedelta

from storage.database import Database
from storage.dead_letters_replays import ReplayRepository


async def test_only_the_latest_settled_letters_are_read(database: Database) -> None:
    now = datetime.now(UTC)
    replays = ReplayRepository(database)
    for age in (2, 0, 1):
        await replays.remember({f"a/0-{age}-1": f"a/0-{age}-1"}, now - timedelta(days=age))
    await replays.discard(["a/0-3-1"], now - timedelta(days=3))
    assert await replays.settled(2) == ["a/0-0-1", "a/0-1-1"]
    assert len(await replays.settled(9)) == 4
