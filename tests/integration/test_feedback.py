"""Replies, votes and reports, over HTTP and Kafka."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from tests.support.facade import REVIEWS, Facade, body_of, errors_of, new_id, once, problem_of, submission
from tests.support.messages import Message, message
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

REPORT = {"reason": "off-topic", "explanation": "Of another lens", "email": "b@example.org", "goodFaith": True}


def feedback(action: str, review: str, **fields: Any) -> Message:
    return message({"action": action, "reviewId": review, **fields}, key=review)


async def outcome(facade: Facade, method: str, path: str, body: Any = None, **headers: str) -> str:
    (result,) = await facade.command(method, f"{REVIEWS}/{path}", body, headers)
    return str(result["outcome"])


async def events_of_kind(service: Service, product: str, kind: str, count: int) -> list[Json]:
    """Wait for this many events of a kind about a product's reviews: they may follow the answer to a command."""

    async def of_kind() -> list[Json]:
        return [event for each, event in await service.events(f"Product:{product}") if each == kind]

    return await eventually(of_kind, lambda found: len(found) >= count)


async def counts(facade: Facade, id: str) -> tuple[int, int, int]:
    review = await facade.review(id)
    return review["helpful"], review["notHelpful"], review["reports"]


async def test_reply_is_added_changed_and_removed(facade: Facade, service: Service, product: str) -> None:
    (id,) = await facade.submit(submission(product, 2))
    key = once()
    assert await outcome(facade, "POST", f"{id}/reply", {"text": "Sorry.", "author": "The shop"}, **key) == "applied"
    first = (await facade.review(id))["reply"]
    assert (first["text"], first["author"], first["createdDate"]) == ("Sorry.", "The shop", first["modifiedDate"])
    assert await outcome(facade, "POST", f"{id}/reply", {"text": "Sorry.", "author": "The shop"}) == "unchanged"
    assert await outcome(facade, "POST", f"{id}/reply", {"text": "We are sorry."}) == "applied"
    await facade.command("POST", f"{REVIEWS}/{id}/reply", {"text": "Sorry.", "author": "The shop"}, key)
    second = (await facade.review(id))["reply"]
    assert (second["text"], second["author"], second["createdDate"]) == ("We are sorry.", None, first["createdDate"])
    assert second["modifiedDate"] > first["modifiedDate"]
    assert await outcome(facade, "DELETE", f"{id}/reply") == "applied"
    assert await outcome(facade, "DELETE", f"{id}/reply") == "unchanged"
    assert (await facade.review(id))["reply"] is None
    assert [event["reply"] for event in await events_of_kind(service, product, "ReviewReplied", 3)] == [
        first,
        second,
        None,
    ]
    audit = (await facade.get("/api/audit", reviewId=id))["results"]
    assert [entry["action"] for entry in audit] == ["remove-reply", "reply", "reply"]


@pytest.mark.long
async def test_last_vote_of_voter_counts(facade: Facade, product: str) -> None:
    (id,) = await facade.submit_approved(submission(product))
    path = f"{id}/votes"
    assert await outcome(facade, "POST", path, {"userId": "u", "helpful": True}) == "applied"
    assert await outcome(facade, "POST", path, {"userId": "u", "helpful": True}) == "unchanged"
    assert await outcome(facade, "POST", path, {"userId": "v", "helpful": True}) == "applied"
    assert await outcome(facade, "POST", path, {"userId": "u", "helpful": False}) == "applied"
    assert await counts(facade, id) == (1, 1, 0)
    modified = (await facade.review(id))["modifiedDate"]
    assert await outcome(facade, "DELETE", path, {"userId": "u"}) == "applied"
    assert await outcome(facade, "DELETE", f"{path}?userId=v") == "applied"
    assert await outcome(facade, "DELETE", f"{path}?userId=v") == "unchanged"
    assert await counts(facade, id) == (0, 0, 0)
    assert (await facade.review(id))["modifiedDate"] == modified
    assert errors_of(await facade.http.post(f"{REVIEWS}/{path}", json={"helpful": True})) == [("/userId", "missing")]


