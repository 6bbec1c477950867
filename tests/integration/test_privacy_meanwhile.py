"""What arrives while a person is being erased is erased, too, and isn't replayed afterwards."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from plaudit.config import Settings
from plaudit.terminal import JsonTerminal, Terminal
from plaudit.tools.privacy_erasure import erase_person, forget_everywhere
from storage.privacy.erasures import Erasures
from storage.privacy.repository import PersonalData
from tests.support.consumers import Desk
from tests.support.facade import new_id, submission
from tests.support.messages import message, review_message
from tests.support.orders import Returns, an_order, wanted_return
from tests.support.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.kafka]


async def erase_while(
    service: Service,
    person: str,
    step: str,
    meanwhile: Callable[[], Awaitable[object]],
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """Erase a person in this process, and do something right before a step of it, a method of Erasures."""
    for name, value in service.command_environment().items():
        monkeypatch.setenv(name, value)
    original = getattr(Erasures, step)

    async def before_it(erasures: Erasures, *arguments: object) -> object:
        monkeypatch.setattr(Erasures, step, original)
        await meanwhile()
        return await original(erasures, *arguments)

    monkeypatch.setattr(Erasures, step, before_it)
    out = JsonTerminal(Terminal())
    await erase_person(Settings(), out, Terminal(quiet=True), person, 60)
    assert getattr(Erasures, step) is original, "the step was left out"
    return out.result


async def test_replay_from_before_the_mark_does_not_bring_a_review_back(
    own_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay was accepted before the mark, and its message is published after the first wait."""
    anna, review = new_id("anna"), new_id("review")

    async def replay() -> None:
        await own_service.stop("worker")
        await own_service.publish("review-submissions", review_message(submission(new_id(), userId=anna, id=review)))
        # The worker reads it after the erasure has asked for reviews, if that doesn't wait.
        asyncio.get_running_loop().call_later(1, own_service.start, "worker")

    counts = await erase_while(own_service, anna, "begin", replay, monkeypatch)
    assert counts["reviews"] == 1
    await own_service.idle()
    stored = await own_service.find("reviews", review)
    assert "userId" not in stored, stored


@pytest.mark.parametrize("step", ["exclude", "renew"])
async def test_letter_that_comes_during_an_erasure_is_not_replayed(
    own_service: Service, own_returns: Returns, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = new_id("anna")
    order = await own_returns.ordered({"line": 5}, customerId=anna)

    async def receive() -> None:
        # The first names only her order, the second only her.
        of_order = message({"action": "create", "return": {"orderId": order, "lineItems": 1}}, order)
        of_person = message(submission(new_id(), 9, userId=anna))
        for topic, bad in (("return-commands", of_order), ("review-submissions", of_person)):
            await own_service.publish(topic, bad)
            await own_service.until_dead(topic, bad)

    counts = await erase_while(own_service, anna, step, receive, monkeypatch)
    assert counts["deadLetters"] == 2
    shown = (await own_service.run("dlq", "replay")).stdout
    assert "Replayed 0 dead letters" in shown
    assert "Left out 2 dead letters with data of people who have been erased" in shown
    (letter,) = await own_service.records("review-submissions.dlq")
    place = f"review-submissions/{letter.partition}/{letter.offset}"
    ended = await own_service.run("dlq", "replay", place, "--json", code=1)
    assert "Not all of the named letters were replayed" in ended.stderr
    assert json.loads(ended.stdout)["leftOut"]["erased"] == 1
    assert "review-submissions" in (await own_service.run("dlq", "list", "--since", "1960-01-01")).stdout


async def test_waiting_return_whose_order_comes_meanwhile_is_erased(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, anna, words = new_id("order"), new_id("anna"), "Annas words"
    wanted = wanted_return(order, {"a": 1}, id="r", resolution=words)
    await desk.command_returns(desk.records({"action": "create", "return": wanted, "user": anna}))
    forget_images = PersonalData.forget_images

    async def receive_order(data: PersonalData) -> int:
        await desk.order(an_order(order, {"a": 1}))
        return await forget_images(data)

    monkeypatch.setattr(PersonalData, "forget_images", receive_order)
    await forget_everywhere(PersonalData(desk.database, anna))
    stored = str(await desk.database["returns"].find_one({"_id": "r"}))
    assert order in stored
    assert anna not in stored
    assert words not in stored
