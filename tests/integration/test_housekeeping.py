"""Housekeeping of workers: a failing task does not keep the others from running."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka.admin import NewTopic
from obstore.store import MemoryStore
from pymongo.errors import AutoReconnect
from structlog.testing import capture_logs

from consumers import housekeeping, planned_approvals
from consumers.housekeeping import AWAY_FOR, PARKING_LIMIT, run_housekeeping
from consumers.planned_approvals import Objections, approve_due
from consumers.returns import ReturnConsumer
from domain.commands import Outcome
from domain.delivery import OutgoingMessage, RecordPosition
from domain.reviews import ReviewStatus
from messaging.decoding import decode_records
from messaging.feedback import FEEDBACK_COMMAND
from messaging.kafka.administration import admin_client
from messaging.kafka.connection import BrokerAwayError, KafkaConnection
from messaging.kafka.lag import ConsumerLag, Lag
from messaging.kafka.publisher import Publisher
from messaging.moderation import MODERATION_COMMAND
from messaging.topics import Topic, TopicNames
from storage import parking_clock
from storage.database import Database
from storage.images.files import ImageFiles
from storage.outbox import Outbox, Publish
from storage.parking import ParkingRepository
from storage.parking_clock import ParkingClock
from storage.pymongo_internals import cancel_and_wait
from tests.support.app import NOWHERE
from tests.support.consumers import LONG_AGO, TOPICS, Desk
from tests.support.facade import REVIEWS, Facade, new_id, once, submission
from tests.support.images import Images
from tests.support.messages import message, review_message
from tests.support.service import Json, Servers, Service
from tests.support.topics import delete_topic
from tests.support.waiting import eventually, free_port

LOW: list[Json] = [{"id": "low", "kind": "stars", "outcome": "hold", "below": 3, "publishAfterHours": 1}]


@pytest.mark.long
async def test_unreadable_parked_command_does_not_stop_worker(own_service: Service) -> None:
    service = own_service
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    async with service.mongo() as database:
        unreadable = {"_id": "feedback/0-0-0/x", "kind": "feedback", "reviewId": "x", "parkedAt": long_ago}
        await database["parkedCommands"].insert_one(unreadable)
        plans = database["publications"]
        await plans.insert_one({"_id": new_id("gone"), "at": long_ago, "rule": "rule:low"})
        await eventually(lambda: plans.count_documents({}), lambda count: count == 0)
        # At the latest in the next turn: this one may have checked it a moment too early.
        await eventually(lambda: "a parked command can't be read" in service.log("worker"))
        assert await database["parkedCommands"].count_documents({}) == 1
    assert service.processes["worker"].poll() is None


@pytest.mark.long
async def test_parked_commands_and_images_wait_for_reviews_in_backlog(
    own_service: Service, own_facade: Facade, product: str
) -> None:
    """Simulates an import that takes workers hours: its reviews are still in Kafka, while the commands about them are
    parked and their images belong to no review yet."""
    service, id, long_ago = own_service, new_id("review"), datetime.now(UTC) - timedelta(hours=30)
    image = await Images(own_facade.http).upload()
    await own_facade.approve_early(id)
    async with service.mongo() as database:
        parked = database["parkedCommands"]
        await eventually(lambda: parked.count_documents({"reviewId": id}), lambda count: count == 1)
        assert await service.stop("worker") == 0
        await parked.update_many({}, {"$set": {"parkedAt": long_ago}})
        await database["images"].update_one({"_id": image}, {"$set": {"unusedSince": long_ago}})
    at = int(long_ago.timestamp() * 1_000) + 60_000
    waiting = review_message(submission(product, 4, id=id, images=[image]))
    await service.publish("review-submissions", waiting._replace(timestamp=at))
    # Its housekeeping starts at once, long before its consumers are assigned a partition.
    service.start("worker")
    await own_facade.until_rated(product, 4, 1)
    assert await service.records("moderation-commands.dlq") == []
    assert [each["id"] for each in (await own_facade.review(id))["images"]] == [image]


@pytest.mark.long
async def test_planned_approval_yields_to_decision_waiting_in_kafka(
    own_service: Service, own_facade: Facade, product: str
) -> None:
    service, hour_ago = own_service, datetime.now(UTC) - timedelta(hours=1)
    store = await own_facade.open_store(moderationRules=LOW)
    straight, routed, left = (submission(product, 1, storeId=store, id=new_id("review")) for _ in range(3))
    ids = await own_facade.submit(straight, routed, left)
    assert await service.stop("worker") == 0
    async with service.mongo() as database:
        await database["publications"].update_many({}, {"$set": {"at": hour_ago}})
    rejected = await own_facade.http.post(f"{REVIEWS}/reject?expectedStatus=New", json=[straight["id"]], headers=once())
    assert rejected.status_code == 202
    command = {"action": "reject", "ids": [routed["id"]], "expectedStatus": "New", "moderator": "mona"}
    await service.publish("moderation-commands", message(command, routed["id"]))
    # Its housekeeping starts at once, long before its consumers are assigned a partition.
    service.start("worker")
    await own_facade.until_rated(product, 1, 1)
    statuses = {id: (await own_facade.review(id))["reviewStatus"] for id in ids}
    assert statuses == {straight["id"]: "Rejected", routed["id"]: "Rejected", left["id"]: "Approved"}


@pytest.mark.long
async def test_planned_approvals_beyond_one_batch_are_all_applied(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of the oldest ones than fit into a batch are damaged, themselves or their reviews: they block no other."""

    class NoObjections(Objections):
        async def applied_up_to(self, now: datetime) -> datetime:
            return now

    monkeypatch.setattr(planned_approvals, "_APPROVED_AT_ONCE", 2)
    store = await desk.open_store(moderationRules=LOW)
    reviews = [desk.review(storeId=store, rating=1) for _ in range(12)]
    ids = [review["id"] for review in reviews]
    await desk.submit([record for n, each in enumerate(reviews) for record in desk.records(each, at=LONG_AGO + n)])
    stored, plans = desk.database["reviews"], desk.database["publications"]
    damages: list[Json] = [{"$unset": {"rule": ""}}, {"$set": {"rule": 5}}, {"$set": {"seen": "?"}}]
    await stored.update_many({"_id": {"$in": ids[:3]}}, {"$set": {"status": "strange"}})
    for id, damage in zip(ids[3:6], damages, strict=True):
        await plans.update_one({"_id": id}, damage)
    objections = NoObjections(ConsumerLag(KafkaConnection(NOWHERE), TOPICS), desk.services.transactions.outbox)
    with capture_logs() as lines:
        assert [await approve_due(desk.services, datetime.now(UTC), objections) for _ in range(2)] == [6, 0]
    # Each once, however often they are due.
    assert sorted(line["id"] for line in lines) == sorted(ids[:6])
    approved = {each["_id"] async for each in stored.find({"status": int(ReviewStatus.APPROVED)})}
    assert approved == set(ids[6:])
    assert {each["_id"] async for each in plans.find()} == set(ids[:6])


