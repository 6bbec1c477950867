"""Imports into a service that already has some of the data: nothing is edited, duplicated or reverted."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.support.facade import Facade, new_id, submission
from tests.support.service import Json, Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

DATES = ("createdDate", "modifiedDate")


async def refused(service: Service, product: str) -> set[tuple[str, str]]:
    """Return the refused submissions about a product as pairs of review id and code."""
    events = [data for kind, data in await service.events(f"Product:{product}") if kind == "SubmissionRefused"]
    return {(each["reviewId"], each["code"]) for each in events}


@pytest.mark.long
async def test_import_does_not_edit_existing_reviews(service: Service, facade: Facade, tmp_path: Path) -> None:
    person, product = new_id("person"), new_id()
    ids = await facade.submit_approved(*(submission(product, 4, userId=person) for _ in range(2)))
    file = tmp_path / "before.jsonl"
    await service.run("export", "-o", str(file), "--no-images")
    rows = [row for row in map(json.loads, file.read_text().splitlines()) if row.get("entityId") == product]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert sorted(row["id"] for row in rows) == sorted(ids)
    edited = submission(product, 2, userId=person, id=ids[0], review="Broke after a week.")
    await facade.submit(edited)
    await facade.moderate("approve", ids[0])
    before = [await facade.review(id) for id in ids]
    for _ in range(2):
        await service.run("import", str(file))
        await service.idle()
        assert [await facade.review(id) for id in ids] == before
    assert await facade.rating(product) == (3, 2)
    assert await eventually(partial(refused, service, product)) == {(ids[0], "id-taken")}


@pytest.mark.long
async def test_import_into_its_source_duplicates_nothing(service: Service, facade: Facade, tmp_path: Path) -> None:
    product, file = new_id(), tmp_path / "here.jsonl"
    (id,) = await facade.submit_approved(submission(product, 4))
    about = f"/api/customerReviews/{id}"
    for reason in ("spam", "offensive"):
        report = {"reason": reason, "explanation": "Look", "goodFaith": True, "email": f"{'m' * 60}@{'d.' * 80}example"}
        await facade.command("POST", f"{about}/reports", report)
    await facade.command("POST", f"{about}/reply", {"text": "Thanks"})
    await facade.command("POST", f"{about}/votes", {"userId": "u", "helpful": True})

    async def exported() -> list[Json]:
        await service.run("export", "-o", str(file), "--no-images")
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        return [row for row in rows if id in (row.get("id"), row.get("reviewId"))]

    before = await exported()
    assert len(before) == 3
    file.write_text("".join(json.dumps(row) + "\n" for row in before))
    assert "Published 1 review; 0 bad rows." in (await service.run("import", str(file))).stdout
    await service.idle()
    assert await exported() == before
    # A reply changed here since then is newer.
    await facade.command("POST", f"{about}/reply", {"text": "Thank you"})
    changed = await exported()
    file.write_text("".join(json.dumps(row) + "\n" for row in before))
    await service.run("import", str(file))
    await service.idle()
    assert await exported() == changed


@pytest.mark.long
@pytest.mark.parametrize("newer_is_first", [False, True], ids=["older first", "newer first"])
async def test_newer_export_counts_for_replies_and_reports(
    service: Service, facade: Facade, tmp_path: Path, *, newer_is_first: bool
) -> None:
    product, file = new_id(), tmp_path / "rows.jsonl"
    ids = [new_id("review") for _ in range(2)]

    def rows(number: int) -> list[Json]:
        """Return the first or the second export: a reply is written again, another edited, and a report settled."""
        at = f"2023-05-0{number}T07:08:09.000Z"
        past = {"reviewStatus": "Approved", "createdDate": "2023-05-01T07:08:09.000Z", "modifiedDate": at}
        texts = ["Thanks", f"Thanks {number}"]
        replies = [{"text": text, "author": None, **dict.fromkeys(DATES, at)} for text in texts]
        reviews = [
            {
                "id": id,
                "entityId": product,
                "entityType": "Product",
                "review": "Good",
                "rating": 4,
                **past,
                "reply": reply,
            }
            for id, reply in zip(ids, replies, strict=True)
        ]
        report: Json = {"id": f"of {ids[0]}", "reason": "spam", "explanation": "It is", "at": past["createdDate"]}
        if number == 2:
            report["settled"] = {"action": "approve", "moderator": "eve", "at": at}
        return [*reviews, {"reviewId": ids[0], "reported": [report]}]

    async def import_rows(number: int) -> list[Json]:
        """Import an export; returns the replies of the reviews, the number of open reports, and the settlement."""
        file.write_text("".join(json.dumps(row) + "\n" for row in rows(number)))
        await service.run("import", str(file))
        await service.idle()
        reviews = [await facade.review(id) for id in ids]
        (report,) = (await facade.get(f"/api/customerReviews/{ids[0]}/reports"))["results"]
        return [*(each["reply"] for each in reviews), reviews[0]["reports"], report["settled"]]

    *reviews, line = rows(2)
    expected = [*(each["reply"] for each in reviews), 0, line["reported"][0]["settled"]]
    first, second, third = [await import_rows(number) for number in ((2, 1, 2) if newer_is_first else (1, 2, 1))]
    assert first[2:] == (expected[2:] if newer_is_first else [1, None])
    assert second == third == expected
    events = [kind for kind, _ in await service.events(f"Product:{product}")]
    assert events.count("ReviewReported") == 1


async def test_second_row_with_same_id_is_refused(service: Service, facade: Facade, tmp_path: Path) -> None:
    id, product, file = new_id("review"), new_id(), tmp_path / "twice.csv"
    file.write_text(
        f"id,entityId,entityType,review,rating\n{id},{product},Product,Good,5\n{id},{product},Product,Bad,1\n"
    )
    assert "Published 2 reviews; 0 bad rows." in (await service.run("import", str(file))).stdout
    await service.idle()
    assert (await facade.review(id))["review"] == "Good"
    assert await eventually(partial(refused, service, product)) == {(id, "id-taken")}


@pytest.mark.long
async def test_history_is_not_applied_to_another_review_with_same_id(
    service: Service, facade: Facade, tmp_path: Path
) -> None:
    id, product = new_id("review"), new_id()
    file, other = tmp_path / "shop.csv", tmp_path / "other-shop.jsonl"
    columns = "id,entityId,entityType,review,rating,writtenDate"
    file.write_text(f"{columns}\n{id},{product},Product,Good,5,2023-05-06T07:08:09Z\n")
    await service.run("import", str(file))
    await facade.until_listed(product, 1)
    before = await facade.review(id)
    row = {
        **{"id": id, "entityId": new_id(), "entityType": "Product", "review": "Bad", "rating": 1, "source": "import"},
        **{"reviewStatus": "Approved", "createdDate": "2023-05-06T07:08:09Z", "modifiedDate": "2023-05-07T07:08:09Z"},
        **{"moderator": "eve", "reply": {"text": "Sorry", **dict.fromkeys(DATES, "2023-05-07T07:08:09Z")}},
    }
    votes = {"reviewId": id, "votes": [{"userId": "u", "helpful": True}]}
    report = {"reviewId": id, "reported": [{"reason": "spam", "explanation": "It is", "at": "2023-05-07T07:08:09Z"}]}
    other.write_text("".join(json.dumps(line) + "\n" for line in (row, votes, report)))
    await service.run("import", str(other))
    await service.idle()
    assert await facade.review(id) == before
    assert (await facade.get(f"/api/customerReviews/{id}/reports"))["totalCount"] == 0
    # Its own history is imported, also from two lines whose text is known from the first.
    row |= {"review": "Good", "rating": 5, "entityId": product}
    other.write_text("".join(json.dumps(line) + "\n" for line in (row, votes, report)))
    await service.run("import", str(other))
    await service.idle()
    restored = await facade.review(id)
    assert (restored["reviewStatus"], restored["reply"]["text"]) == ("Approved", "Sorry")
    assert (restored["helpful"], restored["reports"]) == (1, 1)


@pytest.mark.long
async def test_import_as_new_has_no_history(service: Service, facade: Facade, tmp_path: Path) -> None:
    id, entity = new_id("review"), new_id()
    row = {
        **{"id": id, "entityId": entity, "entityType": "Product", "review": "Good", "rating": 4},
        **{"reviewStatus": "Approved", "createdDate": "2023-05-06T07:08:09.000Z"},
        **{"modifiedDate": "2023-05-07T07:08:09.000Z", "moderator": "eve", "source": "api"},
    }
    file = tmp_path / "new.jsonl"
    file.write_text(json.dumps(row))
    await service.run("import", str(file), "--as-new")
    (listed,) = await facade.until_listed(entity, 1)
    assert listed["reviewStatus"] == "New"
    review = await facade.review(id)
    assert (review["source"], review["moderator"]) == ("import", None)
    assert review["createdDate"] > "2026"
    # Nor does it get one later: it would have been changed before it was created.
    await service.run("import", str(file))
    await service.idle()
    assert await facade.review(id) == review


@pytest.mark.long
async def test_rows_of_unregistered_store_are_bad_rows(service: Service, facade: Facade, tmp_path: Path) -> None:
    product, store = new_id(), await facade.open_store()
    file, report = tmp_path / "reviews.jsonl", tmp_path / "reviews.jsonl.bad-rows.jsonl"
    rows = [submission(product, 4, storeId=each) for each in (store, "Typo", None, "Typo")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    message = "There is no store Typo: register it with PUT /api/stores/Typo"
    trial = await service.run("import", str(file), "--dry-run", code=1)
    assert f"line 2: {message}" in " ".join((trial.stdout + trial.stderr).split())
    assert "Would publish 2 reviews; 2 bad rows." in trial.stdout
    done = await service.run("import", str(file), code=1)
    assert "Published 2 reviews; 2 bad rows." in done.stdout
    assert [json.loads(line) for line in report.read_text().splitlines()] == [
        {"line": 2, "reason": message},
        {"line": 4, "reason": message},
    ]
    await service.idle()
    assert len(await facade.listed("id", entityIds=[product])) == 2
    assert len(await facade.listed("id", entityIds=[product], storeId=store)) == 1
    assert await refused(service, product) == set()
