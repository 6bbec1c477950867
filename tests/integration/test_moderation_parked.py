"""Moderation that precedes its review, in any amount, and commands about many reviews."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock

import pytest

from consumers import routing
from consumers.parking import give_up
from consumers.reviews.edits import ReviewEditor
from domain.delivery import OutgoingMessage, RecordPosition
from domain.moderation import Moderation
from domain.reviews import ModerationAction, ReviewStatus
from storage.checks import check_parked
from storage.database import Session
from storage.feedback.votes import VoteRepository
from storage.parking import ParkingRepository
from tests.support.consumers import Desk, RecordingKafka
from tests.support.facade import new_id

APPROVE, REJECT = ModerationAction.APPROVE, ModerationAction.REJECT


def commands(id: str, *actions: ModerationAction) -> list[Moderation]:
    """Moderation of a review in this order."""
    at = datetime.now(UTC)
    return [Moderation(id, each, RecordPosition(0, n, n), at) for n, each in enumerate(actions)]


async def waiting(desk: Desk, id: str) -> int:
    return await desk.database["parkedCommands"].count_documents({"reviewId": id})


def letters(desk: Desk) -> list[OutgoingMessage]:
    return [message for message in desk.kafka.published if message.topic.endswith(".dlq")]


async def test_commands_about_many_reviews_are_forwarded_in_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_MOST_AT_ONCE", 3)
    sizes: list[int] = []
    publish = RecordingKafka.publish

    async def recording_publish(self: RecordingKafka, messages: Sequence[OutgoingMessage]) -> None:
        sizes.append(len(messages))
        await publish(self, messages)

    reviews = [desk.review() for _ in range(4)]
    await desk.submit(desk.records(*reviews))
    ids = [each["id"] for each in reviews]
    monkeypatch.setattr(RecordingKafka, "publish", recording_publish)
    wanted = [("approve", ids), ("reject", ids[:2]), ("reset", ids[2:]), ("approve", ids[:1])]
    await desk.route(desk.records(*({"action": action, "ids": some} for action, some in wanted)))
    assert max(sizes) <= 3
    assert [(each["action"], each["reviewId"]) for each in desk.changes()] == [
        (action, id) for action, some in wanted for id in some
    ]


async def test_commands_that_an_earlier_version_parked_are_applied_or_given_up(desk: Desk) -> None:
    """0.1.0 parked nothing but moderation, without a kind."""
    review, unknown = desk.review(), new_id("review")
    await desk.services.parked_moderation.park([*commands(review["id"], APPROVE), *commands(unknown, REJECT)])
    await desk.database["parkedCommands"].update_many({}, {"$unset": {"kind": ""}})
    assert await check_parked(desk.database) is None
    await desk.submit(desk.records(review))
    assert [(each["action"], each["reviewId"]) for each in desk.changes()] == [("approve", review["id"])]
    await desk.moderate(("reject", review["id"]))
    assert await desk.parked.moderation.give_up_overdue(datetime.now(UTC)) == 1
    assert [message.key for message in letters(desk)] == [unknown.encode()]
    assert await desk.database["parkedCommands"].count_documents({}) == 0


async def test_many_parked_commands_are_applied_in_parts_in_order(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.parking._PAGE", 3)
    sizes: list[int] = []
    take = ParkingRepository.take

    async def recording_take(self: ParkingRepository[Any], commands: Iterable[Any], session: Session) -> list[Any]:
        commands = list(commands)
        sizes.append(len(commands))
        return await take(self, commands, session)

    monkeypatch.setattr(ParkingRepository, "take", recording_take)
    review = desk.review()
    id = review["id"]
    await desk.services.parked_moderation.park(commands(id, *[APPROVE, REJECT] * 5))
    for _ in range(2):  # delivered twice
        desk.offset = 10
        await desk.moderate(("approve", id))
    assert letters(desk) == []
    assert await waiting(desk, id) == 11
    assert sizes == []
    await desk.submit(desk.records(review))
    assert len(desk.changes()) == 11
    await desk.moderate(("reject", id))
    assert sizes == [3, 3, 3, 2]
    assert await waiting(desk, id) == 0
    stored = await desk.stored(id)
    assert ReviewStatus(stored["status"]) is ReviewStatus.REJECTED
    kinds = desk.event_kinds(id)
    assert kinds == ["ReviewSubmitted", *["ReviewApproved", "ReviewRejected"] * 6]


async def test_command_whose_review_comes_while_it_is_given_up_is_not_given_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    review, other = desk.review(), new_id("review")
    await desk.services.parked_moderation.park([*commands(review["id"], APPROVE), *commands(other, REJECT)])

    async def arrived_before(*given: Any, **options: Any) -> list[Any]:
        await desk.submit(desk.records(review))
        return await give_up(*given, **options)

    monkeypatch.setattr(routing, "give_up", arrived_before)
    assert await desk.parked.moderation.give_up_overdue(datetime.now(UTC)) == 1
    assert [message.key for message in letters(desk)] == [other.encode()]
    assert [each["reviewId"] for each in desk.changes()] == [review["id"]]
    assert await waiting(desk, review["id"]) == 1


@pytest.fixture
def _given_up_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parked commands are given up just after a worker has read them."""
    about = ParkingRepository.about

    async def given_up_after(self: ParkingRepository[Any], review_ids: Any) -> AsyncGenerator[list[Any]]:
        async for found in about(self, review_ids):
            await self.remove(found)
            yield found

    monkeypatch.setattr(ParkingRepository, "about", given_up_after)


