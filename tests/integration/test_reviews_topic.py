"""The compacted topic `reviews` eventually equals the database, whatever happens to the relay."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import time_ns
from typing import Any

import pytest
from bson import ObjectId, encode
from uuid_utils import uuid7

from tests.support.facade import Facade, facade_of, new_id, submission
from tests.support.messages import message, review_message
from tests.support.reviews_topic import latest, stored, until_equal
from tests.support.service import Servers, Service, kind_of
from tests.support.topics import delete_topic
from tests.support.waiting import eventually

ACTIVE = "this worker relays reviews"
RELAY = {"_id": "reviews"}


@pytest.fixture
async def service(servers: Servers, tmp_path: Path) -> AsyncIterator[Service]:
    """A service of its own with two workers, one of which relays."""
    async with Service(servers, tmp_path).running(("worker-1", "worker-2")) as service:
        yield service


@pytest.fixture
async def facade(service: Service) -> AsyncIterator[Facade]:
    async with facade_of(service) as facade:
        yield facade


async def active(service: Service) -> str:
    """Return the worker that relays, once there is one."""

    def names() -> list[str]:
        return [name for name in service.processes if ACTIVE in service.log(name)]

    return (await eventually(names))[-1]


async def state(service: Service, id: str) -> dict[str, Any]:
    return (await latest(service)).get(id, {})


async def until_status(service: Service, id: str, status: str) -> dict[str, Any]:
    """Wait until a review is published with this status; returns it."""

    def is_published(found: dict[str, Any]) -> bool:
        return found.get("reviewStatus") == status

    return await eventually(partial(state, service, id), is_published)


async def load(facade: Facade, requests: int = 12, each: int = 40) -> None:
    """Submit, moderate and delete reviews."""
    for number in range(requests):
        ids = await facade.submit(*(submission(new_id(), 1 + n % 5) for n in range(each)))
        await facade.moderate("approve", *ids[::2])
        await facade.moderate("reject", *ids[::3])
        await facade.moderate("delete", *ids[number % 7 :: 7])


@pytest.mark.long
async def test_each_change_is_published(facade: Facade, service: Service) -> None:
    fields = {"title": None, "userName": "Ann", "EntityName": "Lens", "userId": "u-1"}
    (id,) = await facade.submit(submission(new_id(), 3.25, **fields))
    for action, status in (("approve", "Approved"), ("reject", "Rejected"), ("reset", "New")):
        await facade.moderate(action, id)
        found = await until_status(service, id, status)
        assert found == (await stored(service))[id]
    assert (found["rating"], found["title"], found["entityName"]) == (3.25, None, "Lens")
    await facade.moderate("delete", id)
    records = await eventually(partial(service.keyed, "reviews", id), lambda records: records[-1].value is None)
    assert [kind_of(record) for record in records][-2:] == ["ReviewState", "ReviewGone"]


@pytest.mark.long
async def test_erasure_publishes_tombstones(facade: Facade, service: Service) -> None:
    person = new_id("person")
    ids = await facade.submit(*(submission(new_id(), userId=person) for _ in range(3)))
    await until_equal(service)
    await service.run("privacy", "erase", "--customer", person, "--yes")
    await until_equal(service)
    newest = {record.key.decode(): record.value for record in await service.records("reviews")}
    assert {id: newest[id] for id in ids} == dict.fromkeys(ids)


@pytest.mark.long
async def test_documents_with_foreign_ids_do_not_stop_the_relay(facade: Facade, service: Service) -> None:
    """Somebody inserts documents by hand, without ids of ours, and removes one of them."""
    product = new_id()
    async with service.mongo() as database:
        await database["reviews"].insert_one({"_id": (foreign := ObjectId()), "x": 1})
        await database["reviews"].delete_one({"_id": foreign})
        (id,) = await facade.submit(submission(product))
        await until_equal(service)
        copied = {**(await database["reviews"].find_one({"_id": id}) or {}), "_id": ObjectId()}
        await database["reviews"].insert_one(copied)
        (other,) = await facade.submit(submission(product))
        await until_equal(service)
        assert {id, other} <= (await latest(service)).keys()
        # Lists begin with the copy: they leave it out, and continue after it.
        await database["reviews"].update_one({"_id": copied["_id"]}, {"$set": {"createdDate": datetime.now(UTC)}})
        assert await facade.listed(entityIds=[product]) == [other, id]
        first = await facade.page(entityIds=[product], take=1)
        second = await facade.page(entityIds=[product], take=1, after=first["next"])
        assert [row["id"] for page in (first, second) for row in page["results"]] == [other, id]
    await service.run("reviews", "republish")
    assert await latest(service) == await stored(service)
    findings = json.loads((await service.run("doctor", "--json", code=None)).stdout)
    assert "fields are missing or damaged: reviews 1" in str(findings)
    report = json.loads((await service.run("migrate", "--json")).stdout)
    (reviews,) = [each for each in report["documents"] if each["collection"] == "reviews"]
    assert reviews["lost"] == [{"id": str(copied["_id"]), "fields": ["_id"]}]
    assert "failed; restarting it" not in "".join(service.log(name) for name in ("worker-1", "worker-2"))


@pytest.mark.long
@pytest.mark.kafka
async def test_reviews_are_compared_with_an_earlier_state(facade: Facade, service: Service) -> None:
    kept, approved, rejected, deleted, gone = await facade.submit(*(submission(new_id()) for _ in range(5)))
    assert await facade.moderate("approve", approved) == ["applied"]
    assert await facade.moderate("delete", gone) == ["applied"]
    await until_equal(service)
    at = datetime.now(UTC).isoformat()
    assert await facade.moderate("reset", approved) == ["applied"]
    assert await facade.moderate("reject", rejected) == ["applied"]
    assert await facade.moderate("delete", deleted) == ["applied"]
    await facade.submit(submission(new_id()))
    async with service.mongo() as database:
        await database["reviews"].update_one({"_id": kept}, {"$set": {"review": "Another text."}})
    await until_equal(service)
    report = json.loads((await service.run("reviews", "compare", "--at", at, "--json", code=1)).stdout)
    changes = {each["id"]: (each["before"], each["now"]) for each in report["differences"]}
    assert changes == {
        **{kept: ("New", "New"), approved: ("Approved", "New")},
        **{rejected: ("New", "Rejected"), deleted: ("New", None)},
    }
    assert [each["fields"] for each in report["differences"] if each["id"] == kept] == [["review"]]
    assert report["compared"] == 5
    output = (await service.run("reviews", "compare", "--at", at, code=1)).stdout
    assert {f"{deleted}  New, now gone", f"{kept}  New; changed: review"} <= set(output.splitlines())
    await service.run("reviews", "compare", "--at", datetime.now(UTC).isoformat())
    # A comparison with the present finds nothing; a future time is refused, and an early one has no reviews.
    await service.run("reviews", "compare", "--at", (datetime.now(UTC) + timedelta(hours=2)).isoformat(), code=2)
    assert "has no reviews" in (await service.run("reviews", "compare", "--at", "2000-01-01", code=1)).stderr


@pytest.mark.long
@pytest.mark.kafka
async def test_reviews_without_an_earlier_state_are_named(facade: Facade, service: Service) -> None:
    """As after a compaction: the topic has only later records of reviews that are older."""
    (kept,) = await facade.submit(submission(new_id()))
    await until_equal(service)
    at = datetime.now(UTC)
    compare = ("reviews", "compare", "--at", at.isoformat())
    compacted, removed, imported, new = (new_id("review") for _ in range(4))
    now, long_ago = at + timedelta(seconds=1), at - timedelta(days=9)
    dates = {
        compacted: {"createdDate": long_ago},
        removed: {"createdDate": long_ago},
        imported: {"createdDate": long_ago, "submittedAt": now},
        new: {"createdDate": now},
    }
    async with service.mongo() as database:
        whole = await database["reviews"].find_one({"_id": kept}) or {}
        await database["reviews"].insert_many([{**whole, "_id": id, **fields} for id, fields in dates.items()])
        await until_equal(service)
        await database["reviews"].delete_one({"_id": removed})
        await until_equal(service)
    report = json.loads((await service.run(*compare, "--json", code=1)).stdout)
    assert (report["compared"], report["differences"]) == (1, [])
    assert sorted(report["uncomparable"]) == sorted([compacted, removed])
    output = (await service.run(*compare, code=1)).stdout
    assert {f"{id}  can't be compared" for id in (compacted, removed)} <= set(output.splitlines())
    assert "2 reviews can't be compared" in output


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
async def test_another_worker_takes_over(facade: Facade, service: Service, number: signal.Signals) -> None:
    """The first worker is killed, stopped, or frozen with a batch in progress and resumed after another one took
    over."""
    first = await active(service)
    loading = asyncio.create_task(load(facade))
    await eventually(partial(service.records, "reviews"), lambda records: len(records) > 100)
    if number is signal.SIGSTOP:
        service.processes[first].send_signal(number)
        (other,) = {"worker-1", "worker-2"} - {first}
        await eventually(lambda: ACTIVE in service.log(other))
        service.processes[first].send_signal(signal.SIGCONT)
    else:
        await service.stop(first, number)
        assert await active(service) != first
    await loading
    await service.idle()
    await until_equal(service)
    assert len(await latest(service)) > 300
    async with service.mongo() as database:
        assert "missing" not in (await database["relays"].find_one(RELAY) or {})


async def no_token(service: Service) -> None:
    async with service.mongo() as database:
        await database["relays"].delete_one(RELAY)


async def unreadable_token(service: Service) -> None:
    async with service.mongo() as database:
        token = encode({"_data": "8263B1D2A0000000012B022C0100296E5A1004"})
        await database["relays"].update_one(RELAY, {"$set": {"token": token}})


async def collection_put_back(service: Service) -> None:
    """Simulate `mongorestore --drop` of an earlier state."""
    async with service.mongo() as database:
        reviews = await database["reviews"].find().sort("_id").to_list()
        await database["reviews"].drop()
        await database["reviews"].insert_many(reviews[::2])


async def topic_lost(service: Service) -> None:
    await delete_topic(service.servers, service.topic("reviews"))
    await service.run("init")
    service.read.clear()


@pytest.mark.slow
@pytest.mark.parametrize("loss", [no_token, unreadable_token, collection_put_back, topic_lost])
async def test_all_reviews_are_published_again_when_changes_are_lost(
    facade: Facade, service: Service, loss: Callable[[Service], Awaitable[None]]
) -> None:
    await load(facade, requests=2)
    await until_equal(service)
    workers = [name for name in service.processes if name.startswith("worker")]
    for name in workers:
        await service.stop(name)
    async with service.mongo() as database:
        # Unobserved changes, and records of the topic that are no longer in the database.
        await database["reviews"].update_many({"status": 1}, {"$set": {"title": "Changed"}})
        await database["reviews"].delete_many({"status": 2})
    await loss(service)
    service.start("worker", "worker-1")
    await until_equal(service)
    assert "publishing all reviews again" in service.log("worker-1")


async def put_back(service: Service, dump: dict[str, list[dict[str, Any]]], *, is_dropped: bool) -> None:
    """Replace the database by an earlier state: its collections, as `mongorestore --drop`, or their documents."""
    async with service.mongo() as database:
        for name in await database.list_collection_names():
            await (database[name].drop() if is_dropped else database[name].delete_many({}))
        for name, documents in dump.items():
            if documents:
                await database[name].insert_many(documents)
    if is_dropped:
        await service.run("init")


async def missing(service: Service) -> list[str]:
    """The findings of the doctor and of the Health page about missing reviews."""
    findings = json.loads((await service.run("doctor", "--json", code=None)).stdout)
    async with service.client() as client:
        findings += (await client.get("/api/health/details")).json()["checks"]
    return [each["text"] for each in findings if each["check"] == "restore"]


async def missing_by_metric(service: Service) -> float:
    async with service.client() as client:
        metrics = (await client.get("/metrics")).text
    (count,) = re.findall(r"^plaudit_reviews_missing (.+)$", metrics, re.MULTILINE)
    return float(count)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("is_dropped", [True, False], ids=["dropped", "in-place"])
async def test_restore_without_offsets_is_found(facade: Facade, service: Service, is_dropped: bool) -> None:
    """MongoDB is put back, and the consumer groups aren't until somebody looks at the findings."""
    old = await facade.submit(*(submission(new_id()) for _ in range(3)))
    await until_equal(service)
    async with service.mongo() as database:
        names = [name for name in await database.list_collection_names() if name != "leases"]
        dump = {name: await database[name].find().to_list() for name in names}
    *newer, deleted = await facade.submit(*(submission(new_id()) for _ in range(3)))
    assert await facade.moderate("delete", old[0], deleted) == ["applied"] * 2
    await until_equal(service)
    await service.idle()
    for name in ("worker-1", "worker-2"):
        await service.end(name)
    await put_back(service, dump, is_dropped=is_dropped)
    assert await missing(service) == []
    service.start("worker", "worker-1")
    text, same = await eventually(partial(missing, service), lambda found: len(found) == 2)
    assert text == same
    assert text.startswith("MongoDB is older than Kafka")
    assert all(id in text for id in newer)
    await eventually(partial(missing_by_metric, service), lambda count: count == len(newer))
    # Neither new reviews nor a republication, which removes all traces in the topic, end it; nor does another relay.
    await facade.submit(submission(new_id()))
    await service.run("reviews", "republish")
    await service.end("worker-1")
    service.start("worker", "worker-2")
    await service.until_ready()
    await until_equal(service)
    assert await missing(service) == [text, text]
    await service.end("worker-2")
    await service.rewind()
    service.start("worker", "worker-1")
    await service.idle()
    await eventually(partial(missing, service), lambda found: found == [])
    await eventually(partial(missing_by_metric, service), lambda count: count == 0)
    assert {*old[1:], *newer} <= (await stored(service)).keys()


