"""Feedback that precedes its review, in any amount, and feedback that repeats."""

import tracemalloc
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pytest
from structlog.testing import capture_logs

from domain.commands import Outcome
from domain.delivery import RecordPosition
from domain.feedback import Feedback, FeedbackAction, Origin, Vote, VoteKey
from domain.reviews_facts import Reply
from storage.database import Session
from storage.feedback.reports import ReportRepository
from storage.feedback.votes import VoteRepository
from storage.parking import ParkingRepository
from tests.support.consumers import Desk
from tests.support.facade import new_id
from tests.support.records import Record
from tests.support.service import Json

NOW = datetime.now(UTC)


def votes(id: str, helpful: Iterable[bool]) -> list[Feedback]:
    """Return votes with these values, by 900 voters, some of whom vote again."""
    return [
        Feedback(id, FeedbackAction.VOTE, Origin(RecordPosition(0, n, n)), NOW, user_id=f"u-{n % 900}", helpful=each)
        for n, each in enumerate(helpful)
    ]


async def counts(desk: Desk, id: str) -> tuple[int, int, int]:
    """Return the numbers of helpful, other and parked votes of a review."""
    stored = await desk.stored(id)
    waiting = await desk.database["parkedCommands"].count_documents({"reviewId": id})
    return stored.get("helpful", 0), stored.get("notHelpful", 0), waiting


