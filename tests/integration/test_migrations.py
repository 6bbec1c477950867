"""Migrations, the recorded schema version, and documents with missing fields."""

import json
import signal
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from bson import ObjectId

from domain.schema import NEWEST
from storage.database import Database, in_transaction
from storage.id_ranges import SIZE
from storage.mending import Mender
from tests.support import reviews_topic
from tests.support.facade import REVIEWS, Facade, body_of, new_id, submission
from tests.support.orders import Returns
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually

RATED: Final = ("entityType", "entityId", "storeId", "ratingHundredths", "status")
FIELDS: Final = (
    *RATED,
    *("entityName", "userId", "userName", "title", "review", "createdDate", "modifiedDate"),
    *("seen", "writtenAt", "messages"),
)


async def remove_field(service: Service, collection: str, field: str, ids: Collection[str] | None = None) -> None:
    """Remove a field from stored documents, as if by hand."""
    async with service.mongo() as database:
        which = {} if ids is None else {"_id": {"$in": list(ids)}}
        assert (await database[collection].update_many(which, {"$unset": {field: ""}})).modified_count


async def migrate(service: Service, *options: str) -> Json:
    """Return the output of `plaudit migrate --json`."""
    report: Json = json.loads((await service.run("migrate", "--json", *options)).stdout)
    return report


async def doctor(service: Service) -> str:
    """Return the text of `plaudit doctor`, with single spaces."""
    return " ".join((await service.run("doctor", code=None)).stdout.split())


async def doctor_says(service: Service, words: str) -> None:
    """Wait until `plaudit doctor` prints this text: for a server that is slow for seconds it reports only that."""
    await eventually(partial(doctor, service), lambda output: words in output)


def report_on(report: Json, collection: str) -> Json:
    """Return the part of a report about a collection."""
    (found,) = [each for each in report["documents"] if each["collection"] == collection]
    return dict(found)


async def assert_pages_equal_list(read: Callable[..., Awaitable[Json]], *, most: int = 1_000) -> None:
    (page,) = pages = [await read(take=3)]
    while after := page.get("next"):
        page = await read(take=3, after=after)
        pages.append(page)
    rows = (await read(take=most))["results"]
    assert [row["id"] for page in pages for row in page["results"]] == [row["id"] for row in rows]


async def read_everything(facade: Facade, ids: Collection[str], products: Collection[str]) -> None:
    """Assert that every kind of read works despite missing fields."""
    fields = ("modifiedDate", "rating", "title", "userName", "entityName", "entityId", "reviewStatus", "helpful", "id")
    for sort in ("", *(f"{field}:{direction}" for field in fields for direction in ("asc", "desc"))):
        await assert_pages_equal_list(partial(facade.page, sort=sort))
    await facade.page(searchPhrase="battery", take=100)
    for id in ids:
        await facade.review(id)
    await facade.ratings(*products)
    for path in ("/console/queue?status=all", "/console/objects", *(f"/console/reviews/{id}" for id in ids)):
        assert (await facade.http.get(path)).status_code == 200, path


@pytest.mark.slow
async def test_missing_review_fields_are_tolerated_and_repaired(own_service: Service, own_facade: Facade) -> None:
    service, facade = own_service, own_facade
    store = await facade.open_store()
    products = {field: new_id() for field in FIELDS}
    stars = (2, 3, 4)
    written = [submission(product, n, storeId=store, userId=new_id()) for product in products.values() for n in stars]
    approved = iter(await facade.submit_approved(*written))
    ids = {field: [next(approved) for _ in stars] for field in FIELDS}
    await reviews_topic.until_equal(service)
    before = {id: await facade.review(id) for each in ids.values() for id in each}
    for field in FIELDS:
        await remove_field(service, "reviews", field, ids[field])
    await doctor_says(service, "fail documents fields are missing or damaged: reviews 36")
    await read_everything(facade, before, list(products.values()))
    # Of each three reviews the first is rejected, and the second is reset and approved again.
    firsts, seconds, _ = zip(*ids.values(), strict=True)
    assert set(await facade.moderate("reject", *firsts)) == {"applied"}
    assert set(await facade.moderate("reset", *seconds)) == {"applied", "unchanged"}
    assert set(await facade.moderate("approve", *seconds)) == {"applied"}
    for id in seconds:
        await facade.command("POST", f"{REVIEWS}/{id}/votes", {"userId": new_id(), "helpful": True})
    assert await service.dead_letters() == []
    expected = {"collection": "reviews", "damaged": 32, "restored": 0, "filled": 0, "lostCount": 0, "lost": []}
    assert report_on(await migrate(service, "--dry-run"), "reviews") == expected
    assert report_on(await migrate(service), "reviews") == {**expected, "restored": 32}
    await doctor_says(service, "documents no fields are missing")
    assert report_on(await migrate(service), "reviews") == {**expected, "damaged": 0}
    changed = {"reviewStatus", "reviewStatusId", "modifiedDate", "moderator", "helpful"}
    for first, second, third in ids.values():
        for id, status in ((first, "Rejected"), (second, "Approved"), (third, "Approved")):
            after = await facade.review(id)
            assert after["reviewStatus"] == status
            assert {n: v for n, v in after.items() if n not in changed} == {
                n: v for n, v in before[id].items() if n not in changed
            }
    await service.run("ratings", "verify")
    for product in products.values():
        await facade.until_rated(product, 3.5, 2)
    await reviews_topic.until_equal(service)
    assert await service.dead_letters() == []


