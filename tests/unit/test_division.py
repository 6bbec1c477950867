"""How the topic of changes is divided, as those who publish to it know."""

from __future__ import annotations

import asyncio

import pytest

from messaging.kafka import division
from messaging.kafka.connection import BrokerAwayError
from messaging.kafka.division import KNOWN_S, Division
from storage.topics_growth import Growth


class Asked:
    """A database that tells this growth, or is away, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.growth: Growth | None = None
        self.is_away = False
        self.times = 0
        self.now = 1_000.0
        monkeypatch.setattr(division, "monotonic", lambda: self.now)

    async def __call__(self) -> Growth | None:
        self.times += 1
        if self.is_away:
            raise ConnectionError("away")
        return self.growth


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


async def test_a_topic_that_never_grew_has_the_partitions_that_there_are(asked: Asked) -> None:
    known = Division(asked)
    assert await known.count() is None
    await known.check()
    assert asked.times == 1


async def test_while_it_grows_nothing_ordered_is_published(asked: Asked) -> None:
    known = Division(asked)
    await known.check()
    asked.growth = Growth(4, to=8)
    asked.now += 5
    with pytest.raises(BrokerAwayError, match="growing to 8 partitions"):
        await known.check()
    assert not await known.is_settled()
    assert await known.count() == 4
    asked.growth = Growth(8)
    asked.now += 1
    assert await known.is_settled()
    assert await known.count() == 8


async def test_what_is_known_is_good_for_a_while_without_the_database(asked: Asked) -> None:
    known = Division(asked)
    asked.growth = Growth(8)
    assert await known.count() == 8
    asked.is_away = True
    asked.now += KNOWN_S - 0.5
    await known.check()
    asked.now += 1
    with pytest.raises(BrokerAwayError, match="it isn't known how the topic of changes is divided"):
        await known.check()
    assert await known.count() == 8
    asked.is_away = False
    asked.now += 1
    await known.check()


async def test_what_was_never_known_is_asked_for_once_by_all(asked: Asked) -> None:
    asked.is_away = True
    known = Division(asked)
    assert await asyncio.gather(*(known.is_settled() for _ in range(50))) == [False] * 50
    assert await known.count() is None
    assert asked.times == 1
    asked.now += 1
    assert not await known.is_settled()
    assert asked.times == 2