@pytest.mark.usefixtures("_given_up_meanwhile")
async def test_commands_parked_for_an_unknown_review_are_not_read(desk: Desk) -> None:
    """Their number doesn't slow down other commands, and one that is given up meanwhile isn't parked again."""
    id = new_id("review")
    await desk.services.parked_moderation.park(commands(id, APPROVE))
    desk.offset = 10
    await desk.moderate(("reject", id))
    parked = desk.database["parkedCommands"].find({"reviewId": id})
    assert [each["action"] async for each in parked] == ["approve", "reject"]


@pytest.mark.usefixtures("_given_up_meanwhile")
async def test_command_that_was_given_up_is_not_applied(desk: Desk) -> None:
    review = desk.review()
    id = review["id"]
    await desk.submit(desk.records(review))
    await desk.services.parked_moderation.park(commands(id, APPROVE))
    desk.offset = 10
    await desk.moderate(("reject", id))
    assert desk.event_kinds(id) == ["ReviewSubmitted", "ReviewRejected"]


async def test_first_event_of_a_review_precedes_its_moderation(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the batch that stores it takes long over edits of other reviews."""
    edited, new = desk.review(), desk.review()
    await desk.submit(desk.records(edited))
    apply = ReviewEditor.apply

    async def moderated_meanwhile(self: ReviewEditor, *given: Any) -> Any:
        await desk.moderate(("approve", new["id"]))
        return await apply(self, *given)

    monkeypatch.setattr(ReviewEditor, "apply", moderated_meanwhile)
    await desk.submit(desk.records(new, {**edited, "review": "Changed"}))
    assert desk.event_kinds(new["id"]) == ["ReviewSubmitted", "ReviewApproved"]
    assert desk.event_kinds(edited["id"]) == ["ReviewSubmitted", "ReviewEdited"]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_feedback_is_removed_after_worker_died_behind_parked_deletion(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    """Only the last command is delivered again. A refused review may be accepted yet, and keeps what it has."""
    store = await desk.open_store(reviewsEnabled=not is_refused)
    review = desk.review(storeId=store)
    id = review["id"]
    await desk.submit(desk.records(review))
    await desk.database["votes"].insert_one({"_id": {"reviewId": id, "userId": "u"}, "helpful": True})
    await desk.database["reports"].insert_one({"_id": "report", "reviewId": id})
    await desk.services.parked_moderation.park(commands(id, ModerationAction.DELETE))
    desk.offset = 10
    with monkeypatch.context() as dying:
        dying.setattr(VoteRepository, "remove_of", AsyncMock(side_effect=asyncio.CancelledError))
        with pytest.raises(asyncio.CancelledError):
            await desk.moderate(("approve", id))
    desk.offset = 10
    await desk.moderate(("approve", id))
    assert await waiting(desk, id) == 0
    assert [await desk.database[name].count_documents({}) for name in ("votes", "reports")] == [is_refused] * 2


async def test_new_command_about_a_refused_review_postpones_no_parked_one(desk: Desk) -> None:
    store, id = await desk.open_store(reviewsEnabled=False), new_id("review")
    await desk.services.parked_moderation.park(commands(id, APPROVE))
    await desk.submit(desk.records(desk.review(id=id, storeId=store)))
    parked_until = datetime.now(UTC)
    await desk.route(desk.records({"action": "reject", "ids": [id], "commandId": "later"}))
    assert await desk.parked.moderation.give_up_overdue(parked_until) == 0
    assert await waiting(desk, id) == 0
    assert letters(desk) == []