async def test_feedback_on_unpublished_reviews_is_not_found(facade: Facade, product: str) -> None:
    (new,) = await facade.submit(submission(product))
    (rejected,) = await facade.submit(submission(product))
    await facade.moderate("reject", rejected)
    for id in (new, rejected, new_id()):
        for method, part, body in (
            ("POST", "votes", {"userId": "u", "helpful": True}),
            ("DELETE", "votes", {"userId": "u"}),
            ("POST", "reports", REPORT),
        ):
            answer = await facade.http.request(method, f"{REVIEWS}/{id}/{part}", json=body)
            assert problem_of(answer, 404)["detail"] == "There is no approved review with this id."
    assert await counts(facade, new) == (0, 0, 0)


@pytest.mark.long
async def test_reported_review_is_queued_until_decision(facade: Facade, service: Service, product: str) -> None:
    reported, other = await facade.submit_approved(submission(product), submission(product))
    path, key = f"{reported}/reports", once()
    assert await outcome(facade, "POST", path, REPORT, **key) == "applied"
    await facade.command("POST", f"{REVIEWS}/{path}", REPORT, key)
    assert await outcome(facade, "POST", path, {**REPORT, "reason": "spam", "name": "Berta"}) == "applied"
    assert await counts(facade, reported) == (0, 0, 2)
    assert (await facade.review(reported))["reviewStatus"] == "Approved"
    search = partial(facade.listed, entityIds=[product])
    assert await search(reported=True) == [reported]
    assert await search(reported=False) == [other]
    assert await search(sort="reports:desc") == [reported, other]
    assert (await facade.page(entityIds=[product], reported=True, take=0))["totalCount"] == 1

    # Keeping the review is a decision, too.
    assert await facade.moderate("approve", reported) == ["unchanged"]
    assert await counts(facade, reported) == (0, 0, 0)
    assert await search(reported=True) == []
    assert await outcome(facade, "POST", path, {**REPORT, "reason": "other"}) == "applied"
    page = await facade.get(f"{REVIEWS}/{path}", take="2")
    assert page["totalCount"] == 3
    assert [(row["reason"], row["settled"] and row["settled"]["action"]) for row in page["results"]] == [
        ("other", None),
        ("spam", "approve"),
    ]
    events = await events_of_kind(service, product, "ReviewReported", 3)
    assert [(event["reviewId"], event["reports"]) for event in events] == [(reported, 1), (reported, 2), (reported, 1)]
    audit = (await facade.get("/api/audit", reviewId=reported))["results"]
    assert [entry["action"] for entry in audit] == ["approve", "approve"]
    problem_of(await facade.http.get(f"{REVIEWS}/{new_id()}/reports"), 404)


@pytest.mark.long
async def test_many_reports_are_settled_in_batches(facade: Facade, service: Service, product: str) -> None:
    (id,) = await facade.submit_approved(submission(product))
    now = datetime.now(UTC)
    given = {"reviewId": id, "reason": "spam", "explanation": "No", "at": now, "isOpen": True}
    nobody = dict.fromkeys(("name", "email", "emailKey", "userId"))
    async with service.mongo() as database:
        await database["reports"].insert_many([{"_id": f"{id}/{n}", **given, **nobody} for n in range(10_001)])
        later = {"_id": f"{id}/later", **given, **nobody, "at": now + timedelta(days=1)}
        await database["reports"].insert_one(later)
        await database["reviews"].update_one({"_id": id}, {"$set": {"reports": 10_002}})
        assert await facade.moderate("approve", id) == ["unchanged"]
        await eventually(partial(counts, facade, id), lambda found: found == (0, 0, 1))
        waiting = await database["reports"].find({"reviewId": id, "isOpen": True}).to_list()
        assert [report["_id"] for report in waiting] == [f"{id}/later"]
        assert await facade.moderate("delete", id) == ["applied"]
        await eventually(partial(database["reports"].count_documents, {"reviewId": id}), lambda found: found == 0)