@pytest.mark.long
async def test_invalid_status_is_tolerated_and_repaired(own_service: Service, own_facade: Facade) -> None:
    service, facade, product = own_service, own_facade, new_id()
    damaged, other = await facade.submit_approved(submission(product, 2), submission(product, 4))
    await reviews_topic.until_equal(service)
    before = await facade.review(damaged)
    async with service.mongo() as database:
        await database["reviews"].update_one({"_id": damaged}, {"$set": {"status": 7}})
    await doctor_says(service, "fail documents fields are missing or damaged: reviews 1")
    await read_everything(facade, (damaged, other), [product])
    # The object is recounted without the damaged review, until it is repaired.
    await facade.moderate("reset", other)
    await facade.moderate("approve", other)
    await service.run("ratings", "rebuild")
    await facade.until_rated(product, 4, 1)
    assert report_on(await migrate(service), "reviews")["restored"] == 1
    await doctor_says(service, "documents no fields are missing")
    assert await facade.review(damaged) == before
    await facade.until_rated(product, 3, 2)
    await service.run("ratings", "verify")


@pytest.mark.long
async def test_unrecoverable_fields_are_reported_with_ids(own_service: Service, own_facade: Facade) -> None:
    service, facade, product = own_service, own_facade, new_id()
    (id,) = await facade.submit_approved(submission(product))
    async with service.mongo() as database:
        document = await database["reviews"].find_one({"_id": id})
        assert document is not None
        strange = {**document, "_id": "by-hand"}
        del strange["ratingHundredths"], strange["title"], strange["status"]
        await database["reviews"].insert_one(strange)
        await database["ratings"].update_one({"entityId": product}, {"$unset": {"count": ""}})
    report = await migrate(service)
    assert report_on(report, "reviews")["lost"] == [{"id": "by-hand", "fields": ["ratingHundredths"]}]
    assert report_on(report, "reviews")["filled"] == 1
    assert await facade.rating(product) == (4, 1)
    output = await service.run("migrate")
    assert "by-hand: ratingHundredths" in output.stdout
    await service.run("ratings", "verify")


@pytest.mark.long
async def test_message_failing_on_damaged_document_is_replayed_after_repair(
    own_service: Service, own_facade: Facade
) -> None:
    service, facade, product = own_service, own_facade, new_id()
    (id,) = await facade.submit(submission(product))
    await reviews_topic.until_equal(service)
    async with service.mongo() as database:
        await database["reviews"].update_one({"_id": id}, {"$set": {"status": "new"}})
    body_of(await facade.http.post(f"{REVIEWS}/approve", json=[id]), dict, 202)
    (letter,) = await eventually(service.dead_letters)
    headers = {name: value.decode() for name, value in letter.headers}
    assert headers["x-error-code"] == "stored-document"
    assert f"'{id}' of the collection reviews" in headers["x-error-message"]
    assert "plaudit migrate" in headers["x-error-message"]
    assert await facade.listed(entityIds=[product]) == [id]
    assert report_on(await migrate(service), "reviews")["restored"] == 1
    await service.run("dlq", "replay")
    await facade.until_rated(product, 4, 1)


async def search_orders(returns: Returns, **search: Any) -> Json:
    return body_of(await returns.http.post("/api/orders/search", json=search), dict)


