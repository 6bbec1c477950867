"""Changes between two queries whose results are combined: nothing is lost, and no answer is wrong."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from api.services import Services
from console.sign_in.ended import EndedSessions
from consumers.images.sweeping import sweep_images
from consumers.reviews.edits import ReviewEditor
from domain.commands import Outcome
from domain.review_tokens import ReviewToken, TokenLine
from plaudit.tools.privacy_erasure import forget_everywhere
from storage.database import Session, in_transaction
from storage.feedback.repository import FeedbackRepository
from storage.feedback.votes import VoteRepository
from storage.moderation_rules import TextRepository
from storage.outcomes import OutcomeRepository
from storage.privacy.erasures import Erasures
from storage.privacy.repository import PersonalData
from storage.review_tokens import ReviewTokenRepository, UsedToken
from storage.reviews.repository import ReviewRepository
from tests.support.consumers import Desk
from tests.support.facade import REVIEWS, Facade, body_of, new_id, submission
from tests.support.images import picture
from tests.support.service import Json, Service

KEY = "key of a text"


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], question: str, happens: Callable[[], Awaitable[object]]
) -> None:
    """Let something happen once, immediately after the first answer to a query."""
    plain = getattr(kind, question)

    async def answer_then_happen(self: object, *arguments: Any, **options: Any) -> object:
        answer = await plain(self, *arguments, **options)
        monkeypatch.setattr(kind, question, plain)
        await happens()
        return answer

    monkeypatch.setattr(kind, question, answer_then_happen)


async def test_concurrent_takeover_of_text_has_one_winner(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = desk.services.texts
    await texts.holders([("old", [KEY])])
    edited = {"_id": "old", "entityType": "Product", "entityId": "1", "review": "Something else by now"}
    await desk.database["reviews"].insert_one(edited)
    meanwhile(monkeypatch, TextRepository, "_freed_keys", partial(texts.holders, [("quick", [KEY])]))
    assert await texts.holders([("slow", [KEY])]) == {KEY: "quick"}
    assert await texts.holders([("later", [KEY])]) == {KEY: "quick"}


async def test_text_forgotten_during_lookup_is_noted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = desk.services.texts
    await texts.holders([("old", [KEY])])
    plain = TextRepository.noted

    async def forgotten(self: TextRepository, keys: Collection[str]) -> Mapping[str, str]:
        await texts.forget(["old"])
        return await plain(self, keys)

    monkeypatch.setattr(TextRepository, "noted", forgotten)
    assert await texts.holders([("new", [KEY])]) == {KEY: "new"}
    monkeypatch.undo()
    assert await texts.holders([("later", [KEY])]) == {KEY: "new"}


async def test_workers_frozen_in_turn_free_no_token_in_use(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reviews of one customer: the second one is refused, until the first one is deleted."""
    store = await desk.open_store(oneReviewPerCustomer=True)
    token, signed = await desk.review_token(store)
    first, refused = desk.review(storeId=store, userId=token.customer_id), desk.review(storeId=store, token=signed)
    again = {**refused, "userId": token.customer_id}
    batch, later = desk.records(first, again), desk.records(again)
    frozen, continues, others = asyncio.Event(), asyncio.Event(), list[asyncio.Task[None]]()

    async def freeze() -> None:
        frozen.set()
        await continues.wait()

    async def redeliver() -> None:
        meanwhile(monkeypatch, ReviewEditor, "apply", freeze)
        others.append(asyncio.create_task(desk.submit(batch)))
        await frozen.wait()
        await desk.moderate(("delete", first["id"]))

    meanwhile(monkeypatch, ReviewTokenRepository, "used", redeliver)
    await desk.submit([*batch, *later])
    continues.set()
    await asyncio.gather(*others)
    assert (await desk.stored(refused["id"]))["provenByToken"]
    assert await desk.services.review_tokens.used({token.line}) == {token.line: refused["id"]}


@pytest.mark.parametrize("is_in_transaction", [False, True])
async def test_token_that_another_review_uses_meanwhile_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_in_transaction: bool
) -> None:
    store = await desk.open_store(purchaseRequired=True)
    _, signed = await desk.review_token(store)
    slow, quick, next_one = (desk.review(storeId=store, userId=None, token=signed) for _ in range(3))
    use_up = partial(desk.submit, desk.records(quick))

    async def wait_for_transaction() -> None:
        meanwhile(monkeypatch, ReviewTokenRepository, "used", use_up)

    meanwhile(monkeypatch, ReviewTokenRepository, "used", wait_for_transaction if is_in_transaction else use_up)
    await desk.submit(desk.records(slow, next_one))
    assert [(await desk.stored(each["id"])).get("refused") for each in (slow, next_one)] == ["token-used"] * 2
    assert (await desk.stored(quick["id"]))["provenByToken"]


