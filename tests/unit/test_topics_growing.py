"""Failures while topics grow, when all moderation may have to wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from aiokafka.errors import KafkaConnectionError
from pymongo.errors import AutoReconnect

from messaging.kafka.partition_counts import Growth, Step
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.terminal import Terminal
from plaudit.tools import topics
from plaudit.tools.migration_lease import MigrationLease, migration_lease
from plaudit.tools.topics import Grower
from storage.database import Database, connect
from storage.leases import LeaseRepository
from storage.topics_growth import GrowthRepository
from tests.support.app import NOWHERE

GROWTH = {Topic.REVIEW_CHANGES: Growth(12)}


class Failing(Grower):
    """A growth that fails in its first step with `error`, or hangs there until it is cancelled."""

    error: BaseException | None = None

    async def _counts(self) -> dict[Topic, int]:
        return {Topic.REVIEW_CHANGES: 12}

    async def _growths(self, count: int, there: Mapping[Topic, int]) -> dict[Topic, Growth]:
        return GROWTH

    async def _create(self, counts: Mapping[Topic, int], *, is_only_asked: bool = False) -> None:
        pass

    async def _divide(self, growing: Mapping[Topic, Growth], held: set[Topic]) -> None:
        if self.error:
            raise self.error
        await asyncio.Event().wait()


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    client, database = connect(f"mongodb://{NOWHERE}", "nothing", timeout=0.001)
    async with client:
        yield database


def failing(database: Database) -> Failing:
    progress, mine = Terminal(stderr=True), MigrationLease(LeaseRepository(database), "this one")
    return Failing(Settings().topics, GrowthRepository(database), cast(Any, None), cast(Any, None), progress, mine)


async def test_growth_that_cannot_resume_moderation_says_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_GIVE_UP_S", 0.1)
    first = AutoReconnect("away")
    monkeypatch.setattr(Failing, "error", first)
    with pytest.raises(CommandError, match=r"`plaudit topics grow 24` again.*moderation is paused") as raised:
        await failing(database).grow(24, 0)
    assert raised.value.__cause__ is first


async def test_growth_that_lost_its_lease_says_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(self: MigrationLease) -> bool:
        return False

    monkeypatch.setattr(MigrationLease, "is_still_mine", lost)
    monkeypatch.setattr(Failing, "error", first := AutoReconnect("away"))
    with pytest.raises(CommandError, match=r"Run it again. Until then moderation is paused") as raised:
        await failing(database).grow(24, 0)
    assert raised.value.__cause__ is first


@pytest.mark.parametrize("missed", [AutoReconnect("away"), "too late"])
async def test_switch_that_mongodb_missed_is_made_again(
    database: Database, monkeypatch: pytest.MonkeyPatch, missed: object
) -> None:
    steps = list[Step]()

    async def go_to(self: GrowthRepository, step: Step, growing: Collection[str]) -> None:
        steps.append(step)

    async def switch(self: GrowthRepository, growing: Collection[str], within_s: float) -> bool:
        steps.append(Step.SWITCHED)
        if isinstance(missed, AutoReconnect) and steps.count(Step.SWITCHED) == 1:
            raise missed
        return steps.count(Step.SWITCHED) > 1

    monkeypatch.setattr(GrowthRepository, "go_to", go_to)
    monkeypatch.setattr(GrowthRepository, "switch", switch)
    monkeypatch.setattr(MigrationLease, "is_still_mine", AsyncMock(return_value=True))
    monkeypatch.setattr(Grower, "_wait", AsyncMock())
    await failing(database)._switch([Topic.ORDER_EVENTS])
    # What others do meanwhile follows from the last step that was written, so they go back before they try again.
    assert steps == [Step.SWITCHING, Step.SWITCHED, Step.ANNOUNCED, Step.SWITCHING, Step.SWITCHED]


async def test_completion_waits_for_mongodb(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = AsyncMock(side_effect=[AutoReconnect("away"), None])
    monkeypatch.setattr(GrowthRepository, "complete", complete)
    monkeypatch.setattr(MigrationLease, "is_still_mine", AsyncMock(return_value=True))
    await failing(database)._complete(Topic.ORDER_EVENTS, Growth(12, to=24))
    assert complete.await_count == 2


async def test_partitions_are_created_once_kafka_is_back(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    create = AsyncMock(side_effect=[KafkaConnectionError("away"), None])
    admin = cast(Any, Mock(create_partitions=create))
    monkeypatch.setattr(Grower, "_counts", AsyncMock(return_value={Topic.ORDER_EVENTS: 12}))
    monkeypatch.setattr(Grower, "_renew_and_pause", AsyncMock())
    found = failing(database)
    await Grower(found.names, found.repository, admin, found.lag, found.progress, found.lease)._create(
        {Topic.ORDER_EVENTS: 24}
    )
    assert create.await_count == 2


async def test_growth_cancelled_twice_still_resumes_moderation(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up, was_checked, is_back = list[Topic](), asyncio.Event(), asyncio.Event()

    async def still_mine(self: MigrationLease) -> bool:
        was_checked.set()
        await is_back.wait()
        return True

    async def give_up(self: GrowthRepository, given: Collection[Topic]) -> None:
        given_up.extend(given)

    async def go_to(*_: object) -> None:
        pass

    monkeypatch.setattr(MigrationLease, "is_still_mine", still_mine)
    monkeypatch.setattr(GrowthRepository, "give_up", give_up)
    monkeypatch.setattr(GrowthRepository, "go_to", go_to)
    growing = asyncio.create_task(failing(database).grow(24, 0))
    await asyncio.sleep(0)
    growing.cancel()
    await was_checked.wait()
    for _ in range(2):
        growing.cancel()
        await asyncio.sleep(0)  # delivers the cancellation
    is_back.set()
    with pytest.raises(asyncio.CancelledError):
        await growing
    assert given_up == [Topic.REVIEW_CHANGES]


async def test_failed_release_of_a_lease_hides_no_error(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MigrationLease, "wait_for", AsyncMock())
    with pytest.raises(CommandError, match="stands still"):
        async with migration_lease(database, Terminal(stderr=True)):
            raise CommandError("Moderation stands still.")


@pytest.mark.parametrize("is_mine", [True, False])
async def test_note_is_retried_only_while_the_lease_is_held(
    database: Database, monkeypatch: pytest.MonkeyPatch, is_mine: bool
) -> None:
    written = list[str]()

    async def away() -> bool:
        raise AutoReconnect("away")

    async def back() -> bool:
        return is_mine

    answers: list[Callable[[], Awaitable[bool]]] = [away, back]

    async def still_mine(self: MigrationLease) -> bool:
        return await answers.pop(0)()

    async def write() -> None:
        written.append("noted")

    monkeypatch.setattr(MigrationLease, "is_still_mine", still_mine)
    mine = MigrationLease(LeaseRepository(database), "this one")
    if is_mine:
        await mine.note(write)
    else:
        with pytest.raises(CommandError, match="blocked for a minute"):
            await mine.note(write)
    assert written == ["noted"] * is_mine