async def test_feedback_is_parked_and_deleted_with_its_review(facade: Facade, service: Service, product: str) -> None:
    id, command = new_id("review"), new_id("command")
    early = [
        feedback("vote", id, userId="u", helpful=True),
        feedback("vote", id, userId="v", helpful=False),
        feedback("vote", id, userId="u", helpful=False, commandId=command),
        feedback("reply", id, text="Thanks", createdDate="2020-01-02T03:04:05Z", moderator="eve"),
        feedback("report", id, reason="spam", explanation="No", goodFaith=True),
    ]
    await service.publish("review-feedback", *early)
    async with service.mongo() as database:
        parked = database["parkedCommands"]
        await eventually(partial(parked.count_documents, {"reviewId": id}), lambda found: found == len(early))
        waiting = await facade.get(f"/api/commands/{command}")
        assert (waiting["outcome"], waiting["results"]) == ("accepted", [{"id": id, "outcome": "not-found"}])
        await facade.submit(submission(product, 4, id=id))
        await eventually(partial(counts, facade, id), lambda found: found == (0, 2, 1))
        reply = (await facade.review(id))["reply"]
        assert (reply["createdDate"], reply["modifiedDate"]) == ("2020-01-02T03:04:05.000Z",) * 2
        await eventually(partial(parked.count_documents, {"reviewId": id}), lambda found: found == 0)

        # Redelivered: neither the report nor the withdrawn vote comes back.
        await service.publish("review-feedback", feedback("remove-vote", id, userId="u"), early[4])
        await eventually(partial(counts, facade, id), lambda found: found == (0, 1, 1))
        await facade.moderate("delete", id)
        for name in ("votes", "reports"):
            left = partial(database[name].count_documents, {"$or": [{"_id.reviewId": id}, {"reviewId": id}]})
            await eventually(left, lambda found: found == 0)
        await service.publish(
            "review-feedback", feedback("vote", id, userId="u", helpful=True, commandId=f"{command}2")
        )
        path = f"/api/commands/{command}2"

        async def gone() -> Json:
            answer = await facade.http.get(path)
            return answer.json() if answer.status_code == 200 else {}

        state = await eventually(gone, bool)
        assert state["results"] == [{"id": id, "outcome": "not-found"}]
        assert await database["votes"].count_documents({"_id.reviewId": id}) == 0


@pytest.mark.long
async def test_sorting_by_helpful_votes_across_pages(facade: Facade, product: str) -> None:
    ids = await facade.submit_approved(*(submission(product, 4, id=new_id(f"review{n}")) for n in range(6)))
    for voters, id in ((2, ids[3]), (1, ids[1]), (1, ids[4])):
        for voter in range(voters):
            await outcome(facade, "POST", f"{id}/votes", {"userId": f"u{voter}", "helpful": True})
    tied, others = sorted([ids[1], ids[4]], reverse=True), sorted([ids[0], ids[2], ids[5]], reverse=True)
    expected = [ids[3], *tied, *others]
    for sort in ("helpful:desc", "helpful:desc;id:desc", "helpful:asc;id:asc"):
        ordered = expected if "asc" not in sort else expected[::-1]
        search: dict[str, Any] = {"entityIds": [product], "sort": sort}
        assert await facade.listed(**search) == ordered
        for size in (1, 2, 4):
            skipped = [await facade.listed(**search, take=size, skip=skip) for skip in range(0, 8, size)]
            assert [id for page in skipped for id in page] == ordered
            page = await facade.page(**search, take=size)
            found = [row["id"] for row in page["results"]]
            while "next" in page:
                page = await facade.page(**search, take=size, after=page["next"])
                found += [row["id"] for row in page["results"]]
            assert found == ordered


async def test_rejection_has_reason_code(facade: Facade, service: Service, product: str) -> None:
    (id,) = await facade.submit(submission(product))
    path = f"{REVIEWS}/reject?reasonCode=Fake"
    body_of(await retry_until_decided(partial(facade.http.post, path, json=[id], headers=once())), dict)
    assert (await facade.review(id))["reasonCode"] == "fake"
    (entry,) = (await facade.get("/api/audit", reviewId=id))["results"]
    assert entry["reasonCode"] == "fake"
    assert [event["reasonCode"] for event in await events_of_kind(service, product, "ReviewRejected", 1)] == ["fake"]
    await facade.moderate("approve", id)
    assert (await facade.review(id))["reasonCode"] is None
    for query in ("reject?reasonCode=low-rating", "approve?reasonCode=fake"):
        assert (await facade.http.post(f"{REVIEWS}/{query}", json=[id])).status_code == 422