@pytest.mark.parametrize("is_together", [False, True])
async def test_edit_whose_token_another_review_uses_meanwhile_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_together: bool
) -> None:
    store = await desk.open_store()
    token, signed = await desk.review_token(store)
    edited, quick = (desk.review(storeId=store, userId=token.customer_id) for _ in range(2))
    await desk.submit(desk.records(edited))
    edit, other = {**edited, "review": "Other words.", "token": signed}, {**quick, "token": signed}
    records = desk.records(edit, other) if is_together else desk.records(edit)
    if not is_together:
        meanwhile(monkeypatch, ReviewTokenRepository, "used", partial(desk.submit, desk.records(other)))
    for _ in range(2):
        await desk.submit(records)
        assert (await desk.stored(edited["id"]))["review"] == edited["review"]
        assert [(await desk.stored(each["id"])).get("provenByToken") for each in (edited, quick)] == [None, True]


async def test_frozen_worker_announces_no_refusal_of_applied_edit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker applies the edit, and the review is deleted, while this one is frozen."""
    review = desk.review()
    await desk.submit(desk.records(review))
    records = desk.records({**review, "review": "Other words."})

    async def apply_and_delete() -> None:
        await desk.submit(records)
        await desk.moderate(("delete", review["id"]))

    meanwhile(monkeypatch, ReviewEditor, "_stores", apply_and_delete)
    await desk.submit(records)
    assert desk.event_kinds(review["id"]) == ["ReviewSubmitted", "ReviewEdited", "ReviewDeleted"]
    # An edit that comes after the deletion is refused.
    await desk.submit(desk.records({**review, "review": "Once more."}))
    assert desk.event_kinds(review["id"])[3:] == ["SubmissionRefused"]


async def erased(desk: Desk, person: str) -> None:
    """Erase a person from all that workers have processed."""
    await desk.services.erasures.begin(person, datetime.now(UTC))
    await forget_everywhere(PersonalData(desk.database, person))


@pytest.mark.parametrize(
    ("kind", "question"),
    [
        (ReviewRepository, "entities"),
        (FeedbackRepository, "load"),
        (Erasures, "latest"),
        (VoteRepository, "load"),
        (OutcomeRepository, "answers"),
    ],
)
@pytest.mark.parametrize("command", [{}, {"commandId": "vote"}], ids=["without id", "with id"])
async def test_frozen_worker_brings_no_erased_vote_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, kind: type[Any], question: str, command: Json
) -> None:
    """Another worker applies the vote, its voter is erased, and its outcome forgotten, while this one is frozen."""
    review, anna = desk.review(), new_id("anna")
    vote = {"action": "vote", "reviewId": review["id"], "userId": anna, "helpful": True, **command}
    await desk.submit(desk.records(review))
    records = desk.records(vote)

    async def erase() -> None:
        await desk.give_feedback(records)
        assert (await desk.stored(review["id"]))["helpful"] == 1
        await erased(desk, anna)
        await desk.database["outcomes"].delete_many({"_id": f"vote/{review['id']}"})

    meanwhile(monkeypatch, kind, question, erase)
    await desk.give_feedback(records)
    assert await desk.database["votes"].count_documents({}) == 0
    assert "helpful" not in await desk.stored(review["id"])
    assert await desk.outcomes(review["id"], "vote") == [Outcome.UNCHANGED] * len(command)
    # A later vote is one of somebody who came again.
    later = desk.records(
        {**vote, **dict.fromkeys(command, "later")}, at=round(datetime.now(UTC).timestamp() * 1_000) + 10
    )
    await desk.give_feedback(later)
    assert (await desk.stored(review["id"]))["helpful"] == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "vote", "helpful": True},
        {"action": "report", "reason": "spam", "explanation": "No", "goodFaith": True},
    ],
    ids=["vote", "report"],
)
@pytest.mark.parametrize("has_come", [False, True], ids=["review unknown", "review stored"])
async def test_frozen_worker_brings_no_parked_feedback_of_erased_person_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, fields: Json, has_come: bool
) -> None:
    """Another worker parks the feedback, and its sender is erased, while this one is frozen."""
    anna, review = new_id("anna"), desk.review()
    others, own = ({"reviewId": review["id"], "userId": id, **fields} for id in ("berta", anna))
    records = desk.records(others, own)

    async def erase() -> None:
        await desk.give_feedback(records)
        await erased(desk, anna)
        if has_come:
            await desk.submit(desk.records(review))

    meanwhile(monkeypatch, ReviewRepository, "entities", erase)
    await desk.give_feedback(records)
    if not has_come:
        assert await desk.database["parkedCommands"].distinct("command.userId") == ["berta"]
        await desk.submit(desk.records(review))
    votes, reports = (desk.database[name] for name in ("votes", "reports"))
    assert [*await votes.distinct("_id.userId"), *await reports.distinct("userId")] == ["berta"]


async def test_lines_with_same_id_have_a_token_per_product(desk: Desk) -> None:
    tokens, used = desk.services.review_tokens, desk.database["usedReviewTokens"]
    camera = ReviewToken("Shop", new_id("order"), "line", "camera", "anna", datetime.now(UTC) + timedelta(days=1))
    tripod, case = replace(camera, product_id="tripod"), replace(camera, product_id="case")
    of_camera, of_tripod, of_case = (UsedToken(token, token.product_id) for token in (camera, tripod, case))
    lines = {camera.line: "camera", tripod.line: "tripod"}

    async def use(*uses: UsedToken) -> dict[TokenLine, str]:
        await in_transaction(desk.database, partial(tokens.use, uses))
        return await tokens.used({each.token.line for each in uses})

    for _ in range(2):
        assert await use(of_camera, replace(of_tripod), replace(of_tripod, review_id="late")) == lines
    # Only this one has the id that earlier versions know.
    assert await used.count_documents({"_id": {"orderId": camera.order_id, "lineId": "line"}}) == 1
    again = replace(of_tripod, review_id="again")
    assert await use(again, of_case) == {tripod.line: "tripod", case.line: "case"}
    assert await tokens.used(lines) == lines
    assert await used.count_documents({"_id.orderId": camera.order_id}) == 3


async def given_up_image(desk: Desk) -> str:
    image = await desk.upload(picture(), uploader="anna")
    await in_transaction(desk.database, partial(desk.services.images.give_up, [image]))
    return image


async def test_files_written_during_sweep_are_removed_by_next(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    now, services, image = datetime.now(UTC), desk.services, await given_up_image(desk)

    async def written() -> None:
        async def note(session: Session) -> None:
            await services.images.note_unswept(image, session)

        await in_transaction(desk.database, note)

    meanwhile(monkeypatch, type(services.image_files), "remove", written)
    for left in (1, 0):
        await sweep_images(services, now, AsyncMock(return_value=now))
        assert await desk.database["images"].count_documents({"unswept": {"$exists": True}}) == left


async def test_concurrent_sweeps_both_finish(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    now, services = datetime.now(UTC), desk.services
    await given_up_image(desk)

    async def begun() -> None:
        await services.images.unswept(now, 500)

    meanwhile(monkeypatch, type(services.image_files), "remove", begun)
    await sweep_images(services, now, AsyncMock(return_value=now))
    assert await services.images.unswept(now, 500) == {}


async def test_session_ended_during_lookup_has_ended() -> None:
    """The API instance that ends the session knows it before MongoDB does."""

    async def publish(messages: object) -> None:
        pass  # published to Kafka

    async def is_ended(id: str) -> bool:
        await ended.end(id)
        return False

    known = SimpleNamespace(
        sessions=SimpleNamespace(is_ended=is_ended),
        publisher=SimpleNamespace(publish=publish),
        message=lambda *arguments: arguments,
    )
    ended = EndedSessions(cast("Services", known))
    assert await ended.contains("session")
    assert await ended.contains("session")


@pytest.mark.long
async def test_change_committed_after_its_time_is_listed(service: Service, facade: Facade, product: str) -> None:
    """An entry gets its time in the transaction, which commits later."""
    (review,) = await facade.submit(submission(product))
    await facade.moderate("approve", review)
    async with service.mongo() as database:
        long_ago = datetime.now(UTC) - timedelta(minutes=1)
        older = {"$set": {"createdDate": long_ago}, "$unset": {"storedAt": ""}}
        await database["reviews"].update_one({"_id": review}, older)
        entry = await database["auditLog"].find_one({"reviewId": review})
    assert entry is not None
    for later_s, is_listed in ((1, True), (10, False)):
        since = entry["effectiveAt"].replace(tzinfo=UTC) + timedelta(seconds=later_s)
        response = await facade.http.post(f"{REVIEWS}/changes", json={"modifiedDate": since.isoformat()})
        assert (product in body_of(response, list)) is is_listed
