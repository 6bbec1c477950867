"""Commands that wait for their images, in any number."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock, MagicMock
from uuid import uuid4

import pytest
from pymongo import monitoring

from consumers.images.commands import ImageCommandConsumer
from domain.commands import Outcome
from storage.reviews.facts import images_from
from storage.unit_of_work import Transactions, UnitOfWork
from tests.support.consumers import Desk, desk_on
from tests.support.images import picture
from tests.support.ranges import FilterRecorder, recorded_database
from tests.support.service import Json, Servers


class Commands(FilterRecorder):
    """Counter of commands to MongoDB."""

    def __init__(self) -> None:
        super().__init__([])
        self.number = 0

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.number += 1

    async def of(self, work: Awaitable[Any]) -> int:
        """Return the number of commands that this work sends."""
        before = self.number
        await work
        return self.number - before


@pytest.fixture
def sent() -> Commands:
    return Commands()


@pytest.fixture
async def recorded(servers: Servers, sent: Commands) -> AsyncIterator[Desk]:
    async with recorded_database(servers, sent) as database:
        yield desk_on(database)


def command(action: str, review_id: str, image: str | None = None, id: str | None = None) -> Json:
    """Return a command about an image; default: one that never comes."""
    fields = {"action": action, "reviewId": review_id, "imageId": image or str(uuid4())}
    return fields | ({"commandId": id} if id else {})


async def waiting(desk: Desk, review_id: str) -> int:
    """Return the number of commands parked for a review."""
    return await desk.database["parkedCommands"].count_documents({"reviewId": review_id})


async def test_commands_for_unknown_review_cost_the_same_however_many_wait(recorded: Desk, sent: Commands) -> None:
    for is_same_image in (True, False):
        needed, image = set[int](), str(uuid4())
        for number in (20, 200):
            review = f"undefined-{is_same_image}"
            more = number - await waiting(recorded, review)
            commands = [command("hide", review, image if is_same_image else None) for _ in range(more)]
            await recorded.command_images(recorded.records(*commands))
            assert await waiting(recorded, review) == number
            one = recorded.records(command("hide", review, image))
            needed.add(await sent.of(recorded.command_images(one)))
            assert await waiting(recorded, review) == number + 1
        assert len(needed) == 1, needed


async def test_commands_for_known_image_cost_the_same_however_many_wait(recorded: Desk, sent: Commands) -> None:
    """The others wait for further images of the same review, or come in one batch with it for an unknown one."""
    image = await recorded.upload(picture())
    review = recorded.review(images=[image])
    await recorded.submit(recorded.records(review))
    needed: list[int] = []
    for action, number in (("hide", 120), ("show", 480)):
        for id in (review["id"], "undefined"):
            more = range(number - await waiting(recorded, id))
            await recorded.command_images(recorded.records(*(command("hide", id) for _ in more)))
            assert await waiting(recorded, id) == number
        known = command(action, review["id"], image)
        both = recorded.records(known, command("hide", "undefined"))
        needed.append(await sent.of(recorded.command_images(both)))
        (shown,) = images_from(await recorded.stored(review["id"]))
        assert shown.is_hidden is (action == "hide")
    assert needed[0] == needed[1], needed


async def test_giving_up_costs_the_same_however_many_wait(recorded: Desk, sent: Commands) -> None:
    needed = set[int]()
    for number in (120, 480):
        await recorded.command_images(recorded.records(*(command("hide", "undefined") for _ in range(number))))
        given_up = recorded.parked.images.give_up_overdue(datetime.now(UTC))
        before = sent.number
        assert await given_up == number
        needed.add(sent.number - before)
    assert len(needed) == 1, needed


async def test_many_waiting_commands_are_applied_in_parts_in_order(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.parking._PAGE", 3)
    images, review, missing = [await desk.upload(picture()) for _ in range(2)], desk.review(), str(uuid4())
    ids = [f"c-{n}" for n in range(10)]
    for image, first, second in ((images[0], "hide", "show"), (images[1], "show", "hide")):
        actions = (first if n % 2 == 0 else second for n in range(10))
        commands = [command(action, review["id"], image, id) for action, id in zip(actions, ids, strict=True)]
        await desk.command_images(desk.records(*commands, command("hide", review["id"], missing)))
    await desk.submit(desk.records({**review, "images": images}))
    after = images_from(await desk.stored(review["id"]))
    assert [(each.id, each.is_hidden) for each in after] == [(images[0], False), (images[1], True)]
    assert await desk.outcomes(images[0], *ids) == [Outcome.APPLIED] * 10
    assert sorted(await desk.outcomes(images[1], *ids)) == [Outcome.APPLIED] * 9 + [Outcome.UNCHANGED]
    assert await waiting(desk, review["id"]) == 2


async def test_no_command_overtakes_another_if_their_image_comes_between_two_parts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a worker that stops before it releases the commands."""
    first, second = [await desk.upload(picture()) for _ in range(2)]
    review = desk.review(images=[first])
    await desk.submit(desk.records(review))
    await desk.command_images(desk.records(*(command(each, review["id"], second, each) for each in ("hide", "show"))))
    monkeypatch.setattr("storage.parking._PAGE", 1)
    run, edit = Transactions.run, desk.records({**review, "images": [first, second]})

    async def interrupted(self: Transactions, function: Callable[[UnitOfWork], Awaitable[Any]]) -> Any:
        result = await run(self, function)
        monkeypatch.setattr(Transactions, "run", run)
        with monkeypatch.context() as patched:
            patched.setattr(ImageCommandConsumer, "release", AsyncMock())
            await desk.submit(edit)
        return result

    monkeypatch.setattr(Transactions, "run", interrupted)
    await desk.command_images(desk.records(command("hide", review["id"], first)))
    assert [each.is_hidden for each in images_from(await desk.stored(review["id"]))] == [True, False]
    assert (await desk.outcomes(second, "hide", "show"), await waiting(desk, review["id"])) == ([], 2)
    await desk.command_images(desk.records(command("show", review["id"], first)))
    assert await desk.outcomes(second, "hide", "show") == [Outcome.APPLIED] * 2
    assert [each.is_hidden for each in images_from(await desk.stored(review["id"]))] == [False, False]
    assert await waiting(desk, review["id"]) == 0


async def test_command_given_up_meanwhile_is_not_applied(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has read it from the parking is slower than the one that gives it up."""
    image, review = await desk.upload(picture()), desk.review()
    await desk.command_images(desk.records(command("hide", review["id"], image, "hide")))
    parking = desk.services.parked_image_commands
    about = MagicMock()
    about.return_value.__aiter__.return_value = [each async for each in parking.about([review["id"]])]
    assert await desk.parked.images.give_up_overdue(datetime.now(UTC)) == 1
    monkeypatch.setattr(parking, "about", about)
    await desk.submit(desk.records({**review, "images": [image]}))
    assert [each.is_hidden for each in images_from(await desk.stored(review["id"]))] == [False]
    assert await desk.outcomes(image, "hide") == [Outcome.NOT_FOUND]
