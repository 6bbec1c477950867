"""A migration renews its lease while it reads the topic of reviews, and ends when it has lost it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.server_settings import KafkaSettings
from plaudit.terminal import Terminal
from plaudit.tools import migrate
from plaudit.tools.migration_lease import MigrationLease

BATCHES = 3


class Reader:
    """A topic that yields empty batches."""

    @classmethod
    @asynccontextmanager
    async def open(cls, *_: object) -> AsyncIterator["Reader"]:
        yield cls()

    async def batches(self, *_: object) -> AsyncIterator[list[Any]]:
        for _batch in range(BATCHES):
            yield []


@pytest.mark.parametrize("renewed", [True, False])
async def test_lease_is_renewed_for_each_batch(monkeypatch: pytest.MonkeyPatch, *, renewed: bool) -> None:
    is_still_mine = AsyncMock(return_value=renewed)
    monkeypatch.setattr(MigrationLease, "is_still_mine", is_still_mine)
    monkeypatch.setattr(migrate, "TopicReader", Reader)
    monkeypatch.setattr(migrate, "admin_client", Reader.open)
    monkeypatch.setattr(migrate, "partitions_of", AsyncMock(return_value=[]))
    nothing = cast(Any, None)
    settings = Settings(kafka=KafkaSettings(bootstrap_servers="localhost:1"))
    run = migrate.Migration(settings, nothing, nothing, Terminal(quiet=True), MigrationLease(nothing, ""))
    if renewed:
        assert await run._published_reviews(["r"]) == {}
    else:
        with pytest.raises(CommandError, match="blocked for a minute"):
            await run._published_reviews(["r"])
    assert is_still_mine.await_count == (BATCHES if renewed else 1)