@pytest.mark.slow
async def test_missing_order_and_return_fields_are_tolerated_and_repaired(
    own_service: Service, own_returns: Returns
) -> None:
    service, returns = own_service, own_returns
    mendable = ("returned", "digests", "observations", "reminder", "isCancelled", "customerEmail", "number", "modified")
    orders = {field: await returns.ordered({"a": 3}) for field in (*mendable, "body", "status", "lines")}
    for field, order in orders.items():
        await returns.create(order, {"a": 2})
        await remove_field(service, "orders", field, [order])
        assert (await returns.available(order)) == ({} if field == "lines" else {"a": 1})
        assert (await returns.http.get(f"/api/orders/{order}")).json()["id"] == order
    own = ("number", "orderId", "status", "lines", "resolution", "createdDate", "modifiedDate", "createdBy", "seen")
    taken = {field: await returns.create(await returns.ordered({"a": 3}), {"a": 1}) for field in own}
    for field, id in taken.items():
        await remove_field(service, "returns", field, [id])
        assert (await returns.existing(id))["id"] == id
    fields = ("number", "status", "createdDate", "modifiedDate", "createdBy", "orderId")
    for sort in (f"{field}:{direction}" for field in fields for direction in ("asc", "desc")):
        await assert_pages_equal_list(partial(returns.search, sort=sort))
    await assert_pages_equal_list(partial(search_orders, returns), most=100)
    for path in ("/console/returns?status=all", "/console/orders"):
        assert (await returns.http.get(path)).status_code == 200
    # Their orders keep what they need, whichever field a return has lost: the returned quantity stays.
    report = await migrate(service)
    lost = [*report_on(report, "orders")["lost"], *report_on(report, "returns")["lost"]]
    gone = {taken[field]: [field] for field in ("number", "orderId", "status", "lines")}
    gone |= {orders[field]: [field] for field in ("body", "status", "lines")}
    assert {each["id"]: each["fields"] for each in lost} == gone
    for field in mendable:
        assert (await returns.available(orders[field])) == {"a": 1}
    await returns.change(taken["createdDate"], status="Approved")


@pytest.mark.long
async def test_fresh_database_has_newest_schema_and_old_one_is_migrated(stopped_service: Service) -> None:
    assert (await migrate(stopped_service, "--dry-run"))["schemaBefore"] == NEWEST
    async with stopped_service.mongo() as database:
        await database["schema"].drop()
        key = {"entityType": "Product", "entityId": "a", "storeId": None}
        review = {**key, "_id": "r", "status": 1, "ratingHundredths": 400, "title": None, "review": "Good."}
        await database["reviews"].insert_one(review)
        await database["ratings"].insert_one({**key, "count": 1, "sumHundredths": 400})
    await doctor_says(stopped_service, f"warn schema version 0; this release has {NEWEST}")
    planned = await migrate(stopped_service, "--dry-run")
    assert (planned["schemaBefore"], planned["schema"], planned["steps"][0]["documents"]) == (0, NEWEST, 1)
    compatible = await migrate(stopped_service, "--compatible")
    assert [step["number"] for step in compatible["steps"]] == [1]
    assert compatible["documents"] == []
    async with stopped_service.mongo() as database:
        assert await database["schema"].find_one({}) == {"_id": "mark", "version": 1, "runsFrom": 0}
    assert (await migrate(stopped_service))["schema"] == NEWEST
    async with stopped_service.mongo() as database:
        tally = await database["ratings"].find_one({"entityId": "a"})
        assert tally is not None
        assert tally["histogram"] == [0, 0, 0, 1, 0]
    await doctor_says(stopped_service, f"schema version {NEWEST}, the newest")


async def test_damaged_documents_are_found_in_slices_some_of_them_empty(database: Database) -> None:
    damaged = ["", "00", "04", "11", "12", strange := ObjectId()]
    await database["reviews"].insert_many([{"_id": id} for id in damaged])
    await database["reviews"].insert_many([{"_id": f"{n:02}", "goneAt": 1} for n in (1, 2, 3, *range(5, 11))])
    found = [ids async for ids in Mender(database, "reviews").slices(3)]
    assert found == [[strange], ["", "00"], ["04"], [], [], ["11", "12"]]
    tallies = (await database["ratings"].insert_many([{"count": n} for n in range(7)])).inserted_ids
    assert [ids async for ids in Mender(database, "ratings").slices(3)] == [
        [],
        tallies[:3],
        tallies[3:6],
        tallies[6:],
    ]


@pytest.mark.parametrize("collection", ["reviews", "ratings"])
@pytest.mark.parametrize("entity_type", [["Product"], None])
async def test_object_of_another_type_is_reported_and_not_counted(
    database: Database, collection: str, entity_type: object
) -> None:
    id = ObjectId() if collection == "ratings" else "review"
    await database[collection].insert_one({"_id": id, "entityType": entity_type, "entityId": "camera"})
    mended = await in_transaction(database, partial(Mender(database, collection).mend, [id], {}))
    assert ("entityType" in mended.lost[str(id)], mended.entities) == (True, set())


