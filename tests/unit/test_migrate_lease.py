"""A migration renews its lease while it reads the topic of reviews, and ends once it has lost it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from plaudit.cli.command_line import CommandError
from plaudit.cli.terminal import Terminal
from plaudit.config import Settings
from plaudit.server_settings import KafkaSettings
from plaudit.tools import migrate
from plaudit.tools.migration_lease import Turn

BATCHES = 3


class Reader:
    """A topic without reviews, in batches."""

    @classmethod
    @asynccontextmanager
    async def open(cls, *_: object) -> AsyncIterator["Reader"]:
        yield cls()

    async def batches(self, *_: object) -> AsyncIterator[list[Any]]:
        for _batch in range(BATCHES):
            yield []


@pytest.mark.parametrize("renewed", [True, False])
async def test_the_lease_is_renewed_for_each_batch_of_records(
    monkeypatch: pytest.MonkeyPatch, *, renewed: bool
) -> None:
    hold = AsyncMock(return_value=renewed)
    monkeypatch.setattr(Turn, "hold", hold)
    monkeypatch.setattr(migrate, "TopicReader", Reader)
    monkeypatch.setattr(migrate, "admin_client", Reader.open)
    monkeypatch.setattr(migrate, "partitions_of", AsyncMock(return_value=[]))
    nothing = cast(Any, None)
    settings = Settings(kafka=KafkaSettings(bootstrap_servers="localhost:1"))
    run = migrate.Migration(settings, nothing, nothing, Terminal(quiet=True), Turn(nothing, "", Terminal(quiet=True)))
    if renewed:
        assert await run._published_reviews(["r"]) == {}
    else:
        with pytest.raises(CommandError, match="blocked for a minute"):
            await run._published_reviews(["r"])
    assert hold.await_count == (BATCHES if renewed else 1)
