"""Partition counts of topics, as publishers know them."""

import asyncio

import pytest

from messaging.kafka import partition_counts
from messaging.kafka.connection import BrokerAwayError
from messaging.kafka.partition_counts import KNOWN_GROWING_S, KNOWN_S, SWITCHED_S, Growth, PartitionCounts, Step

CHANGES, SUBMISSIONS = "shop.review-changes", "shop.review-submissions"
BOTH = (CHANGES, SUBMISSIONS)


class GrowthDatabase:
    """A clock, and a database with the growth of the topic of changes and of another topic, or unavailable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.growth: Growth | None = None
        self.other: Growth | None = None
        self.is_away = False
        self.queries = 0
        self.now = 1_000.0
        monkeypatch.setattr(partition_counts, "monotonic", lambda: self.now)
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    async def __call__(self) -> dict[str, Growth]:
        self.queries += 1
        if self.is_away:
            raise ConnectionError("away")
        return {name: each for name, each in ((CHANGES, self.growth), (SUBMISSIONS, self.other)) if each}

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await settle()

    async def advance(self, known: PartitionCounts, seconds: float = 1) -> None:
        """Advance the clock by these seconds and let a due query run."""
        self.now += seconds
        await known.is_stable()
        await settle()


async def settle() -> None:
    """Let pending tasks finish."""
    loop = asyncio.get_running_loop()
    for _ in range(5):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> GrowthDatabase:
    return GrowthDatabase(monkeypatch)


async def changes(known: PartitionCounts) -> int | None:
    """The number of partitions of the topic of changes."""
    return (await known.counts([CHANGES])).get(CHANGES)


async def test_topic_that_never_grew_has_no_fixed_count(database: GrowthDatabase) -> None:
    known = PartitionCounts(database, CHANGES)
    assert await changes(known) is None
    await known.check()
    assert database.queries == 1


async def test_growing_topic_of_changes_blocks_publishing(database: GrowthDatabase) -> None:
    known = PartitionCounts(database, CHANGES)
    await known.check()
    database.growth = Growth(4, to=8)
    await database.advance(known, 5)
    with pytest.raises(BrokerAwayError, match="growing to 8 partitions"):
        await known.check()
    assert not await known.is_stable()
    assert await changes(known) == 4
    database.growth = Growth(8)
    await database.advance(known)
    assert await known.is_stable()
    assert await changes(known) == 8


async def test_known_counts_last_for_a_while_without_the_database(database: GrowthDatabase) -> None:
    known = PartitionCounts(database, CHANGES)
    database.growth = Growth(8)
    assert await changes(known) == 8
    database.is_away = True
    await database.advance(known, KNOWN_S - 0.5)
    await known.check()
    await database.advance(known)
    with pytest.raises(BrokerAwayError, match="the partitioning of the topic of changes is unknown"):
        await known.check()
    await database.advance(known, 3)
    assert await changes(known) == 8
    database.is_away = False
    await database.advance(known)
    await known.check()


async def test_keys_are_redistributed_from_one_moment_on(database: GrowthDatabase) -> None:
    known = PartitionCounts(database, CHANGES)
    database.other = Growth(4, to=8)
    assert await known.counts([SUBMISSIONS]) == {SUBMISSIONS: 4}
    database.other = Growth(4, to=8, step=Step.SWITCHING, turn="a")
    await database.advance(known)
    with pytest.raises(BrokerAwayError, match=f"{SUBMISSIONS} is growing, and its keys are being redistributed"):
        await known.counts(BOTH)
    assert await known.counts(["shop.order-events"]) == {}
    database.other = Growth(4, to=8, step=Step.SWITCHED)
    await database.advance(known)
    assert await known.counts(BOTH) == {SUBMISSIONS: 8}
    database.other = Growth(8)
    await database.advance(known)
    assert await known.counts(BOTH) == {SUBMISSIONS: 8}


@pytest.mark.parametrize("is_queried_between", [True, False])
async def test_publishers_continue_as_before_if_the_switch_stalls(
    database: GrowthDatabase, is_queried_between: bool
) -> None:
    known = PartitionCounts(database, CHANGES)
    database.other = Growth(4, to=8, step=Step.SWITCHING, turn="a")
    began = database.now
    while database.now < began + SWITCHED_S - 10:
        with pytest.raises(BrokerAwayError):
            await known.counts(BOTH)
    assert await known.counts(BOTH) == {SUBMISSIONS: 4}
    assert database.now >= began + SWITCHED_S
    if is_queried_between:
        database.other = Growth(4, to=8)
        await database.advance(known)
        assert await known.counts(BOTH) == {SUBMISSIONS: 4}
    database.other = Growth(4, to=8, step=Step.SWITCHING, turn="b")
    await database.advance(known)
    with pytest.raises(BrokerAwayError):
        await known.counts(BOTH)


async def test_growing_topic_needs_the_database(database: GrowthDatabase) -> None:
    known = PartitionCounts(database, CHANGES)
    database.other = Growth(4, to=8)
    assert await known.counts(BOTH) == {SUBMISSIONS: 4}
    database.is_away = True
    await database.advance(known, KNOWN_GROWING_S - 0.5)
    assert await known.counts(BOTH) == {SUBMISSIONS: 4}
    await database.advance(known)
    with pytest.raises(BrokerAwayError, match=f"the partitioning of {SUBMISSIONS}, which is growing, is unknown"):
        await known.counts(BOTH)
    assert await known.counts(["shop.order-events"]) == {}


async def test_outdated_counts_are_queried_until_the_database_is_back(database: GrowthDatabase) -> None:
    known = PartitionCounts(database, CHANGES)
    assert await known.counts(BOTH) == {}
    database.other, database.is_away = Growth(8), True
    database.now += KNOWN_S
    waiting = asyncio.create_task(known.counts(BOTH))
    await settle()
    database.is_away = False
    assert await waiting == {SUBMISSIONS: 8}


async def test_long_outage_of_the_database_delays_only_the_first_call(database: GrowthDatabase) -> None:
    known = PartitionCounts(database, CHANGES)
    database.other = Growth(8)
    assert await known.counts(BOTH) == {SUBMISSIONS: 8}
    database.is_away = True
    database.now += KNOWN_S
    began = database.now
    assert await known.counts(BOTH) == {SUBMISSIONS: 8}
    assert began + 3 <= database.now < began + 5
    began = database.now
    assert await known.counts(BOTH) == {SUBMISSIONS: 8}
    assert database.now == began


async def test_counts_that_were_never_known_are_waited_for(database: GrowthDatabase) -> None:
    known = PartitionCounts(database, CHANGES)
    database.other, database.is_away = Growth(4, to=8), True
    for longest in (5, 0):
        began = database.now
        with pytest.raises(BrokerAwayError, match="the partitioning of topics is unknown"):
            await known.counts(BOTH)
        assert database.now <= began + longest
    database.is_away = False
    database.now += 1
    assert await known.counts(BOTH) == {SUBMISSIONS: 4}


async def test_unknown_counts_are_queried_once_for_all(database: GrowthDatabase) -> None:
    database.is_away = True
    known = PartitionCounts(database, CHANGES)
    assert await asyncio.gather(*(known.is_stable() for _ in range(50))) == [False] * 50
    assert database.queries == 1
    database.now += 1
    assert not await known.is_stable()
    assert database.queries == 2
    await known.stop()
