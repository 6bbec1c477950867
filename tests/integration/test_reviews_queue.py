"""The moderation queue: lists of unapproved reviews, by an index that approvals don't write to."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from domain.reviews import ReviewStatus
from domain.schema import fresh_mark
from storage.database import Database
from storage.indexes import ensure_indexes
from storage.reviews.queue import REPLACED_INDEX, among, by_index
from storage.reviews.repository import ReviewRepository
from storage.reviews.search import ReviewSearch, criteria, order
from storage.schema import SchemaMarks
from tests.support.facade import Facade, facade_of, submission
from tests.support.messages import review_message
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually


async def queued(service: Service, product: str) -> dict[str, int]:
    """Return the reviews of a product in the queue, with their queued statuses."""
    async with service.mongo() as database:
        found = database["reviews"].find({"entityId": product, "queued": {"$gte": 0}})
        return {document["_id"]: document["queued"] async for document in found}


async def listed(facade: Facade, product: str, *statuses: str) -> set[str]:
    page: Json = await facade.page(entityIds=[product], reviewStatus=list(statuses), take=100)
    assert page["totalCount"] == len(page["results"])
    return {row["id"] for row in page["results"]}


@pytest.mark.long
async def test_lists_follow_decisions_at_once(facade: Facade, service: Service, product: str) -> None:
    ids = await facade.submit(*(submission(product, title=f"{number}") for number in range(4)))
    first, second, third, fourth = ids
    assert await listed(facade, product, "New") == {*ids}
    await facade.moderate("approve", first, second)
    assert await listed(facade, product, "New") == {third, fourth}
    await facade.moderate("reject", third)
    assert await listed(facade, product, "New") == {fourth}
    assert await listed(facade, product, "Rejected") == {third}
    assert await listed(facade, product, "New", "Rejected") == {third, fourth}
    await facade.moderate("reset", first, third)
    assert await listed(facade, product, "New") == {first, third, fourth}
    await facade.moderate("delete", fourth)
    assert await listed(facade, product, "New", "Rejected") == {first, third}
    assert await listed(facade, product, "New", "Rejected", "Approved") == {first, second, third}
    # The relay removes approved reviews.
    await eventually(partial(queued, service, product), {first: 0, third: 0}.__eq__)


@pytest.mark.long
async def test_relay_ignores_reviews_decided_again(facade: Facade, service: Service, product: str) -> None:
    (id,) = await facade.submit_approved(submission(product))
    await eventually(partial(queued, service, product), {}.__eq__)
    before = len(await service.keyed("reviews", id))
    for action in ("reset", "approve", "reset", "approve", "reject"):
        await facade.moderate(action, id)
    assert await listed(facade, product, "Rejected") == {id}
    marker = submission(product, title="behind it")
    (last,) = await facade.submit(marker)
    await eventually(partial(service.keyed, "reviews", last))
    assert await queued(service, product) == {id: 2, last: 0}
    # Removing a review from the queue is not a change of the review.
    assert len(await service.keyed("reviews", id)) <= before + 5


@pytest.mark.long
async def test_queue_list_uses_its_index(own_service: Service, own_facade: Facade, product: str) -> None:
    await own_facade.submit_approved(submission(product))
    await own_facade.submit(*(submission(product, title=f"{number}") for number in range(3)))
    async with own_service.mongo() as database:
        reviews = database["reviews"]
        approved = await reviews.find_one({"status": int(ReviewStatus.APPROVED)})
        assert approved
        approved.pop("queued", None)  # if the relay hasn't removed it yet
        later = datetime.now(UTC) + timedelta(hours=1)
        await reviews.insert_many([{**approved, "_id": f"later{n}", "createdDate": later} for n in range(1_000)])
        for statuses in ([ReviewStatus.NEW], [ReviewStatus.NEW, ReviewStatus.REJECTED]):
            search = ReviewSearch(statuses=statuses)
            found = reviews.find({**criteria(search), **among(statuses)}).sort(order(search)).limit(21)
            plan = json.dumps((await found.explain())["queryPlanner"]["winningPlan"])
            assert "queued_newest" in plan
            assert '"stage": "SORT"' not in plan
        search = ReviewSearch(statuses=[ReviewStatus.NEW])
        conditions = by_index({**criteria(search), **among([ReviewStatus.NEW])})
        assert conditions
        plan = json.dumps((await reviews.find(conditions, {"_id": 1}).explain())["queryPlanner"]["winningPlan"])
        assert "queued_newest" in plan
        assert '"stage": "FETCH"' not in plan
        # Small counts are exact; large ones are as old as the relay, which won't see this one.
        await eventually(partial(queued, own_service, product), lambda found: len(found) == 3)
        await own_service.end("worker")
        await reviews.insert_one({**approved, "_id": "stays", "queued": 0})
        repository = ReviewRepository(database)
        counts = [await repository.count(search, exact_below=most) for most in (4, 3)]
        assert counts == [3, 4]


async def test_queue_of_a_store_reads_none_of_others(database: Database) -> None:
    await ensure_indexes(database, remember_days=7)
    await SchemaMarks(database).save(fresh_mark())
    about = {"createdDate": datetime.now(UTC), "entityType": "Product", "entityId": "1"}
    new, approved = {**about, "status": 0, "queued": 0}, {**about, "status": 1, "storeId": "calm"}
    waiting = [{**new, "storeId": store} for store in ["busy"] * 500 + ["calm"] * 2]
    reviews = [{"_id": f"{n:03}", **each} for n, each in enumerate([*waiting, *[approved] * 900])]
    await database["reviews"].insert_many(reviews)
    search, repository = ReviewSearch(statuses=[ReviewStatus.NEW], stores=["calm"]), ReviewRepository(database)
    await database.command("profile", 2)
    page = await repository.search(search)
    counts = [await repository.count(search, exact_below=most) for most in (9, 1)]
    await database.command("profile", 0)
    assert ([review.id for review in page.reviews], counts) == (["501", "500"], [2, 2])
    looks = await database["system.profile"].find({"ns": f"{database.name}.reviews"}).to_list()
    assert max(look["docsExamined"] for look in looks) == 2


@pytest.mark.long
async def test_older_database_gets_queue_while_service_runs(servers: Servers, tmp_path: Path, product: str) -> None:
    service = Service(servers, tmp_path)
    async with service.mongo() as database:
        await database["schema"].insert_one({"_id": "mark", "version": 2, "runsFrom": 2})
        keys = [("status", 1), ("createdDate", -1), ("_id", -1)]
        unapproved = {"status": {"$in": [0, 2]}}
        await database["reviews"].create_index(keys, name=REPLACED_INDEX, partialFilterExpression=unapproved)
    async with service.running(), facade_of(service) as facade:
        former, rejected, approved = await facade.submit(
            *(submission(product, title=f"{number}") for number in range(3))
        )
        await facade.moderate("approve", approved)
        await facade.moderate("reject", rejected)
        async with service.mongo() as database:  # as stored by the earlier version
            await database["reviews"].update_many({}, {"$unset": {"queued": ""}})
        assert await listed(facade, product, "New") == {former}
        report = json.loads((await service.run("migrate", "--json")).stdout)
        assert [step["documents"] for step in report["steps"]] == [2]
        await service.publish("review-submissions", review_message(submission(product, id=f"late-{product}")))
        await facade.until_listed(product, 4)
        await service.run("init")
        async with service.mongo() as database:
            assert REPLACED_INDEX not in await database["reviews"].index_information()
        assert await queued(service, product) == {former: 0, rejected: 2, f"late-{product}": 0}
        await service.restart("api")
        await service.until_ready()
        assert await listed(facade, product, "New") == {former, f"late-{product}"}
        assert await listed(facade, product, "Rejected") == {rejected}