async def test_damaged_owed_messages_are_logged_once(desk: Desk) -> None:
    at = datetime.fromtimestamp(LONG_AGO / 1_000, UTC)
    added = await desk.database["outbox"].insert_one({"at": at, "messages": [5]})
    with capture_logs() as lines:
        for _ in range(2):
            assert await desk.services.transactions.outbox.settle_overdue() == 0
    assert [line["id"] for line in lines] == [str(added.inserted_id)]


class FailingLag(ConsumerLag):
    """Lag of the cluster, with the measurements numbered `failing` (from 1) raising BrokerAwayError."""

    def __init__(self, service: Service, database: Database, publish: Publish, *failing: int) -> None:
        super().__init__(KafkaConnection(service.servers.kafka), TopicNames(service.prefix), timeout=30)
        self.database, self.outbox = database, Outbox(database, publish)
        self.failing, self.asked = failing, 0

    async def measure(self, *topics: Topic) -> Lag:
        self.asked += 1
        if self.asked in self.failing:
            raise BrokerAwayError("Kafka did not return consumer offsets in time")
        return await super().measure(*topics)


async def moment_of(objections: Objections, turns: int) -> datetime | None:
    """Return the moment found within this number of housekeeping turns, or None."""
    for _ in range(turns):
        with suppress(BrokerAwayError):  # Housekeeping asks again, too.
            if moment := await objections.applied_up_to(datetime.now(UTC)):
                return moment
    return None


@pytest.mark.long
async def test_objections_are_awaited_when_kafka_returns_offsets_late(stopped_service: Service) -> None:
    await stopped_service.publish("review-changes", message({"id": "x"}, "x"))
    for failing in range(1, 6):
        async with lag_of(stopped_service, failing) as lag:
            assert await moment_of(Objections(lag, lag.outbox), 6) is None
            assert lag.asked > failing


