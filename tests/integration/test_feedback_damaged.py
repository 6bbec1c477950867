"""Damaged votes and reports: reads, exports and erasures continue, and a migration repairs them."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from storage.database import Document
from tests.support.facade import REVIEWS, Facade, new_id, submission
from tests.support.service import Service

GIVEN: Final = {"reason": "spam", "explanation": "An advert", "goodFaith": True}
DAMAGE: Final[Mapping[str, Document]] = {
    "no author": {"$unset": {"userId": ""}},
    "no names": {"$unset": {"name": "", "email": ""}},
    "no explanation": {"$unset": {"explanation": ""}},
    "explanation": {"$set": {"explanation": 5}},
    "unknown reason": {"$set": {"reason": "gossip"}},
    "no time": {"$unset": {"at": ""}},
    "time": {"$set": {"at": "yesterday"}},
    "settlement": {"$set": {"settled": 5}},
}
LOST: Final = {
    "no explanation": ["explanation"],
    "explanation": ["explanation"],
    "unknown reason": ["reason"],
    "time": ["at"],
}


def collection_in(report: dict[str, Any], name: str) -> dict[str, Any]:
    """The part about a collection in the report of `plaudit migrate`."""
    (found,) = [each for each in report["documents"] if each["collection"] == name]
    return dict(found)


@pytest.mark.long
async def test_damaged_reports_are_shown_exported_and_repaired(own_service: Service, own_facade: Facade) -> None:
    service, facade, person = own_service, own_facade, f"{new_id('ann')}@example.com"
    (id,) = await facade.submit_approved(submission(new_id()))
    path = f"{REVIEWS}/{id}/reports"
    for _ in DAMAGE:
        await facade.command("POST", path, {**GIVEN, "email": person})
    reports = dict(zip(DAMAGE, [row["id"] for row in (await facade.get(path))["results"]], strict=True))
    async with service.mongo() as database:
        for name, change in DAMAGE.items():
            await database["reports"].update_one({"_id": reports[name]}, change)
    shown = {row["id"]: row for row in (await facade.get(path))["results"]}
    assert shown.keys() == set(reports.values())
    assert [shown[reports[name]]["userId"] for name in DAMAGE] == [None] * len(DAMAGE)
    assert shown[reports["unknown reason"]]["reason"] == "other"
    assert shown[reports["no author"]]["explanation"] == shown[reports["time"]]["explanation"] == "An advert"
    assert shown[reports["settlement"]]["settled"] is None
    lines = [json.loads(line) for line in (await service.run("export")).stdout.splitlines()]
    assert {row["id"] for line in lines for row in line.get("reported", ())} == shown.keys()
    personal = json.loads((await service.run("privacy", "export", "--customer", person)).stdout)
    assert {each["id"] for each in personal["reports"]} == shown.keys()
    assert "reports 7" in (await service.run("doctor", code=None)).stdout
    found = collection_in(json.loads((await service.run("migrate", "--json")).stdout), "reports")
    assert {each["id"]: each["fields"] for each in found["lost"]} == {reports[name]: LOST[name] for name in LOST}
    assert (found["damaged"], found["filled"]) == (7, 3)
    # A decision settles them all.
    assert await facade.moderate("reject", id) == ["applied"]
    assert (await facade.review(id))["reports"] == 0


@pytest.mark.long
async def test_damaged_votes_are_counted_by_no_export_and_can_be_replaced(
    own_service: Service, own_facade: Facade
) -> None:
    service, facade = own_service, own_facade
    (id,) = await facade.submit_approved(submission(new_id()))
    ann, bert, carl = people = [new_id("person") for _ in range(3)]
    for person in people:
        await facade.command("POST", f"{REVIEWS}/{id}/votes", {"userId": person, "helpful": True})
    async with service.mongo() as database:
        for person, field in ((ann, "helpful"), (bert, "at")):
            assert (await database["votes"].update_one({"_id.userId": person}, {"$unset": {field: ""}})).modified_count
    lines = [json.loads(line) for line in (await service.run("export")).stdout.splitlines()]
    assert {vote["userId"] for line in lines for vote in line.get("votes", ())} == {bert, carl}
    personal = json.loads((await service.run("privacy", "export", "--customer", ann)).stdout)
    assert personal["votes"] == []
    assert "votes 2" in (await service.run("doctor", code=None)).stdout
    found = collection_in(json.loads((await service.run("migrate", "--json")).stdout), "votes")
    assert (found["damaged"], found["filled"], found["lostCount"]) == (2, 1, 1)
    assert found["lost"][0]["fields"] == ["helpful"]
    # Their voters can vote again, or withdraw the vote.
    withdrawn = await facade.command("DELETE", f"{REVIEWS}/{id}/votes", {"userId": bert})
    again = await facade.command("POST", f"{REVIEWS}/{id}/votes", {"userId": ann, "helpful": False})
    assert [each["outcome"] for each in (*withdrawn, *again)] == ["applied", "applied"]
    assert await service.dead_letters() == []
    await service.run("privacy", "erase", "--customer", ann, "--yes")
    async with service.mongo() as database:
        assert await database["votes"].find_one({"_id.userId": ann}) is None
