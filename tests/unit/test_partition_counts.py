"""Partition counts of topics, as publishers know them."""

import asyncio

import pytest

from messaging.kafka import partition_counts
from messaging.kafka.connection import BrokerAwayError
from messaging.kafka.partition_counts import KNOWN_GROWING_S, KNOWN_S, SWITCHED_S, PartitionCounts
from storage.topics_growth import Growth, Step

CHANGES, SUBMISSIONS = "shop.review-changes", "shop.review-submissions"
BOTH = (CHANGES, SUBMISSIONS)


class Asked:
    """A clock, and a database with the growth of the topic of changes and of another topic, or unavailable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.growth: Growth | None = None
        self.other: Growth | None = None
        self.is_away = False
        self.times = 0
        self.now = 1_000.0
        monkeypatch.setattr(partition_counts, "monotonic", lambda: self.now)
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    async def __call__(self) -> dict[str, Growth]:
        self.times += 1
        if self.is_away:
            raise ConnectionError("away")
        return {name: each for name, each in ((CHANGES, self.growth), (SUBMISSIONS, self.other)) if each}

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await answered()

    async def later(self, known: PartitionCounts, seconds: float = 1) -> None:
        """Advance the clock by these seconds and let a due query run."""
        self.now += seconds
        await known.is_settled()
        await answered()


async def answered() -> None:
    """Let pending tasks finish."""
    loop = asyncio.get_running_loop()
    for _ in range(5):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


async def changes(known: PartitionCounts) -> int | None:
    """The number of partitions of the topic of changes."""
    return (await known.counts([CHANGES])).get(CHANGES)


async def test_a_topic_that_never_grew_has_the_partitions_that_there_are(asked: Asked) -> None:
    known = PartitionCounts(asked, CHANGES)
    assert await changes(known) is None
    await known.check()
    assert asked.times == 1


async def test_while_it_grows_nothing_ordered_is_published(asked: Asked) -> None:
    known = PartitionCounts(asked, CHANGES)
    await known.check()
    asked.growth = Growth(4, to=8)
    await asked.later(known, 5)
    with pytest.raises(BrokerAwayError, match="growing to 8 partitions"):
        await known.check()
    assert not await known.is_settled()
    assert await changes(known) == 4
    asked.growth = Growth(8)
    await asked.later(known)
    assert await known.is_settled()
    assert await changes(known) == 8


async def test_what_is_known_is_good_for_a_while_without_the_database(asked: Asked) -> None:
    known = PartitionCounts(asked, CHANGES)
    asked.growth = Growth(8)
    assert await changes(known) == 8
    asked.is_away = True
    await asked.later(known, KNOWN_S - 0.5)
    await known.check()
    await asked.later(known)
    with pytest.raises(BrokerAwayError, match="the partitioning of the topic of changes is unknown"):
        await known.check()
    await asked.later(known, 3)
    assert await changes(known) == 8
    asked.is_away = False
    await asked.later(known)
    await known.check()


async def test_keys_are_divided_anew_from_one_moment_on(asked: Asked) -> None:
    known = PartitionCounts(asked, CHANGES)
    asked.other = Growth(4, to=8)
    assert await known.counts([SUBMISSIONS]) == {SUBMISSIONS: 4}
    asked.other = Growth(4, to=8, step=Step.SWITCHING, turn="a")
    await asked.later(known)
    with pytest.raises(BrokerAwayError, match=f"{SUBMISSIONS} is growing, and its keys are being redistributed"):
        await known.counts(BOTH)
    assert await known.counts(["shop.order-events"]) == {}
    asked.other = Growth(4, to=8, step=Step.SWITCHED)
    await asked.later(known)
    assert await known.counts(BOTH) == {SUBMISSIONS: 8}
    asked.other = Growth(8)
    await asked.later(known)
    assert await known.counts(BOTH) == {SUBMISSIONS: 8}


@pytest.mark.parametrize("is_asked_between", [True, False])
async def test_whoever_waits_goes_on_as_before_where_nobody_divides_keys_anew(
    asked: Asked, is_asked_between: bool
) -> None:
    known = PartitionCounts(asked, CHANGES)
    asked.other = Growth(4, to=8, step=Step.SWITCHING, turn="a")
    began = asked.now
    while asked.now < began + SWITCHED_S - 10:
        with pytest.raises(BrokerAwayError):
            await known.counts(BOTH)
    assert await known.counts(BOTH) == {SUBMISSIONS: 4}
    assert asked.now >= began + SWITCHED_S
    if is_asked_between:
        asked.other = Growth(4, to=8)
        await asked.later(known)
        assert await known.counts(BOTH) == {SUBMISSIONS: 4}
    asked.other = Growth(4, to=8, step=Step.SWITCHING, turn="b")
    await asked.later(known)
    with pytest.raises(BrokerAwayError):
        await known.counts(BOTH)


async def test_of_a_topic_that_grows_the_database_must_tell(asked: Asked) -> None:
    known = PartitionCounts(asked, CHANGES)
    asked.other = Growth(4, to=8)
    assert await known.counts(BOTH) == {SUBMISSIONS: 4}
    asked.is_away = True
    await asked.later(known, KNOWN_GROWING_S - 0.5)
    assert await known.counts(BOTH) == {SUBMISSIONS: 4}
    await asked.later(known)
    with pytest.raises(BrokerAwayError, match=f"the partitioning of {SUBMISSIONS}, which is growing, is unknown"):
        await known.counts(BOTH)
    assert await known.counts(["shop.order-events"]) == {}


async def test_what_is_old_is_asked_for_while_the_database_may_come_back(asked: Asked) -> None:
    known = PartitionCounts(asked, CHANGES)
    assert await known.counts(BOTH) == {}
    asked.other, asked.is_away = Growth(8), True
    asked.now += KNOWN_S
    waiting = asyncio.create_task(known.counts(BOTH))
    await answered()
    asked.is_away = False
    assert await waiting == {SUBMISSIONS: 8}


async def test_a_database_that_was_away_for_long_holds_up_nobody(asked: Asked) -> None:
    known = PartitionCounts(asked, CHANGES)
    asked.is_away = True
    began = asked.now
    assert await known.counts(BOTH) == {}
    assert began + 3 <= asked.now < began + 5
    began = asked.now
    assert await known.counts(BOTH) == {}
    assert asked.now == began


async def test_what_was_never_known_is_asked_for_once_by_all(asked: Asked) -> None:
    asked.is_away = True
    known = PartitionCounts(asked, CHANGES)
    assert await asyncio.gather(*(known.is_settled() for _ in range(50))) == [False] * 50
    assert asked.times == 1
    asked.now += 1
    assert not await known.is_settled()
    assert asked.times == 2
    await known.stop()