@pytest.mark.long
async def test_objections_of_deleted_topic_do_not_block_approvals(stopped_service: Service) -> None:
    await stopped_service.publish("moderation-commands", message({"id": "x"}, "x"))
    async with lag_of(stopped_service) as lag:
        objections = Objections(lag, lag.outbox)
        assert await moment_of(objections, 3) is None
        await delete_topic(stopped_service.servers, stopped_service.topic("moderation-commands"))
        await stopped_service.run("init")
        assert await eventually(partial(moment_of, objections, 1))


@pytest.mark.long
async def test_objections_of_removed_partitions_do_not_block_approvals(stopped_service: Service) -> None:
    async with lag_of(stopped_service) as lag, admin_client(KafkaConnection(stopped_service.servers.kafka)) as admin:
        objections, topic = Objections(lag, lag.outbox), stopped_service.topic("review-changes")
        # In another partition than the remaining one.
        await stopped_service.publish("review-changes", message({"id": "x"}, "x"))
        assert await moment_of(objections, 1) is None
        await delete_topic(stopped_service.servers, topic)
        await admin.create_topics([NewTopic(topic, 1, 1)])
        assert await eventually(partial(moment_of, objections, 1))


@pytest.mark.long
async def test_waiting_replay_may_contain_an_objection(stopped_service: Service) -> None:
    await stopped_service.publish("dead-letter-commands", message({"place": "moderation-commands/0/0"}, "x"))
    async with lag_of(stopped_service) as lag:
        assert await moment_of(Objections(lag, lag.outbox), 6) is None


@pytest.mark.long
async def test_objection_not_forwarded_by_dead_worker_is_awaited(stopped_service: Service) -> None:
    """The worker has applied a replay and still owes its message."""
    async with lag_of(stopped_service) as lag:
        objection = OutgoingMessage(stopped_service.topic("moderation-commands"), b"x", b"{}", ())
        async with lag.database.client.start_session() as session:
            await lag.outbox.add([objection], datetime.now(UTC) - timedelta(hours=1), session)
        assert await moment_of(Objections(lag, lag.outbox), 6) is None
        assert await lag.database["outbox"].count_documents({}) == 0


@asynccontextmanager
async def lag_of(service: Service, *failing: int) -> AsyncIterator[FailingLag]:
    publisher = Publisher(KafkaConnection(service.servers.kafka))
    async with service.mongo() as database:
        try:
            async with FailingLag(service, database, publisher.publish, *failing) as lag:
                yield lag
        finally:
            await publisher.stop()


@pytest.mark.long
async def test_text_of_forgotten_review_can_be_used_again(
    own_service: Service, own_facade: Facade, product: str
) -> None:
    service = own_service
    rules = [{"id": "twice", "kind": "duplicate", "outcome": "hold"}]
    store = await own_facade.open_store(moderationRules=rules)
    review = submission(product, storeId=store, id=new_id("review"), review="Sharp.")
    await own_facade.submit(review)
    await own_facade.moderate("delete", review["id"])
    # It is refused because its id is taken, but its text has been recorded.
    await service.publish("review-submissions", review_message({**review, "rating": 1}))
    async with service.mongo() as database:
        texts, places = database["reviewTexts"], database["reviews"]
        await eventually(lambda: texts.count_documents({"reviewId": review["id"]}), bool)
        await places.update_one({"_id": review["id"]}, {"$set": {"goneAt": datetime.now(UTC) - timedelta(days=99)}})
        await service.restart("worker")
        await eventually(lambda: places.count_documents({"_id": review["id"]}), lambda found: found == 0)
    (id,) = await own_facade.submit({**review, "id": new_id("review"), "userId": "bert"})
    assert (await own_facade.review(id))["flags"] == []