@pytest.mark.long
@pytest.mark.parametrize("is_running", [True, False], ids=["by-the-worker", "without-workers"])
async def test_republication(facade: Facade, service: Service, is_running: bool) -> None:
    await load(facade, requests=2)
    await until_equal(service)
    if not is_running:
        for name in [name for name in service.processes if name.startswith("worker")]:
            await service.stop(name)
    before = await latest(service)
    stranger = new_id("review")
    await service.publish("reviews", *(message({"id": id}, id) for id in (stranger, min(before))))
    assert (await state(service, stranger)) == {"id": stranger}
    assert (await state(service, min(before))) == {"id": min(before)}
    done = await service.run("reviews", "republish")
    assert "The topic has the current state of all reviews." in done.stdout
    assert await latest(service) == before == await stored(service)


@pytest.mark.long
async def test_republication_removes_reviews_that_were_refused_since(facade: Facade, service: Service) -> None:
    """As after a restore: the topic has a review that the present rules refuse."""
    (kept,) = await facade.submit(submission(new_id()))
    closed, id = await facade.open_store(reviewsEnabled=False), new_id("review")
    await service.publish("review-submissions", review_message(submission(new_id(), id=id, storeId=closed)))
    async with service.mongo() as database:
        await eventually(partial(database["reviews"].find_one, {"_id": id, "refused": {"$exists": True}}))
    await service.publish("reviews", message({"id": id}, id))
    assert await state(service, id) == {"id": id}
    await service.run("reviews", "republish")
    assert (await latest(service)).keys() == {kept}
    assert [record.value is None for record in await service.keyed("reviews", id)] == [False, True]