@pytest.mark.long
async def test_parked_feedback_is_applied_in_batches_in_order(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.parking._PAGE", 100)
    sizes: list[int] = []
    load = VoteRepository.load

    async def recording_load(
        self: VoteRepository, keys: Collection[VoteKey], session: Session
    ) -> Mapping[VoteKey, Vote]:
        sizes.append(len(keys))
        return await load(self, keys, session)

    monkeypatch.setattr(VoteRepository, "load", recording_load)
    review = desk.review()
    # The last 900 count.
    await desk.services.parked_feedback.park(votes(review["id"], [True] * 500 + [False] * 900))
    await desk.submit(desk.records(review))
    assert sizes == [100] * 14
    assert await counts(desk, review["id"]) == (0, 900, 0)


@pytest.mark.long
async def test_parked_feedback_of_one_review_is_read_in_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour of replies to a single review would fill the memory of each worker that tries to apply them."""
    monkeypatch.setattr("storage.parking._PAGE", 100)
    review, reply = desk.review(), Reply("ж" * 5_000, None, NOW, NOW)
    await desk.submit(desk.records(review))
    await desk.moderate(("delete", review["id"]))
    for start in range(0, 2_000, 100):
        origins = [Origin(RecordPosition(0, n, n)) for n in range(start, start + 100)]
        replies = [Feedback(review["id"], FeedbackAction.REPLY, each, NOW, reply) for each in origins]
        await desk.services.parked_feedback.park(replies)
    tracemalloc.start()
    try:
        await desk.parked.feedback.release([review["id"]])
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert await desk.database["parkedCommands"].count_documents({}) == 0


async def test_feedback_parked_after_its_review_is_applied(desk: Desk) -> None:
    """Nor is it given up if its review is deleted by then: as if it came then, it has no effect."""
    review, deleted, other = desk.review(), desk.review(), new_id("review")
    await desk.submit(desk.records(review, deleted))
    await desk.moderate(("delete", deleted["id"]))
    numbers = {review["id"]: 3, deleted["id"]: 1, other: 2}
    await desk.services.parked_feedback.park(chain(*(votes(id, [True] * number) for id, number in numbers.items())))
    assert await desk.parked.give_up_overdue(datetime.now(UTC)) == 2
    assert await counts(desk, review["id"]) == (3, 0, 0)
    assert await counts(desk, deleted["id"]) == (0, 0, 0)
    letters = [message for message in desk.kafka.published if message.topic == "test.review-feedback.dlq"]
    assert [message.key for message in letters] == [other.encode()] * 2


async def test_overdue_feedback_expires_in_batches(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other parked work is done in between."""
    monkeypatch.setattr("consumers.parking.MOST_OVERDUE", 10)
    await desk.services.parked_feedback.park(votes(new_id("review"), [True] * 25))
    assert [await desk.parked.give_up_overdue(datetime.now(UTC)) for _ in range(4)] == [10, 10, 5, 0]


async def test_feedback_of_damaged_review_blocks_no_other(desk: Desk) -> None:
    review, other = desk.review(), new_id("review")
    await desk.submit(desk.records(review))
    await desk.database["reviews"].update_one({"_id": review["id"]}, {"$set": {"repliedAt": "x"}})
    await desk.services.parked_feedback.park([*votes(review["id"], [True]), *votes(other, [True])])
    with capture_logs() as lines:
        for expired in (1, 0):
            assert await desk.parked.give_up_overdue(datetime.now(UTC)) == expired
    # Once, however often it is examined.
    (line,) = [line for line in lines if "damaged document" in line["event"]]
    assert line["id"] == review["id"]
    assert await counts(desk, review["id"]) == (0, 0, 1)
    await desk.database["reviews"].update_one({"_id": review["id"]}, {"$unset": {"repliedAt": ""}})
    assert await desk.parked.give_up_overdue(datetime.now(UTC)) == 0
    assert await counts(desk, review["id"]) == (1, 0, 0)


@pytest.mark.parametrize("is_one_batch", [True, False])
async def test_report_repeated_by_another_command_has_its_own_outcome(desk: Desk, is_one_batch: bool) -> None:
    review, content = desk.review(), {"reason": "spam", "explanation": "An advertisement", "goodFaith": True}
    await desk.submit(desk.records(review))
    report = {"action": "report", "reviewId": review["id"], "reportId": new_id("report"), **content}
    records = desk.records(*({**report, "commandId": id} for id in ("first", "second")))
    for batch in (records,) if is_one_batch else (records[:1], records[1:], records):
        await desk.give_feedback(batch)
    assert await desk.outcomes(review["id"], "first", "second") == [Outcome.APPLIED, Outcome.UNCHANGED]
    assert (await desk.stored(review["id"]))["reports"] == 1


@pytest.mark.parametrize("explanation", ["\u200b", "", "Spam."])
async def test_parked_report_can_be_read(desk: Desk, explanation: str) -> None:
    """A report with a date in the future has that of its record, and may have invisible words alone, as an import."""
    review = desk.review()
    report = {"action": "report", "reviewId": review["id"], "reason": "spam", "explanation": explanation}
    await desk.give_feedback(desk.records({**report, "goodFaith": True, "reportedDate": "2999-01-01T00:00:00Z"}))
    assert [len(each) async for each in desk.services.parked_feedback.about([review["id"]])] == [1]
    await desk.submit(desk.records(review))
    assert (await desk.stored(review["id"]))["reports"] == 1


async def test_parked_feedback_that_is_erased_meanwhile_is_not_applied(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    review = desk.review()
    await desk.services.parked_feedback.park(votes(review["id"], [True]))
    about = ParkingRepository.about

    async def erase_afterwards(parking: ParkingRepository[Any], ids: Collection[str]) -> AsyncGenerator[Any]:
        async for found in about(parking, ids):
            await desk.database["parkedCommands"].delete_many({})
            yield found

    monkeypatch.setattr(ParkingRepository, "about", erase_afterwards)
    await desk.submit(desk.records(review))
    assert await counts(desk, review["id"]) == (0, 0, 0)


def settled_report(desk: Desk, review: Json, command: str) -> list[Record]:
    """An imported report that a decision has settled."""
    content = {"reason": "spam", "explanation": "An advertisement", "goodFaith": True, "reportId": new_id("report")}
    settled = {"action": "reject", "at": "2026-01-01T00:00:00Z"}
    return desk.records(
        {"action": "report", "reviewId": review["id"], **content, "settled": settled, "commandId": command}
    )


def withdrawal(desk: Desk, review: Json, command: str) -> list[Record]:
    """The withdrawal of a vote that was never cast."""
    return desk.records({"action": "remove-vote", "reviewId": review["id"], "userId": "zoe", "commandId": command})


def vote_and_withdrawal(desk: Desk, review: Json, command: str) -> list[Record]:
    """A vote that its voter withdraws at once: one batch."""
    vote = {"action": "vote", "reviewId": review["id"], "userId": "zoe", "helpful": True}
    return [*desk.records(vote), *withdrawal(desk, review, command)]


@pytest.mark.parametrize(
    ("collection", "feedback", "repository", "read"),
    [
        ("reports", settled_report, ReportRepository, "owners"),
        ("votes", withdrawal, VoteRepository, "load"),
        ("votes", vote_and_withdrawal, VoteRepository, "load"),
    ],
)
async def test_feedback_on_review_that_is_deleted_meanwhile_is_not_stored(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    collection: str,
    feedback: Callable[[Desk, Json, str], list[Record]],
    repository: type,
    read: str,
) -> None:
    """Each leaves its review as it is, and so would not conflict with the deletion by itself."""
    reviews, original, deletions = [desk.review(), desk.review()], getattr(repository, read), ["delete"]
    await desk.submit(desk.records(*reviews))
    # The first use of a collection conflicts with any other.
    await desk.give_feedback(feedback(desk, reviews[0], "first"))
    await desk.moderate(("delete", reviews[0]["id"]))

    async def delete_afterwards(self: Any, keys: Any, session: Session) -> Any:
        found = await original(self, keys, session)
        if deletions:
            await desk.moderate((deletions.pop(), reviews[1]["id"]))
        return found

    monkeypatch.setattr(repository, read, delete_afterwards)
    await desk.give_feedback(feedback(desk, reviews[1], "second"))
    assert deletions == []
    assert await desk.database[collection].find().to_list() == []
    assert await desk.outcomes(reviews[1]["id"], "second") == [Outcome.NOT_FOUND]


async def test_settled_report_leaves_its_review_as_it_is(desk: Desk) -> None:
    review = desk.review()
    await desk.submit(desk.records(review))
    before = await desk.stored(review["id"])
    await desk.give_feedback(settled_report(desk, review, "one"))
    assert await desk.database["reports"].count_documents({"settled.action": "reject"}) == 1
    assert await desk.stored(review["id"]) == before
