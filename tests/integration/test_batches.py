"""Batches as consumers receive them: interrupted, redelivered, and with several records about one object."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import current_thread, main_thread
from typing import Any, TypeVar, cast
from unittest.mock import AsyncMock, MagicMock
from uuid import uuid4

import pytest
from pymongo.errors import AutoReconnect

from consumers import inbox, moderation_rules
from consumers.dead_letters import ReplayConsumer
from consumers.reviews import edits as reviews_edits
from consumers.reviews.edits import ReviewEditor
from consumers.verdicts import VerdictConsumer
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.images import ImageState, StoredImage
from domain.moderation_rules import ModerationRule, RuleInput, RuleSet, Ruling, text_keys
from domain.moderation_rules_text import text_hash
from domain.orders import Purchase
from domain.planned_approvals import PlannedApproval
from domain.reviews import ReviewIdentity, ReviewStatus
from domain.reviews_edits import EditedReviews
from domain.timestamps import timestamp
from messaging.dead_letters_replays import LetterPlace, ReplayCommand
from messaging.decoding import Received
from messaging.kafka.connection import BrokerAwayError
from messaging.topics import DEAD_LETTER_SUFFIX, Topic
from storage import outbox
from storage.database import in_transaction
from storage.outbox import Owed
from storage.planned_approvals import PlannedApprovalRepository
from storage.reviews.facts import images_from
from storage.reviews.ids import RefusedSubmission
from storage.unit_of_work import UnitOfWork
from tests.support.consumers import LONG_AGO, TOPICS, Desk
from tests.support.facade import new_id
from tests.support.orders import an_order, wanted_return
from tests.support.records import Record
from tests.support.service import Json

T = TypeVar("T")

APPROVING: list[Json] = [{"id": "good", "kind": "stars", "outcome": "approve", "above": 3}]
RULES: list[Json] = [*APPROVING, {"id": "words", "kind": "words", "outcome": "hold", "words": ["scam"]}]


@pytest.mark.long
async def test_ruled_review_is_verified_by_retry(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    store, customer = await desk.open_store(moderationRules=APPROVING), new_id("customer")
    await desk.order(an_order(new_id("order"), {desk.product: 1}, storeId=store, customerId=customer))
    existing, lookups = desk.services.purchases.existing, 0

    async def fail_once(wanted: Collection[Purchase]) -> set[Purchase]:
        nonlocal lookups
        lookups += bool(wanted)
        if wanted and lookups == 1:
            raise AutoReconnect("away")
        return await existing(wanted)

    monkeypatch.setattr(desk.services.purchases, "existing", fail_once)
    review = desk.review(rating=5, storeId=store, userId=customer)
    await desk.submit(desk.records(review))
    stored = await desk.stored(review["id"])
    assert lookups > 1
    assert (stored["status"], stored.get("verifiedPurchase")) == (1, True)
    assert desk.event_kinds(review["id"]) == ["ReviewSubmitted", "ReviewApproved"]


@pytest.mark.parametrize("edits", [[], [{"review": "Better."}]], ids=["stored", "edited"])
@pytest.mark.long
async def test_review_is_announced_after_worker_died(desk: Desk, edits: list[Json]) -> None:
    store = await desk.open_store(reviewsEnabled=False)
    first, other, again = desk.review(), desk.review(), desk.review(storeId=store)
    before = desk.records(again, at=LONG_AGO)
    await desk.submit(before)
    await desk.open_store(store)
    # Redelivered together with a refused submission, as if its offset had not been committed.
    records = [*before, *desk.records([first, other], *({**first, **edit} for edit in edits), again)]
    for _ in range(2):
        desk.kafka.failures.append(asyncio.CancelledError())
        with pytest.raises(asyncio.CancelledError):
            await desk.submit(records)
        # Stored at once: storing doesn't wait for the events.
        assert {(await desk.stored(each["id"])).get("status") for each in (first, other, again)} == {ReviewStatus.NEW}
        assert [desk.event_kinds(each["id"]) for each in (first, other, again)] == [[], [], ["SubmissionRefused"]]
    for _ in range(2):
        await desk.submit(records)
        assert desk.event_kinds(first["id"]) == ["ReviewSubmitted", *["ReviewEdited"] * len(edits)]
        assert desk.event_kinds(other["id"]) == ["ReviewSubmitted"]
        assert desk.event_kinds(again["id"]) == ["SubmissionRefused", "ReviewSubmitted"]
    for kind, data in desk.events():
        if kind == "ReviewSubmitted":
            created = (await desk.stored(data["reviewId"]))["createdDate"]
            assert data["at"] == timestamp(created)


async def test_rules_are_compiled_off_thread_and_outside_transactions(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling many words takes seconds; meanwhile heartbeats are sent and no transaction is open."""
    store, found = await desk.open_store(moderationRules=RULES), list[tuple[bool, bool]]()
    transactions = desk.services.transactions
    commit, open_transactions = transactions.commit, 0

    def compile_rules(rules: tuple[ModerationRule, ...]) -> RuleSet:
        found.append((current_thread() is main_thread(), open_transactions > 0))
        return RuleSet(rules)

    async def counting_commit(function: Callable[[UnitOfWork], Awaitable[T]]) -> tuple[T, list[Owed]]:
        nonlocal open_transactions
        open_transactions += 1
        try:
            return await commit(function)
        finally:
            open_transactions -= 1

    monkeypatch.setattr(transactions, "commit", counting_commit)
    monkeypatch.setattr(moderation_rules, "rule_set", compile_rules)
    review = desk.review(storeId=store, userId="anna")
    await desk.submit(desk.records(review))
    await desk.submit(desk.records({**review, "review": "A scam."}))
    assert set(found) == {(False, False)}
    assert (await desk.stored(review["id"]))["flags"] == ["words"]