@pytest.mark.long
async def test_overdue_parked_commands_are_given_up_by_one_worker(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays of two dead letters for one command would both take effect."""
    together = asyncio.Barrier(2)

    def in_step(overdue: Any) -> Any:
        async def both_have_found(*arguments: Any, **options: Any) -> Any:
            found = await overdue(*arguments, **options)
            await together.wait()
            return found

        return both_have_found

    monkeypatch.setattr(ParkingRepository, "overdue", in_step(ParkingRepository.overdue))
    services, review = desk.services, desk.review()
    workers, id = [desk.submissions.parked for _ in range(2)], review["id"]
    await desk.judge(desk.verdicts(review, "flag"))
    approve = {"action": "approve", "ids": [id], "commandId": "one"}
    approval = MODERATION_COMMAND.validate_python(approve, strict=False)
    await services.parked_moderation.park(approval.moderations(RecordPosition(0, 1, 1)))
    vote = {"action": "vote", "reviewId": id, "userId": "zoe", "helpful": True, "commandId": "two"}
    votes, _ = decode_records(desk.records(vote), FEEDBACK_COMMAND.validate_json)
    await workers[0].feedback(votes)
    soon = datetime.now(UTC) + timedelta(seconds=1)  # after the last was parked, whose time has no microseconds
    counts = await asyncio.gather(*(worker.give_up_overdue(soon) for worker in workers))
    assert sum(counts) == 3
    topics = (Topic.MODERATION_COMMANDS, Topic.MODERATION_VERDICTS, Topic.REVIEW_FEEDBACK)
    assert sorted(letter.topic for letter in desk.kafka.published) == [TOPICS.dead_letters(topic) for topic in topics]
    assert await desk.outcomes(id, "one", "two") == [Outcome.NOT_FOUND] * 2


@pytest.mark.long
async def test_parked_command_of_existing_review_is_forwarded_once_per_parking_limit(
    desk: Desk,
) -> None:
    """Its owner is behind a backlog, or cannot use the review."""
    parked, review, now = desk.parked, desk.review(), datetime.now(UTC)
    await desk.submit(desk.records(review))
    approval = MODERATION_COMMAND.validate_python({"action": "approve", "ids": [review["id"]]}, strict=False)
    await desk.services.parked_moderation.park(approval.moderations(RecordPosition(0, 1, 1)))
    await desk.database["parkedCommands"].update_many({}, {"$set": {"parkedAt": now - 2 * PARKING_LIMIT}})
    desk.kafka.published.clear()
    desk.kafka.failures.append(BrokerAwayError("Kafka is away"))
    with pytest.raises(BrokerAwayError):
        await parked.give_up_overdue(now - PARKING_LIMIT)
    for passed, later in ((1, timedelta()), (1, timedelta()), (1, PARKING_LIMIT / 2), (2, PARKING_LIMIT * 1.1)):
        assert await parked.give_up_overdue(now + later - PARKING_LIMIT) == 0
        assert [each.topic for each in desk.kafka.published] == [TOPICS.name(Topic.REVIEW_CHANGES)] * passed
    assert await desk.database["parkedCommands"].count_documents({}) == 1


@asynccontextmanager
async def kept_in_order(desk: Desk, returns: ReturnConsumer | None = None) -> AsyncIterator[None]:
    """Run the housekeeping of a worker within the block."""
    lag, remember = ConsumerLag(KafkaConnection(NOWHERE), TOPICS), timedelta(days=21)
    parked, returns = desk.submissions.parked, returns or ReturnConsumer(desk.services)
    keeping = asyncio.create_task(run_housekeeping(desk.services, lag, parked, returns, remember=remember))
    try:
        yield
    finally:
        await cancel_and_wait(keeping)


async def until_overdue_message_is_settled(desk: Desk) -> None:
    """Owe a message, and wait until housekeeping has settled it."""
    owed = desk.database["outbox"]
    await owed.insert_one({"at": datetime.now(UTC) - timedelta(minutes=1), "messages": []})
    await eventually(lambda: owed.count_documents({}), lambda count: count == 0)


class HangingFiles(ImageFiles):
    """An image store that never answers requests about uploads, and records that it was called."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.is_asked = asyncio.Event()

    async def remove_old_uploads(self, before: datetime) -> int:
        self.is_asked.set()
        await asyncio.Event().wait()
        raise AssertionError(before)


async def test_hanging_image_store_does_not_block_other_tasks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "_PAUSE_S", 0.01)
    files, clock = HangingFiles(), desk.database["parkingClock"]
    desk.services.image_files = files
    async with kept_in_order(desk):
        await files.is_asked.wait()
        await until_overdue_message_is_settled(desk)
        ticked = await clock.find_one()
        await eventually(clock.find_one, lambda found: found != ticked)


