"""The growth of topics where something goes wrong: all moderation may wait for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from pymongo.errors import AutoReconnect

from messaging.topics import Topic
from plaudit.cli.command_line import CommandError
from plaudit.cli.terminal import Terminal
from plaudit.config import Settings
from plaudit.tools import topics
from plaudit.tools.migration_lease import Turn, turn
from plaudit.tools.topics import Grower
from storage.database import Database, connect
from storage.leases import LeaseRepository
from storage.topics_growth import Growth, GrowthRepository
from tests.support.app import NOWHERE

GROWTH = {Topic.REVIEW_CHANGES: Growth(12)}


class Failing(Grower):
    """A growth that ends in its first step, by an error, or because somebody ends it."""

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
    progress = Terminal(stderr=True)
    mine = Turn(LeaseRepository(database), "this one", progress)
    return Failing(Settings(), database, cast(Any, None), cast(Any, None), progress, mine)


async def test_who_cannot_let_moderation_go_on_says_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_GIVE_UP_S", 0.1)
    first = AutoReconnect("away")
    monkeypatch.setattr(Failing, "error", first)
    with pytest.raises(CommandError, match=r"`plaudit topics grow 24` again.*moderation is paused") as raised:
        await failing(database).grow(24, 0)
    assert raised.value.__cause__ is first


async def test_who_has_lost_the_turn_says_what_may_stand(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(self: Turn) -> bool:
        return False

    monkeypatch.setattr(Turn, "is_still_mine", lost)
    monkeypatch.setattr(Failing, "error", first := AutoReconnect("away"))
    with pytest.raises(CommandError, match=r"Run it again. Until then moderation is paused") as raised:
        await failing(database).grow(24, 0)
    assert raised.value.__cause__ is first


async def test_who_ends_it_twice_does_not_leave_moderation_waiting(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up, is_asked, is_back = list[Topic](), asyncio.Event(), asyncio.Event()

    async def still_mine(self: Turn) -> bool:
        is_asked.set()
        await is_back.wait()
        return True

    async def give_up(self: GrowthRepository, given: Collection[Topic]) -> None:
        given_up.extend(given)

    async def go_to(*_: object) -> None:
        pass

    monkeypatch.setattr(Turn, "is_still_mine", still_mine)
    monkeypatch.setattr(GrowthRepository, "give_up", give_up)
    monkeypatch.setattr(GrowthRepository, "go_to", go_to)
    growing = asyncio.create_task(failing(database).grow(24, 0))
    await asyncio.sleep(0)
    growing.cancel()
    await is_asked.wait()
    for _ in range(2):
        growing.cancel()
        await asyncio.sleep(0)  # so that it comes
    is_back.set()
    with pytest.raises(asyncio.CancelledError):
        await growing
    assert given_up == [Topic.REVIEW_CHANGES]


async def test_a_lease_that_cannot_be_given_back_hides_no_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Turn, "hold", AsyncMock(return_value=True))
    with pytest.raises(CommandError, match="stands still"):
        async with turn(database, Terminal(stderr=True)):
            raise CommandError("Moderation stands still.")


@pytest.mark.parametrize("is_mine", [True, False])
async def test_what_is_noted_is_tried_again_while_nobody_else_may_have_gone_on(
    database: Database, monkeypatch: pytest.MonkeyPatch, is_mine: bool
) -> None:
    written = list[str]()

    async def away() -> bool:
        raise AutoReconnect("away")

    async def back() -> bool:
        return is_mine

    answers: list[Callable[[], Awaitable[bool]]] = [away, back]

    async def still_mine(self: Turn) -> bool:
        return await answers.pop(0)()

    async def write() -> None:
        written.append("noted")

    monkeypatch.setattr(Turn, "is_still_mine", still_mine)
    mine = Turn(LeaseRepository(database), "this one", Terminal(stderr=True))
    if is_mine:
        await mine.note(write)
    else:
        with pytest.raises(CommandError, match="blocked for a minute"):
            await mine.note(write)
    assert written == ["noted"] * is_mine
