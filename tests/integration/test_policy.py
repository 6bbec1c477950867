"""The review policy of a store, and the report of decisions."""

import json
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from domain.reviews import ReviewStatus
from domain.reviews_facts import ReasonCode
from storage.policy import DecisionCounts
from tests.support.consumers import Desk
from tests.support.facade import REVIEWS, Facade, new_id, submission
from tests.support.messages import review_message
from tests.support.service import Json, Service


@pytest.mark.long
async def test_policy_and_report_count_decisions(facade: Facade, http: httpx.AsyncClient, service: Service) -> None:
    assert (await http.get(f"/api/stores/{new_id('store')}/review-policy")).status_code == 404
    store = await facade.open_store()
    entity = new_id()
    ids = await facade.submit(*[submission(entity, rating, storeId=store) for rating in (5, 4.5, 4, 1, 3, 2)])
    await facade.moderate("approve", *ids[:2])
    await facade.moderate("reject", *ids[2:4])
    await facade.command("POST", f"{REVIEWS}/reject?reasonCode=spam", ids[5:])

    policy = await facade.get(f"/api/stores/{store}/review-policy")
    assert (policy["storeId"], policy["writers"], policy["purchaseRequired"]) == (store, "everybody", False)
    assert policy["decisions"] == {
        "approved": {"1": 0, "2": 0, "3": 0, "4": 0, "5": 2},
        "rejected": {"1": 1, "2": 1, "3": 0, "4": 1, "5": 0},
        "rejectedByReason": {"none": 2, "spam": 1},
    }
    assert "With 5 stars: 2 published, 0 rejected." in policy["sentences"]

    report = json.loads((await service.run("reviews", "report", "--store", store, "--json")).stdout)
    assert [report[name] for name in ("submitted", "approved", "rejected", "waiting")] == [6, 2, 3, 1]
    assert [each["rejected"] for each in report["byStars"]] == [1, 1, 0, 1, 0]
    assert report["medianSecondsToDecision"] > 0
    old = new_id("review")
    imported = submission(entity, storeId=store, id=old, source="import", writtenDate="2020-05-06T07:08:09Z")
    await service.publish("review-submissions", review_message(imported))
    await facade.until_listed(entity, 7)
    await facade.moderate("approve", old)
    report = json.loads((await service.run("reviews", "report", "--store", store, "--json")).stdout)
    assert (report["submitted"], report["approved"]) == (7, 3)
    whole = json.loads((await service.run("reviews", "report", "--to", "2020-05-07", "--json")).stdout)
    assert whole["submitted"] >= 1
    assert whole["medianSecondsToDecision"] < 86_400, "counts from the written date, not from the import"
    later = ("reviews", "report", "--store", store, "--from", "2100-01-01", "--csv")
    rows = (await service.run(*later)).stdout.splitlines()
    assert rows[0] == "figure,of,value"
    assert "submitted,,0" in rows
    await service.run("reviews", "report", "--csv", "--json", code=2)


async def test_policy_of_a_store_that_publishes_everything_unchecked(facade: Facade) -> None:
    fields = ("checkedBeforePublication", "editsCheckedAgain")
    policy = await facade.get(f"/api/stores/{await facade.open_store()}/review-policy")
    assert [policy[each] for each in fields] == [True, True]
    store = await facade.open_store(moderationRules=[{"id": "all", "kind": "always", "outcome": "approve"}])
    policy = await facade.get(f"/api/stores/{store}/review-policy")
    assert [policy[each] for each in fields] == [False, False]
    assert "Every review is published without a check by a moderator." in policy["sentences"]


@pytest.mark.long
async def test_unknown_store_and_invalid_period(service: Service, facade: Facade, tmp_path: Path) -> None:
    store, other = await facade.open_store(), new_id("store")
    commands = [("reviews", "report"), ("ratings", "rebuild"), ("export", "--format", "jsonl")]
    for command in commands:
        error = (await service.run(*command, "--store", other, code=1)).stderr
        assert f"There is no store {other}. The stores are: " in " ".join(error.split())
        await service.run(*command, "--store", store)
    file = tmp_path / "reviews.jsonl"
    file.write_text("an earlier export")
    error = (await service.run("export", "-o", str(file), "--entity-type", "Typo", code=1)).stderr
    assert "No review is of the type Typo. The types are: " in " ".join(error.split())
    assert file.read_text() == "an earlier export"
    error = (await service.run("reviews", "report", "--from", "2026-02-01", "--to", "2026-01-01", code=2)).stderr
    assert "--from must be before --to" in error


async def test_damaged_reviews_do_not_affect_counts_of_others(desk: Desk) -> None:
    store = await desk.open_store()
    unknown, unusable = {"reasonCode": "new"}, {"modifiedDate": "now"}
    damage: list[Json] = [{}, {"status": 7}, unusable, unknown, {"ratingHundredths": 90_000}]
    reviews = [desk.review(storeId=store, rating=2) for _ in damage]
    await desk.submit(desk.records(*reviews))
    await desk.moderate(*(("reject", each["id"]) for each in reviews), reasonCode="spam")
    for review, fields in zip(reviews, damage, strict=True):
        await desk.database["reviews"].update_one({"_id": review["id"]}, {"$set": fields or {"userName": "Anna"}})
    counts = DecisionCounts(desk.database)
    report = await counts.report(store, None, None)
    assert (report.decisions.submitted, report.damaged, len(report.seconds)) == (2, 2, 2)
    assert report.decisions.by_reason == {ReasonCode.SPAM: 1, None: 1}
    of_store = await counts.newest(store)
    assert of_store.by_stars[ReviewStatus.REJECTED] == {1: 0, 2: 3, 3: 0, 4: 0, 5: 0}
    assert of_store.by_reason == {ReasonCode.SPAM: 2, None: 1}


async def test_policy_counts_the_newest_reviews_of_its_store(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.policy.MOST_COUNTED", 2)
    store, other = await desk.open_store(), await desk.open_store()
    reviews = [desk.review(storeId=store, rating=rating) for rating in (1, 3, 4, 5)]
    await desk.submit(desk.records(*reviews, desk.review(storeId=other)))
    await desk.moderate(*(("approve", each["id"]) for each in reviews[:3]))
    for number, each in enumerate(reviews):
        created = datetime(2026, 1, 1 + number, tzinfo=UTC)
        await desk.database["reviews"].update_one({"_id": each["id"]}, {"$set": {"createdDate": created}})
    of_store = await DecisionCounts(desk.database).newest(store)
    assert of_store.by_stars[ReviewStatus.APPROVED] == {1: 0, 2: 0, 3: 1, 4: 1, 5: 0}