class AnHourAhead(datetime):
    """The clock of a machine whose time was never set."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + PARKING_LIMIT


async def test_worker_with_clock_ahead_gives_up_nothing_early(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "datetime", AnHourAhead)
    limits = list[datetime]()

    class Watched(ReturnConsumer):
        async def are_overdue(self, before: datetime) -> bool:
            limits.append(before)
            return False

    async with kept_in_order(desk, Watched(desk.services)):
        await eventually(lambda: limits)
    assert abs(limits[0] + PARKING_LIMIT - datetime.now(UTC)) < PARKING_LIMIT / 2


@pytest.mark.long
@pytest.mark.kafka
async def test_outbox_is_published_while_image_store_is_unavailable(servers: Servers, tmp_path: Path) -> None:
    away = {
        "PLAUDIT_IMAGES__STORE": "s3://reviews/plaudit",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "eu-central-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}",
    }
    service, key = Service(servers, tmp_path, environment=away), new_id()
    async with service.running(api=False), service.mongo() as database:
        await eventually(lambda: service.log("worker"), lambda log: "what=images where=housekeeping" in log)
        # As left behind by a worker that died.
        message = [service.topic("events"), key.encode(), b"{}", []]
        await database["outbox"].insert_one({"at": datetime.now(UTC) - timedelta(minutes=1), "messages": [message]})
        await eventually(lambda: database["outbox"].count_documents({}), lambda count: count == 0)
        assert len(await service.keyed("events", key)) == 1


class FailingClock(ParkingClock):
    """A clock that cannot be set."""

    async def tick(self, longest: timedelta) -> tuple[timedelta, bool]:
        raise AutoReconnect(f"away, for longer than {longest}")


async def test_failing_parking_clock_delays_parked_commands_only(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "_PAUSE_S", 0.01)
    monkeypatch.setattr(housekeeping, "ParkingClock", FailingClock)
    overdue = AsyncMock(return_value=False)
    monkeypatch.setattr(ReturnConsumer, "are_overdue", overdue)
    async with kept_in_order(desk):
        await until_overdue_message_is_settled(desk)
    overdue.assert_not_awaited()


async def a_day_passes(database: Database) -> None:
    """Make all recorded times one day older."""
    day = timedelta(days=1) // timedelta(milliseconds=1)
    for name in ("parkedCommands", "parkedReturns"):
        await database[name].update_many({}, [{"$set": {"parkedAt": {"$subtract": ["$parkedAt", day]}}}])
    earlier = {"$mergeObjects": ["$$move", {"before": {"$subtract": ["$$move.before", day]}}]}
    moves = {"$map": {"input": "$moves", "as": "move", "in": earlier}}
    await database["parkingClock"].update_one({}, [{"$set": {"at": {"$subtract": ["$at", day]}, "moves": moves}}])


@pytest.mark.parametrize("is_absent_again", [False, True])
@pytest.mark.long
async def test_parked_times_are_shifted_in_batches(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_absent_again: bool
) -> None:
    """Each is moved once, by any worker, also if workers are absent again in between."""
    monkeypatch.setattr(parking_clock, "_AT_ONCE", 10)
    monkeypatch.setattr(parking_clock, "_IN_A_TURN", 3)
    clock, clocks = ParkingClock(desk.database), desk.database["parkingClock"]
    assert await clock.tick(AWAY_FOR) == (timedelta(), True)
    (ticked,) = await clocks.find().to_list()
    day, collections = timedelta(days=1), [desk.database[name] for name in ("parkedCommands", "parkedReturns")]
    # Groups share one time, and together they span more than the gap; the first three are just before it.
    times = {f"{n:03}": ticked["at"] - timedelta(hours=n // 3) for n in range(100)}
    for collection in collections:
        await collection.insert_many([{"_id": id, "parkedAt": at} for id, at in times.items()])
    gaps = list[timedelta]()
    for _ in range(2 if is_absent_again else 1):
        await a_day_passes(desk.database)
        away, is_done = await clock.tick(AWAY_FOR)
        assert (day <= away < day + AWAY_FOR, is_done) == (True, False)
        gaps.append(away)
    while not is_done:
        ticks = await asyncio.gather(*(clock.tick(AWAY_FOR) for _ in range(2)))
        is_done = all(done for _, done in ticks)
    later = sum(gaps, start=-len(gaps) * day)
    for collection in collections:
        found = {each["_id"]: each["parkedAt"] async for each in collection.find()}
        assert found == {id: at + later for id, at in times.items()}
    assert await clock.tick(AWAY_FOR) == (timedelta(), True)