@pytest.mark.long
async def test_republication_after_clock_was_ahead(facade: Facade, service: Service) -> None:
    await load(facade, requests=1)
    await until_equal(service)
    for name in [name for name in service.processes if name.startswith("worker")]:
        await service.stop(name)
    # As noted by a worker whose clock is a day ahead when it had published all reviews.
    tomorrow = str(uuid7(nanoseconds=time_ns() + 86_400 * 10**9))
    async with service.mongo() as database:
        await database["relays"].update_one(RELAY, {"$set": {"done": tomorrow, "wanted": tomorrow}})
    for _ in range(2):
        stranger = new_id("review")
        await service.publish("reviews", message({"id": stranger}, stranger))
        await service.run("reviews", "republish")
        assert await latest(service) == await stored(service)


@pytest.mark.long
async def test_republication_resumes_on_an_empty_topic(service: Service) -> None:
    """As after a relay was killed while it searched the topic, which was created anew."""
    async with service.mongo() as database:
        # A relay without a token starts a republication of its own, which replaces the one below.
        await eventually(partial(database["relays"].find_one, {**RELAY, "token": {"$ne": None}, "done": {"$ne": None}}))
        for name in [name for name in service.processes if name.startswith("worker")]:
            await service.stop(name)
        request = str(uuid7())
        under_way = {"request": request, "after": None, "published": 0}
        await database["relays"].update_one(RELAY, {"$set": {"republication": under_way}})
        service.start("worker", "worker-1")
        await eventually(partial(database["relays"].find_one, {**RELAY, "done": request}))
    assert "failed; restarting it" not in service.log("worker-1")