@pytest.mark.parametrize("is_cut_off", [False, True], ids=["once", "again"])
async def test_long_edits_are_judged_off_thread_in_small_transactions(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_cut_off: bool
) -> None:
    rules = [RULES[-1], {"id": "same", "kind": "duplicate", "outcome": "hold"}]
    store, on_main_thread, commits = await desk.open_store(moderationRules=rules), list[bool](), list[int]()
    judged_on_main_thread = list[bool]()
    reviews = [desk.review(storeId=store, userId=f"a {n}", title=None, review=f"The {n}.{'.' * 34}") for n in range(6)]
    await desk.submit(desk.records(reviews))
    *reviews, unchanged = reviews
    run = desk.services.transactions.run

    def keys_of(identity: ReviewIdentity, text: str) -> tuple[str, ...]:
        on_main_thread.append(current_thread() is main_thread())
        return text_keys(identity, text)

    class Judge(RuleSet):
        def judge(self, review: RuleInput) -> Ruling:
            judged_on_main_thread.append(current_thread() is main_thread())
            return super().judge(review)

    async def counting_run(function: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        result = await run(function)
        if isinstance(result, EditedReviews):
            commits.append(len(result.results))
        if is_cut_off and len(commits) == 2:
            commits.append(0)
            raise AutoReconnect("away")
        return result

    monkeypatch.setattr(desk.services.transactions, "run", counting_run)
    monkeypatch.setattr(reviews_edits, "text_keys", keys_of)
    monkeypatch.setattr(reviews_edits, "_AT_ONCE", 100)
    monkeypatch.setattr(moderation_rules, "rule_set", Judge)
    texts = ["A scam." + "!" * 33, "Fine." * 8, "Good." * 8, "Long." * 8, unchanged["review"]]
    await desk.submit(desk.records(*({**r, "review": text} for r, text in zip(reviews, texts, strict=True))))
    # Edits committed before the failure are not repeated.
    assert commits == [2, 2, *([0] if is_cut_off else []), 1]
    assert set(on_main_thread) == {False}
    # Before its id is known to be taken, an edit is also judged as a new review, in turns with other tasks.
    assert judged_on_main_thread.count(False) >= len(texts)
    assert [(await desk.stored(each["id"]))["review"] for each in reviews] == texts
    assert [(await desk.stored(each["id"])).get("flags", []) for each in reviews] == [["words"], [], [], [], ["same"]]
    assert [desk.event_kinds(each["id"]) for each in reviews] == [["ReviewSubmitted", "ReviewEdited"]] * 5


async def test_long_reviews_are_judged_in_turns_with_other_tasks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await desk.open_store(moderationRules=RULES)
    turns, judged_at = 0, list[int]()

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    class Judge(RuleSet):
        def judge(self, review: RuleInput) -> Ruling:
            judged_at.append(turns)
            return super().judge(review)

    monkeypatch.setattr(moderation_rules, "rule_set", Judge)
    other = asyncio.create_task(take_turns())
    reviews = [desk.review(storeId=store, review="Long. " * 1_000) for _ in range(8)]
    await desk.submit(desk.records(reviews))
    other.cancel()
    assert len(judged_at) == 8
    assert len(set(judged_at)) == 3  # three reviews have nearly 20,000 characters


async def test_review_deleted_before_its_event_is_announced(desk: Desk) -> None:
    store = await desk.open_store(moderationRules=RULES)
    plain, fair, good = desk.review(), desk.review(rating=3, storeId=store), desk.review(rating=5, storeId=store)
    reviews = (plain, fair, good)
    ruled = desk.records(good)
    await desk.submit(ruled)
    # The same review with another text, and a conflicting review with its id, in records of the same millisecond.
    others = {**plain, "review": "Sharper."}, {**plain, "EntityId": new_id()}
    records = [*ruled, *desk.records(plain, fair, *others, at=LONG_AGO)]
    desk.kafka.failures.append(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await desk.submit(records)
    await desk.moderate(*(("delete", review["id"]) for review in reviews))
    for _ in range(2):
        await desk.submit(records)
        assert desk.event_kinds(plain["id"]) == ["ReviewDeleted", "ReviewSubmitted"]
        assert desk.event_kinds(fair["id"]) == ["ReviewDeleted", "ReviewSubmitted"]
        assert desk.event_kinds(good["id"]) == ["ReviewSubmitted", "ReviewApproved", "ReviewDeleted"]
    assert {(await desk.stored(review["id"])).get("goneAt") is None for review in reviews} == {False}


async def test_redelivered_edit_of_deleted_review_is_not_announced_as_refused(desk: Desk) -> None:
    review, command = desk.review(), new_id("command")
    edit, rival = {**review, "review": "Sharper.", "commandId": command}, {**review, "userId": "bert"}
    values = (review, edit, rival, {**review, "review": "Sharpest."})
    records = [desk.records(value, at=LONG_AGO + n)[0] for n, value in enumerate(values)]
    await desk.submit(records[:1])
    await desk.submit(records[1:])
    await desk.moderate(("delete", review["id"]))
    announced = desk.event_kinds(review["id"])
    # As a day later.
    await desk.database["outcomes"].delete_many({})
    for batch in (records, records[1:2], records[2:]):
        await desk.submit(batch)
        assert desk.event_kinds(review["id"]) == announced
    (answer,) = await desk.services.outcomes.of_command(command, 2)
    assert (answer.outcome, answer.reason) == (Outcome.UNCHANGED, None)
    # Rivals are refused before the edits: a later redelivery isn't distinguished from one of an edit.
    assert announced == ["ReviewSubmitted", "SubmissionRefused", "ReviewEdited", "ReviewEdited", "ReviewDeleted"]
    # New submissions are refused, also one that repeats an edit, and one of another partition with an earlier time.
    elsewhere = replace(desk.records({**review, "review": "Late."}, at=LONG_AGO - 1)[0], partition=1)
    new = desk.records({**review, "review": "New."}, {**edit, "commandId": None})
    for number, record in enumerate((*new, elsewhere), 1):
        await desk.submit([record])
        assert desk.event_kinds(review["id"]) == [*announced, *["SubmissionRefused"] * number]


async def test_new_repeat_of_an_edit_beside_its_redelivery_is_refused(desk: Desk) -> None:
    review = desk.review()
    edit = {**review, "review": "Sharper."}
    records = [desk.records(value, at=LONG_AGO + n)[0] for n, value in enumerate((review, edit))]
    await desk.submit(records)
    await desk.moderate(("delete", review["id"]))
    announced = desk.event_kinds(review["id"])
    await desk.submit([records[1], *desk.records(edit)])
    assert desk.event_kinds(review["id"]) == [*announced, "SubmissionRefused"]


async def test_rival_is_answered_as_it_is_announced(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a worker dies after an edit of the same batch, and the review is deleted before the redelivery."""
    review, command = desk.review(), new_id("command")
    rival, edit = {**review, "userId": "bert", "commandId": command}, {**review, "review": "Sharper."}
    await desk.submit(desk.records(review))
    records = desk.records(rival, edit)
    apply = ReviewEditor.apply

    async def die_after(*args: Any) -> Any:
        await apply(*args)
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(ReviewEditor, "apply", die_after)
        with pytest.raises(asyncio.CancelledError):
            await desk.submit(records)
    await desk.moderate(("delete", review["id"]))
    await desk.submit(records)
    (answer,) = await desk.services.outcomes.of_command(command, 2)
    assert (answer.outcome, answer.reason) == (Outcome.REFUSED, "id-taken")


async def test_repeat_of_an_array_after_a_deletion_is_not_announced_as_refused(desk: Desk) -> None:
    review = desk.review()
    twice = [review, {**review, "commandId": new_id("command")}]
    await desk.submit(desk.records(twice))
    await desk.moderate(("delete", review["id"]))
    announced = desk.event_kinds(review["id"])
    await desk.submit(desk.records(twice))
    assert desk.event_kinds(review["id"]) == announced


@pytest.mark.parametrize("is_cloud_event", [True, False])
@pytest.mark.parametrize("is_one_batch", [True, False])
async def test_used_command_of_an_equal_submission_in_its_record_stops_no_edit(
    desk: Desk, is_one_batch: bool, is_cloud_event: bool
) -> None:
    review, command = desk.review(), new_id("command")
    with_command, edit = {**review, "review": "Used.", "commandId": command}, {**review, "review": "Sharper."}
    values = (review, with_command, [edit, {**edit, "commandId": command}])
    records = [desk.records(value, at=LONG_AGO + n)[0] for n, value in enumerate(values)]
    if is_cloud_event:
        headers = [("ce_source", b"/shop"), ("ce_specversion", b"1.0"), ("ce_type", b"Review")]
        records = [replace(each, headers=(*headers, ("ce_id", str(n).encode()))) for n, each in enumerate(records)]
    for batch in [records] if is_one_batch else [[each] for each in records]:
        await desk.submit(batch)
    assert (await desk.stored(review["id"]))["review"] == "Sharper."
    await desk.submit(records)
    await desk.submit(records[2:])
    assert desk.event_kinds(review["id"]) == ["ReviewSubmitted", "ReviewEdited", "ReviewEdited"]
    assert await desk.outcomes(review["id"], command) == [Outcome.APPLIED]


async def test_redelivery_does_not_accept_refused_submission(desk: Desk) -> None:
    store = await desk.open_store(reviewsEnabled=False)
    first = desk.review(storeId=store)
    edited, theirs = {**first, "review": "Another text."}, {**first, "userId": "bert"}
    records = desk.records(first, edited, first, theirs)
    await desk.submit(records)
    await desk.open_store(store)
    await desk.submit(records)
    await desk.submit(records[1:])
    assert (await desk.stored(first["id"])).get("refused") == "reviews-disabled"
    assert desk.event_kinds(first["id"]) == ["SubmissionRefused"] * 3
    # A new submission is decided anew.
    await desk.submit(desk.records(edited))
    assert (await desk.stored(first["id"]))["review"] == "Another text."


async def test_interrupted_refusals_are_answered_with_their_own_reasons(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [await desk.open_store(reviewsEnabled=False), await desk.open_store(purchaseRequired=True)]
    review, commands = desk.review(), [new_id("command") for _ in stores]
    reviews = [{**review, "storeId": s, "commandId": c} for s, c in zip(stores, commands, strict=True)]
    outcomes, records = desk.services.outcomes, desk.records(*reviews)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(outcomes, "remember", AsyncMock(side_effect=asyncio.CancelledError))
        with pytest.raises(asyncio.CancelledError):
            await desk.submit(records)
    assert "refused" in await desk.stored(review["id"])
    await desk.submit(records)
    answers = [answer.reason for command in commands for answer in await outcomes.of_command(command, limit=2)]
    assert answers == ["reviews-disabled", "purchase-required"]
    assert [data["code"] for kind, data in desk.events() if kind == "SubmissionRefused"] == answers


async def test_events_keep_their_order_within_a_batch(desk: Desk) -> None:
    store = await desk.open_store(moderationRules=RULES)
    fair, good = desk.review(rating=3, storeId=store), desk.review(rating=5, storeId=store)
    edits: list[Json] = [{"rating": 4, "review": "Better."}, {"review": "A scam."}, {"rating": 4.5, "review": "Good."}]
    records = desk.records(fair, good, *({**each, **edit} for edit in edits for each in (fair, good)))
    await desk.submit(records)
    edited = ["ReviewEdited", "ReviewApproved", "ReviewEdited", "ReviewEdited", "ReviewApproved"]
    assert desk.event_kinds(fair["id"]) == ["ReviewSubmitted", *edited]
    assert desk.event_kinds(good["id"]) == ["ReviewSubmitted", "ReviewApproved", *edited]
    await desk.submit(records)
    assert desk.event_kinds(fair["id"]) == ["ReviewSubmitted", *edited]


async def test_parked_verdict_is_announced_after_its_review(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "LONGEST_PAUSE_S", 0.0)
    review = desk.review()
    await desk.judge(desk.verdicts(review, "approve"))
    publish = desk.kafka.publish

    async def fail_first(messages: Sequence[OutgoingMessage]) -> None:
        if messages:
            monkeypatch.setattr(desk.kafka, "publish", publish)
            for _ in range(100):  # anything that doesn't wait for the publication can proceed meanwhile
                await desk.database.command("ping")
            raise BrokerAwayError("away")

    monkeypatch.setattr(desk.kafka, "publish", fail_first)
    await desk.submit(desk.records(review))
    assert desk.event_kinds(review["id"]) == ["ReviewSubmitted", "ReviewApproved"]


async def test_verdict_given_up_meanwhile_is_not_applied(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has read it from the parking is slower than the one that gives it up."""
    review = desk.review()
    await desk.judge(desk.verdicts(review, "approve"))
    parking = desk.services.parked_verdicts
    about = MagicMock()
    about.return_value.__aiter__.return_value = [each async for each in parking.about([review["id"]])]
    assert await desk.parked.verdicts.give_up_overdue(datetime.now(UTC)) == 1
    monkeypatch.setattr(parking, "about", about)
    await desk.submit(desk.records(review))
    assert (await desk.stored(review["id"]))["status"] == ReviewStatus.NEW
    assert desk.event_kinds(review["id"]) == ["ReviewSubmitted"]


async def test_overdue_verdict_is_applied_if_its_review_is_stored(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker that stored the review was killed before it looked for parked verdicts."""
    review, missing = desk.review(), desk.review()
    await desk.judge(desk.verdicts(review, "approve") + desk.verdicts(missing, "approve"))
    with monkeypatch.context() as killed:
        killed.setattr(VerdictConsumer, "release", AsyncMock())
        await desk.submit(desk.records(review))
    assert await desk.parked.give_up_overdue(datetime.now(UTC)) == 1
    assert desk.event_kinds(review["id"]) == ["ReviewSubmitted", "ReviewApproved"]
    letters = [each.key for each in desk.kafka.published if each.topic == "test.moderation-verdicts.dlq"]
    assert letters == [missing["id"].encode()]
    assert await desk.parked.give_up_overdue(datetime.now(UTC)) == 0


async def test_events_keep_their_order_while_kafka_is_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "LONGEST_PAUSE_S", 0.0)
    review = desk.review(rating=3)
    await desk.submit(desk.records(review))
    desk.kafka.failures += [BrokerAwayError("away")] * 2
    await desk.moderate(("approve", review["id"]))
    await desk.moderate(("reject", review["id"]))
    assert desk.event_kinds(review["id"]) == ["ReviewSubmitted", "ReviewApproved", "ReviewRejected"]
    assert await desk.database["outbox"].count_documents({}) == 0


async def test_tombstones_have_current_time_not_record_time(desk: Desk) -> None:
    began = datetime.now(UTC) - timedelta(minutes=1)
    long_ago = began - timedelta(days=60)
    order, deleted, refused = new_id("order"), new_id("return"), new_id("return")
    await desk.order(an_order(order, {"a": 2}))
    commands = [
        {"action": "create", "return": wanted_return(order, {"a": 2}, id=deleted)},
        {"action": "delete", "return": {"id": deleted}},
        {"action": "create", "return": wanted_return(order, {"a": 3}, id=refused)},
    ]
    review = desk.review(storeId=await desk.open_store(reviewsEnabled=False))
    at = round(long_ago.timestamp() * 1_000)
    returned, submitted = desk.records(*commands, at=at), desk.records(review, at=at)
    for _ in range(2):
        await desk.command_returns(returned)
        await desk.submit(submitted)
        for id in (deleted, refused):
            place = await desk.database["returns"].find_one({"_id": id})
            assert place is not None
            assert place["refusedAt"] > began
        assert (await desk.stored(review["id"]))["goneAt"] > began
    events = [(kind, data["at"][:10]) for kind, data in desk.events() if data.get("returnId") in (deleted, refused)]
    assert events == [(kind, f"{long_ago:%Y-%m-%d}") for kind in ("ReturnCreated", "ReturnDeleted", "ReturnRefused")]


async def test_event_times_of_a_return_are_ascending(desk: Desk) -> None:
    order, id, now = new_id("order"), new_id("return"), round(datetime.now(UTC).timestamp() * 1_000)
    await desk.order(an_order(order, {"a": 2}))
    commands = [
        ({"action": "create", "return": wanted_return(order, {"a": 2}, id=id)}, now),
        ({"action": "update", "return": {"id": id, "status": "Approved"}}, now),
        ({"action": "update", "return": {"id": id, "status": "Completed"}}, now - 3_600_000),
        ({"action": "delete", "return": {"id": id}}, now),
    ]
    for command, at in commands:
        await desk.command_returns(desk.records(command, at=at))
    events = [(kind, data["at"]) for kind, data in desk.events() if data.get("returnId") == id]
    assert [kind for kind, _ in events] == ["ReturnCreated", "ReturnChanged", "ReturnChanged", "ReturnDeleted"]
    times = [datetime.fromisoformat(at) for _, at in events]
    assert times == [times[0] + number * timedelta(milliseconds=1) for number in range(4)]


@pytest.mark.long
async def test_token_of_refused_review_stays_usable(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await desk.open_store(purchaseRequired=True)
    token, signed = await desk.review_token(store)
    given = {"storeId": store, "userId": None, "token": signed}
    insert = desk.services.reviews.insert

    async def close_and_fail(*_: object) -> None:
        monkeypatch.setattr(desk.services.reviews, "insert", insert)
        await desk.open_store(store, reviewsEnabled=False)
        raise AutoReconnect("away")

    monkeypatch.setattr(desk.services.reviews, "insert", close_and_fail)
    first, second, third = (desk.review(**given) for _ in range(3))
    await desk.submit(desk.records(first))
    assert (await desk.stored(first["id"])).get("refused") == "reviews-disabled"
    assert await desk.services.review_tokens.used({token.line}) == {}
    await desk.open_store(store)
    await desk.submit(desk.records(second))
    await desk.submit(desk.records(third))
    assert (await desk.stored(second["id"]))["userId"] == token.customer_id
    assert (await desk.stored(third["id"])).get("refused") == "token-used"
    # Nor does a refused edit free the token of a stored review.
    await desk.open_store(store, reviewsEnabled=False)
    await desk.submit(desk.records({**second, "review": "Another text."}))
    assert await desk.services.review_tokens.used({token.line}) == {token.line: second["id"]}


async def test_repeated_verdict_undoes_no_decision(desk: Desk) -> None:
    review = desk.review()
    early, late = desk.verdicts(review, "approve", "approve")
    await desk.judge([early])
    await desk.submit(desk.records(review))
    for repeated in ([early], [early, late, late]):
        await desk.judge(repeated[-1:])
        assert (await desk.stored(review["id"]))["status"] == ReviewStatus.APPROVED
        await desk.moderate(("reset", review["id"]))
        await desk.judge(repeated)
        assert (await desk.stored(review["id"]))["status"] == ReviewStatus.NEW


async def submit_with_image(desk: Desk) -> tuple[Json, str]:
    """Store a review with a ready image; returns the review and the image's id."""
    image = str(uuid4())
    stored = StoredImage(image, ImageState.READY, datetime.now(UTC))
    await in_transaction(desk.database, lambda session: desk.services.images.save(stored, session))
    review = desk.review(images=[image])
    await desk.submit(desk.records(review))
    return review, image


async def test_repeated_image_command_counts_once_within_a_batch(desk: Desk) -> None:
    review, image = await submit_with_image(desk)
    commands = [
        {"action": action, "reviewId": review["id"], "imageId": image, "commandId": command}
        for action, command in (("hide", "first"), ("show", "second"), ("hide", "first"))
    ]
    await desk.command_images(desk.records(*commands))
    (after,) = images_from(await desk.stored(review["id"]))
    assert (after.id, after.is_hidden) == (image, False)
    assert await desk.outcomes(image, "first", "second") == [Outcome.APPLIED, Outcome.APPLIED]


async def test_refused_deletion_keeps_votes_and_reports(desk: Desk) -> None:
    review = desk.review()
    await desk.submit(desk.records(review))
    await desk.database["votes"].insert_one({"_id": {"reviewId": review["id"], "userId": "u"}, "helpful": True})
    await desk.database["reports"].insert_one({"_id": "report", "reviewId": review["id"]})
    await desk.moderate(("delete", review["id"]), expectedStatus="Approved")
    counts = [await desk.database[name].count_documents({}) for name in ("votes", "reports")]
    await desk.moderate(("delete", review["id"]))
    counts += [await desk.database[name].count_documents({}) for name in ("votes", "reports")]
    assert counts == [1, 1, 0, 0]


async def test_approval_of_outdated_text_is_refused(desk: Desk) -> None:
    """The edit is consumed first, as is possible, and the decision names the text that the moderator saw."""
    review = desk.review(title="As it was", review="Harmless")
    await desk.submit(desk.records(review))
    seen = text_hash("As it was", "Harmless")
    await desk.submit(desk.records({**review, "review": "Buy at www.example.com"}))
    await desk.moderate(("approve", review["id"]), textHash=seen, commandId="late")
    answers = await desk.services.outcomes.answers([("late", review["id"])])
    assert [(answer.outcome, answer.reason) for answer in answers.values()] == [(Outcome.REFUSED, "text-changed")]
    assert (await desk.stored(review["id"]))["status"] == ReviewStatus.NEW
    await desk.moderate(("approve", review["id"]), textHash=text_hash("As it was", "Buy at www.example.com"))
    assert (await desk.stored(review["id"]))["status"] == ReviewStatus.APPROVED


async def test_redelivered_image_command_undoes_no_later_one(desk: Desk) -> None:
    review, image = await submit_with_image(desk)
    about = {"reviewId": review["id"], "imageId": image}
    hide, show = desk.records(*({**about, "action": action} for action in ("hide", "show")))
    for batch in ([hide, show], [hide]):
        await desk.command_images(batch)
        (after,) = images_from(await desk.stored(review["id"]))
        assert not after.is_hidden


async def test_outdated_refusal_is_not_replaced(desk: Desk) -> None:
    store = await desk.open_store(reviewsEnabled=False)
    review = desk.review(storeId=store)
    reviews = desk.services.reviews

    async def place() -> RefusedSubmission:
        await desk.submit(desk.records(review))
        refused = (await reviews.holders([review["id"]]))[review["id"]].refused
        assert refused is not None
        return refused

    before, after = await place(), await place()
    assert (before.reason, before.seen != after.seen) == (after.reason, True)
    assert not await reviews.replace_refused(before, before)
    assert await reviews.replace_refused(after, after)


async def test_replanned_approval_stays_planned(desk: Desk) -> None:
    review = desk.review()
    await desk.submit(desk.records(review))
    plans, now = PlannedApprovalRepository(desk.database), datetime.now(UTC)

    async def plan(at: datetime) -> None:
        planned = {review["id"]: PlannedApproval(review["id"], at, "stars")}
        await in_transaction(desk.database, lambda session: plans.plan(planned, session))

    await plan(now)
    due = await plans.due(now, 10)
    await plan(now + timedelta(hours=1))
    assert [each.review_id for each in due] == [review["id"]]
    assert await in_transaction(desk.database, lambda session: plans.take(due, session)) == []
    (left,) = await plans.due(now + timedelta(hours=1), 10)
    assert await in_transaction(desk.database, lambda session: plans.take([left], session)) == [left]


async def test_verification_by_token_is_kept(desk: Desk) -> None:
    review, purchases = desk.review(userId="anna"), desk.services.purchases
    await desk.submit(desk.records(review))
    await desk.database["reviews"].update_one({"_id": review["id"]}, {"$set": {"verifiedPurchase": True}})
    (found,) = await purchases.reviews_of(["anna"])
    await in_transaction(desk.database, lambda session: purchases.verify_for_good([review["id"]], session))
    await purchases.save_verification([found._replace(is_verified=False)])
    assert (await desk.stored(review["id"]))["verifiedPurchase"] is True


@dataclass
class Letters:
    """Dead letters by their places."""

    letters: Mapping[str, Record]

    @asynccontextmanager
    async def open(self) -> "AsyncIterator[Letters]":
        yield self

    async def at(self, place: LetterPlace) -> Record:
        return self.letters[str(place)]


async def test_interrupted_replays_keep_their_order(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is killed between the record of the first replay and its publication."""
    monkeypatch.setattr(outbox, "OVERDUE", timedelta(0))
    values = [b'{"id": "shop", "name": "%d"}' % n for n in range(2)]
    topic = f"{TOPICS.prefix}{Topic.STORE_UPDATES}{DEAD_LETTER_SUFFIX}"
    letters = {f"store-updates/0/{n}": Record(n, topic=topic, value=value) for n, value in enumerate(values)}
    batch = [Received(Record(n), ReplayCommand(place=place)) for n, place in enumerate(letters)]
    consumer = ReplayConsumer(desk.services, cast(Any, Letters(letters)))
    desk.kafka.failures.append(RuntimeError("killed"))
    with pytest.raises(RuntimeError):
        await consumer(batch)
    await consumer(batch)
    published = [json.loads(each.value or b"")["name"] for each in desk.kafka.published if each.topic == topic[:-4]]
    assert published == ["0", "1"]