@pytest.mark.long
async def test_large_collection_is_migrated_in_slices(servers: Servers, tmp_path: Path) -> None:
    service, many = Service(servers, tmp_path), 2 * SIZE + 10
    await service.run("init")
    async with service.mongo() as database:
        await database["schema"].drop()
        whole: Json = {"_id": "", "entityType": "Product", "entityId": "a", "storeId": None, "entityName": None}
        whole |= {"userId": None, "userName": None, "title": None, "review": "Good.", "ratingHundredths": 400}
        whole |= {"status": 1, "createdDate": datetime.now(UTC), "modifiedDate": datetime.now(UTC)}
        await database["reviews"].insert_many([{**whole, "_id": f"{n:05}"} for n in range(many)])
        ends = {"_id": {"$in": ["00000", f"{many - 1:05}"]}}
        await database["reviews"].update_many(ends, {"$set": {"status": 0}, "$unset": {"title": ""}})
        undated = {"_id": "00001"}
        await database["reviews"].update_one(undated, {"$set": {"status": 2}, "$unset": {"createdDate": ""}})
        damaged = {"collection": "reviews", "damaged": 3, "restored": 0, "lostCount": 0, "lost": []}
        planned = await migrate(service, "--dry-run")
        assert {step["number"]: step["documents"] for step in planned["steps"]} == {1: 0, 2: 0, 3: 2}
        assert report_on(planned, "reviews") == {**damaged, "filled": 0}
        output = await service.run("migrate", "--json")
        done = json.loads(output.stdout)
        assert {step["number"]: step["documents"] for step in done["steps"]} == {1: 0, 2: 0, 3: 2}
        assert report_on(done, "reviews") == {**damaged, "filled": 3}
        assert [f"{n * SIZE:,} of about {many:,} documents" in output.stderr for n in (1, 2, 3)] == [True, True, False]
        assert await database["reviews"].count_documents({"queued": 0, "title": None, **ends}) == 2
        # The step skipped it, as it had no date then.
        assert await database["reviews"].count_documents({"queued": 2, "createdDate": {"$ne": None}, **undated}) == 1


@pytest.mark.slow
async def test_killed_migration_resumes(servers: Servers, tmp_path: Path) -> None:
    service, count = Service(servers, tmp_path), 400
    await service.run("init")
    async with service.mongo() as database:
        await database["schema"].drop()
        keys: list[Json] = [{"entityType": "Product", "entityId": f"{n}", "storeId": None} for n in range(count)]
        texts = {"status": 1, "ratingHundredths": 400, "review": "Good."}
        await database["reviews"].insert_many([{**key, **texts, "_id": key["entityId"]} for key in keys])
        await database["ratings"].insert_many([{**key, "count": 1, "sumHundredths": 400} for key in keys])
        service.start("migrate")
        await eventually(lambda: "Step 1: " in service.log("migrate"))
        await service.stop("migrate", signal.SIGKILL)
        await database["leases"].delete_one({"_id": "migration"})  # otherwise it would be waited for
        mark = await database["schema"].find_one({})
        assert mark is not None
        assert mark["version"] == 0
        assert 0 < mark["step"]["done"] < count
        report = await migrate(service)
        done = {step["number"]: step["documents"] for step in report["steps"]}
        # Some documents of the interrupted slice had been counted before.
        assert done == {1: done[1], 2: 0, 3: 0}
        assert count - 50 < done[1] <= count
        assert await database["ratings"].count_documents({"histogram": [0, 0, 0, 1, 0]}) == count
        assert await database["schema"].find_one({}) == {"_id": "mark", "version": NEWEST, "runsFrom": NEWEST}


@pytest.mark.parametrize("process", ["init", "worker", "scheduler", "api", "up"])
async def test_newer_schema_is_refused(servers: Servers, tmp_path: Path, process: str) -> None:
    service = Service(servers, tmp_path)
    async with service.mongo() as database:
        await database["schema"].insert_one({"_id": "mark", "version": NEWEST + 2, "runsFrom": NEWEST + 1})
    ended = await service.run(process, code=2)
    assert "Run a newer version" in " ".join((ended.stdout + ended.stderr).split())
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.long
async def test_compatible_schema_of_next_version_is_accepted(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    async with service.mongo() as database:
        await database["schema"].insert_one({"_id": "mark", "version": NEWEST + 1, "runsFrom": NEWEST})
    async with service.running():
        await doctor_says(service, "ok schema")


async def test_version_option(servers: Servers, tmp_path: Path) -> None:
    assert (await Service(servers, tmp_path).run("--version")).stdout.startswith("plaudit ")
