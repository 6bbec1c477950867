"""Kafka after actions of administrators and upstream systems: topics recreated, records removed, transactions
aborted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import (
    CommitFailedError,
    GroupLoadInProgressError,
    IllegalStateError,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3

from consumers.subscriptions import Batch
from domain.findings import Level
from messaging.kafka import checks, patient_consumer
from messaging.kafka.administration import admin_client
from messaging.kafka.checks import check_consumption
from messaging.kafka.connection import BrokerAwayError, KafkaConnection
from messaging.kafka.lag import ConsumerLag, Unread
from messaging.kafka.patient_consumer import PatientConsumer
from messaging.topics import Topic, TopicNames
from storage.pymongo_internals import cancel_and_wait
from tests.support.facade import REVIEWS, WAIT, Facade, new_id, submission
from tests.support.final_responses import final_status
from tests.support.messages import Message, review_message
from tests.support.orders import Returns, an_order, order_event
from tests.support.service import PARTITIONS, Servers, Service
from tests.support.topics import create_topic, delete_topic, new_topic
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

TOPIC = "review-submissions"

UNHURRIED: Final = {"session_timeout_ms": 120_000}
"""Options of a member that keeps its place in the group, however long this process is delayed."""


async def submit(service: Service, count: int = 12) -> set[str]:
    """Publish this number of reviews about different objects; returns their ids."""
    ids = {new_id("review") for _ in range(count)}
    await service.publish(TOPIC, *(review_message(submission(new_id(), id=id)) for id in ids))
    return ids


async def until_stored(service: Service, ids: set[str]) -> None:
    async def stored() -> set[str]:
        async with service.mongo() as database:
            return set(await database["reviews"].distinct("_id"))

    await eventually(stored, lambda found: found >= ids, deadline_s=120)


@pytest.mark.long
async def test_topic_is_recreated_while_workers_run(own_service: Service) -> None:
    servers, topic = own_service.servers, own_service.topic(TOPIC)
    await until_stored(own_service, await submit(own_service, 40))
    await delete_topic(servers, topic)
    await eventually(lambda: f"No partition metadata for topic {topic}" in own_service.log("worker"))
    await asyncio.sleep(3)  # it looks for records, and finds no partitions to read: nothing reports that
    await create_topic(servers, topic, PARTITIONS)
    # More than the deleted topic had: its offsets would be in the middle.
    await until_stored(own_service, await submit(own_service, 400))
    assert "Traceback" not in own_service.log("worker")


async def test_new_group_seeks_all_partitions_at_once(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, each would wait for a fetch from the others, which brokers hold while there are no
    records."""
    partitions, begun = 12, list[int]()
    topic = await new_topic(servers, partitions)
    seek_to_beginning = PatientConsumer.seek_to_beginning

    async def counted(consumer: PatientConsumer, *places: TopicPartition) -> None:
        begun.append(len(places))
        await seek_to_beginning(consumer, *places)

    monkeypatch.setattr(PatientConsumer, "seek_to_beginning", counted)
    options: dict[str, Any] = {"group_id": new_id("group"), "auto_offset_reset": "none", **UNHURRIED}
    consumer = PatientConsumer(topic, bootstrap_servers=servers.kafka, **options)
    await consumer.start()
    try:
        async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer, asyncio.timeout(120):
            await producer.send_and_wait(topic, b"value", partition=partitions - 1)
            (place,) = await consumer.getmany(timeout_ms=1_000)
        assert place.partition == partitions - 1
        assert begun == [partitions]
    finally:
        await consumer.stop()


async def publish(servers: Servers, topic: str, count: int) -> None:
    """Publish this number of records to the first partition of a topic."""
    async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer:
        for _ in range(count):
            await producer.send_and_wait(topic, b"value", partition=0)


@asynccontextmanager
async def member(servers: Servers, topic: str, group: str, **more: Any) -> AsyncIterator[PatientConsumer]:
    """A consumer in a group that commits on demand only, and notices changes of its topic soon."""
    options = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "none", **UNHURRIED, **more}
    consumer = PatientConsumer(topic, bootstrap_servers=servers.kafka, metadata_max_age_ms=1_000, **options)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def batch_of(consumer: PatientConsumer) -> Batch:
    """Return the records of one poll."""
    found = await consumer.getmany(timeout_ms=1_000)
    return Batch(consumer, [record for records in found.values() for record in records], consumer.polled)


async def offsets_of(consumer: PatientConsumer, count: int) -> list[int]:
    """Return the offsets of this number of records, in order of arrival."""
    read: list[int] = []
    while len(read) < count:
        read += [record.offset for record in (await batch_of(consumer)).records]
    return read


async def test_offsets_of_deleted_topic_are_not_committed_to_its_successor(servers: Servers) -> None:
    topic = await new_topic(servers)
    await publish(servers, topic, 3)
    async with member(servers, topic, new_id("group")) as consumer, asyncio.timeout(120):
        await batch_of(consumer)
        await delete_topic(servers, topic)
        # The latter if it has already noticed that its partition is gone.
        with pytest.raises((CommitFailedError, IllegalStateError)):
            await consumer.commit({TopicPartition(topic, 0): 3})
        await create_topic(servers, topic)
        await publish(servers, topic, 9)
        assert await offsets_of(consumer, 9) == list(range(9))


@pytest.mark.parametrize("is_seen_gone", [True, False])
async def test_batch_in_progress_during_topic_recreation_skips_nothing(servers: Servers, is_seen_gone: bool) -> None:
    topic = await new_topic(servers)
    await publish(servers, topic, 3)
    async with member(servers, topic, new_id("group")) as consumer, asyncio.timeout(120):
        batch = await batch_of(consumer)
        await batch.commit()
        await publish(servers, topic, 2)
        batch = await batch_of(consumer)
        assert batch.records[0].offset == 3
        await delete_topic(servers, topic)
        if is_seen_gone:
            await eventually(lambda: not consumer.assignment())
        # With another number of partitions, so that it is noticed in any case.
        await create_topic(servers, topic, 2)
        await publish(servers, topic, 9)
        await eventually(lambda: len(consumer.assignment()) == 2)
        await batch.commit()
        assert await offsets_of(consumer, 9) == list(range(9))


async def test_batch_in_progress_during_rebalances_is_committed(servers: Servers) -> None:
    """Only the partition that stays assigned is committed; the other one, which had another owner meanwhile, is
    delivered again."""
    topic, group = await new_topic(servers, 2), new_id("group")
    places = [TopicPartition(topic, number) for number in range(2)]
    async with member(servers, topic, group) as consumer, asyncio.timeout(120):
        await consumer.commit(dict.fromkeys(places, 0))
        async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer:
            for place in places:
                await producer.send_and_wait(topic, b"value", partition=place.partition)
        records = [*(await batch_of(consumer)).records]
        while len(records) < 2:
            records += (await batch_of(consumer)).records
        batch = Batch(consumer, records, consumer.polled)
        async with member(servers, topic, group):
            (kept,) = await eventually(consumer.assignment, lambda places: len(places) == 1)
        await eventually(lambda: len(consumer.assignment()) == 2)
        await batch.commit()
        committed = {place: await consumer.committed(place) for place in places}
        assert committed == {place: int(place == kept) for place in places}


async def test_aborted_transactions_have_no_effect(service: Service) -> None:
    product, options = new_id(), {"transactional_id": new_id("upstream"), "bootstrap_servers": service.servers.kafka}
    async with AIOKafkaProducer(**options) as producer:
        for title, is_kept in (("aborted", False), ("kept", True), ("aborted too", False), ("kept too", True)):
            await producer.begin_transaction()
            sent: Message = review_message(submission(product, title=title))
            await producer.send_and_wait(service.topic(TOPIC), sent.value, b"key")
            await (producer.commit_transaction() if is_kept else producer.abort_transaction())
    async with service.mongo() as database:
        titles = partial(database["reviews"].distinct, "title", {"entityId": product})
        assert set(await eventually(titles, lambda found: "kept too" in found)) == {"kept", "kept too"}
    # Aborted records are no backlog either.
    await eventually(partial(service.lag, TOPIC), lambda lag: lag == 0)


@pytest.mark.long
async def test_doctor_names_an_open_transaction(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers have read all that they may: their logs say nothing."""
    monkeypatch.setattr(checks, "_PROGRESS_S", 2.0)
    monkeypatch.setattr(checks, "STANDS_AFTER_S", -60.0)
    connection, names = KafkaConnection(service.servers.kafka), TopicNames(service.prefix)
    options = {"transactional_id": new_id("upstream"), "bootstrap_servers": service.servers.kafka}

    async def progress() -> tuple[Level, str]:
        async with admin_client(connection) as admin:
            found = [each async for each in check_consumption(admin, connection, names)]
        return found[-1].level, found[-1].text

    async with AIOKafkaProducer(**options) as producer:
        await producer.begin_transaction()
        message: Message = review_message(submission(new_id()))
        sent = await producer.send_and_wait(service.topic(TOPIC), message.value, b"key")
        level, text = await progress()
        assert level is Level.FAIL
        assert text.startswith(f"partition {sent.partition} of {TOPIC} waits at offset {sent.offset}, a record of ")
        assert text.endswith(", for an open transaction of a producer")
        await producer.commit_transaction()
    assert await eventually(progress) == (Level.OK, "no partition is stuck")


@pytest.mark.long
async def test_slow_batch_keeps_group_membership(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, group, beats = await new_topic(servers), new_id("group"), list[int]()
    place = TopicPartition(topic, 0)
    await publish(servers, topic, 1)
    # aiokafka doesn't measure the time since a poll once one has raised, as the first one of a new group does.
    async with member(servers, topic, group) as consumer:
        await consumer.commit({place: 0})
    beat = GroupCoordinator._do_heartbeat

    async def counted(coordinator: GroupCoordinator) -> bool:
        beats.append(1)
        return bool(await beat(coordinator))

    monkeypatch.setattr(GroupCoordinator, "_do_heartbeat", counted)
    async with member(servers, topic, group, heartbeat_interval_ms=20) as consumer, asyncio.timeout(120):
        batch = await batch_of(consumer)
        consumer._subscription._last_fetch_ended -= 3_600  # the time since its last poll
        before = len(beats)
        # It checks that time after each heartbeat.
        await eventually(lambda: len(beats) > before + 2)
        await batch.commit()
        assert await consumer.committed(place) == 1


async def publish_transaction(servers: Servers, topic: str, *, is_kept: bool) -> None:
    """Publish a record to the first partition of a topic in its own transaction, and commit or abort it."""
    options = {"transactional_id": new_id("upstream"), "bootstrap_servers": servers.kafka}
    async with AIOKafkaProducer(**options) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"value", partition=0)
        await (producer.commit_transaction() if is_kept else producer.abort_transaction())


async def test_aborted_records_at_the_end_are_committed(servers: Servers) -> None:
    """No records follow, so that no batch is ever committed."""
    topic, group = await new_topic(servers), new_id("group")
    place = TopicPartition(topic, 0)
    await publish(servers, topic, 1)
    async with member(servers, topic, group) as consumer, asyncio.timeout(120):
        await (await batch_of(consumer)).commit()
    await publish_transaction(servers, topic, is_kept=False)
    async with member(servers, topic, group, isolation_level="read_committed") as consumer, asyncio.timeout(120):
        end = (await consumer.end_offsets([place]))[place]
        polling = asyncio.create_task(consumer.getmany(timeout_ms=100))
        try:
            await eventually(partial(consumer.committed, place), end.__eq__)
        finally:
            await cancel_and_wait(polling)


async def test_end_of_transaction_is_committed_while_another_partition_delivers(servers: Servers) -> None:
    """No poll is empty."""
    topic, group = await new_topic(servers, 2), new_id("group")
    place, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    await publish_transaction(servers, topic, is_kept=True)

    async def publish_to_other() -> None:
        async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer:
            while True:
                await producer.send_and_wait(topic, b"value", partition=other.partition)
                await asyncio.sleep(0.1)  # less than a poll waits

    async def consume(consumer: PatientConsumer) -> None:
        while True:
            await (await batch_of(consumer)).commit()

    async with member(servers, topic, group, isolation_level="read_committed") as consumer, asyncio.timeout(120):
        end = (await consumer.end_offsets([place]))[place]
        # Without offsets the first polls would be empty.
        await consumer.commit({place: 0, other: 0})
        tasks = [asyncio.create_task(publish_to_other()), asyncio.create_task(consume(consumer))]
        try:
            await eventually(partial(consumer.committed, place), lambda offset: offset == end)
        finally:
            for task in tasks:
                await cancel_and_wait(task)


async def test_batch_in_progress_is_not_committed_by_next_poll(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, polls = await new_topic(servers), list[int]()
    await publish(servers, topic, 1)
    async with member(servers, topic, new_id("group")) as consumer, asyncio.timeout(120):
        await batch_of(consumer)
        monkeypatch.setattr(patient_consumer, "wait_in_fetches", lambda *_: polls.append(1))
        polling = asyncio.create_task(consumer.getmany(timeout_ms=10))
        try:
            await eventually(lambda: len(polls) > 1)  # none of them returns a record
        finally:
            await cancel_and_wait(polling)
        assert await consumer.committed(TopicPartition(topic, 0)) is None


@asynccontextmanager
async def lag_of(servers: Servers, partitions: int) -> AsyncIterator[tuple[ConsumerLag, str]]:
    """The lag of consumers of submissions in a new namespace, and the name of their topic."""
    names = TopicNames(f"{new_id()}.")
    await create_topic(servers, topic := names.name(Topic.REVIEW_SUBMISSIONS), partitions)
    async with member(servers, topic, topic):
        pass  # Kafka has its topic for commits from then on
    async with ConsumerLag(KafkaConnection(servers.kafka), names, timeout=60) as lag:
        yield lag, topic


async def publish_at(servers: Servers, topic: str, *times_s: tuple[int, int]) -> None:
    """Publish records to these partitions at these times."""
    async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer:
        for partition, seconds in times_s:
            await producer.send_and_wait(topic, b"value", partition=partition, timestamp_ms=seconds * 1_000)


async def test_oldest_unread_record_follows_transaction_marker(servers: Servers) -> None:
    async with lag_of(servers, 1) as (lag, topic):
        await publish_transaction(servers, topic, is_kept=True)
        async with member(servers, topic, topic) as consumer:
            await consumer.commit({TopicPartition(topic, 0): 1})
        # Only the end marker of the transaction is unread.
        assert (await lag.measure())[Topic.REVIEW_SUBMISSIONS, 0] == Unread(1, 1)
        assert await lag.oldest_unread(Topic.REVIEW_SUBMISSIONS, 3_000) is None
        await publish_at(servers, topic, (0, 1_000), (0, 2_000))
        assert await lag.oldest_unread(Topic.REVIEW_SUBMISSIONS, 3_000) == 1_000


async def test_ends_are_awaited_until_they_are_applied_or_gone(servers: Servers) -> None:
    async with lag_of(servers, 2) as (lag, topic):
        await publish_at(servers, topic, (0, 1_000), (1, 1_000))
        ends = await lag.ends(Topic.REVIEW_SUBMISSIONS)
        assert await lag.unapplied(ends) == ends == {(Topic.REVIEW_SUBMISSIONS, number): 1 for number in range(2)}
        async with member(servers, topic, topic) as consumer:
            await consumer.commit({TopicPartition(topic, 0): 1})
        await publish_at(servers, topic, (0, 1_000))
        unapplied = await lag.unapplied(ends)
        assert unapplied == {(Topic.REVIEW_SUBMISSIONS, 1): 1}
        await delete_topic(servers, topic)
        # It may come back with the records: a broker that has just started doesn't know all topics.
        assert await lag.unapplied(unapplied) == unapplied
        await create_topic(servers, topic, 1)
        await eventually(partial(lag.unapplied, unapplied), {}.__eq__)


async def test_missing_topic_is_not_read(servers: Servers) -> None:
    async with lag_of(servers, 1) as (lag, _):
        with pytest.raises(UnknownTopicOrPartitionError, match=Topic.ORDER_EVENTS):
            await lag.ends(Topic.REVIEW_SUBMISSIONS, Topic.ORDER_EVENTS)
        with pytest.raises(UnknownTopicOrPartitionError, match=Topic.ORDER_EVENTS):
            await lag.oldest_unread(Topic.ORDER_EVENTS, 3_000)


async def test_record_from_the_future_tells_nothing_about_those_behind_it(servers: Servers) -> None:
    async with lag_of(servers, 2) as (lag, topic):
        await publish_at(servers, topic, (0, 2_000), (1, 9_000), (1, 1_000))
        assert await lag.oldest_unread(Topic.REVIEW_SUBMISSIONS, 9_000) == 2_000
        assert await lag.oldest_unread(Topic.REVIEW_SUBMISSIONS, 8_999) == 0


async def test_lag_is_unknown_while_coordinator_loads_group(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = AIOKafkaAdminClient._send_request

    async def loading(admin: AIOKafkaAdminClient, request: Any, node_id: int | None = None) -> Any:
        if isinstance(request, OffsetFetchRequest):
            return OffsetFetchResponse_v3(0, [], GroupLoadInProgressError.errno)
        return await answer(admin, request, node_id)

    async with lag_of(servers, 2) as (lag, _):
        assert set((await lag.measure()).values()) == {Unread(0, 0)}
        monkeypatch.setattr(AIOKafkaAdminClient, "_send_request", loading)
        with pytest.raises(BrokerAwayError):
            await lag.measure()


@pytest.mark.long
async def test_records_deleted_unread_are_logged(own_service: Service) -> None:
    # Enough for each partition to have some: if a group has never read a partition, its loss is unknown.
    await until_stored(own_service, await submit(own_service, 100))
    await own_service.idle()
    assert await own_service.stop("worker") == 0
    await submit(own_service, 40)
    places = own_service.partitions_of(TOPIC)
    async with admin_client(KafkaConnection(own_service.servers.kafka)) as admin, own_service.consumer() as consumer:
        ends = await consumer.end_offsets(places)
        await admin.delete_records({place: RecordsToDelete(before_offset=ends[place]) for place in places})
    own_service.start("worker")
    await until_stored(own_service, await submit(own_service))

    def lost() -> int:
        lines = [line for line in own_service.log("worker").splitlines() if "deleted before they were read" in line]
        return sum(int(line.partition("count=")[2].split()[0]) for line in lines)

    await eventually(lost, lambda count: count >= 40)
    await own_service.idle()
    assert lost() == 40


@pytest.mark.long
async def test_committed_offsets_beyond_the_end_of_a_topic(own_service: Service) -> None:
    """As when a broker came back without its last records, or from an older copy."""
    await own_service.idle()
    assert await own_service.stop("worker") == 0
    places = own_service.partitions_of(TOPIC)
    async with own_service.group_member(TOPIC) as member:
        member.assign(places)
        await member.commit(dict.fromkeys(places, 1_000))
    ids = await submit(own_service)
    own_service.start("worker")
    await until_stored(own_service, ids)
    assert "the topic ends before the committed offset" in own_service.log("worker")
    assert "deleted before they were read" not in own_service.log("worker")
    await eventually(partial(own_service.lag, TOPIC), lambda lag: lag == 0)


async def configure(service: Service, topic: str, setting: str, value: int) -> None:
    """Change a setting of a topic, which takes effect a moment later."""
    resource = ConfigResource(ConfigResourceType.TOPIC, service.topic(topic), {setting: f"{value}"})
    async with admin_client(KafkaConnection(service.servers.kafka)) as admin:
        await admin.alter_configs([resource])


async def limit(service: Service, topic: str, most_bytes: int) -> None:
    """Limit the size of records of a topic; returns once the limit is in effect."""
    await configure(service, topic, "max.message.bytes", most_bytes)
    async with AIOKafkaProducer(bootstrap_servers=service.servers.kafka) as producer:

        async def is_limited() -> bool:
            try:
                await producer.send_and_wait(service.topic(topic), b"x" * 3_000)
            except MessageSizeTooLargeError:
                return True
            return False

        await eventually(is_limited, (most_bytes < 3_000).__eq__)


@pytest.mark.slow
async def test_too_large_event_waits_until_topic_accepts_it(own_service: Service, own_facade: Facade) -> None:
    product = new_id()
    (id,) = await own_facade.submit(submission(product))

    async def reply() -> int:
        path, text = f"{REVIEWS}/{id}/reply", {"text": "x" * 3_000}
        return await final_status(own_facade.http, await own_facade.http.post(path, json=text, headers=WAIT))

    async def has_event(kind: str) -> bool:
        return kind in [each for each, _ in await own_service.events(f"Product:{product}")]

    await limit(own_service, "events", 1_500)
    assert await reply() == 200
    # First by the consumer, then by the housekeeping of every worker.
    await eventually(lambda: own_service.log("worker").count("is too large for its topic") > 2)
    assert await own_facade.moderate("approve", id) == ["applied"]
    await eventually(partial(has_event, "ReviewApproved"))
    assert not await has_event("ReviewReplied")
    await limit(own_service, "review-feedback", 1_500)
    assert await reply() == 413
    await limit(own_service, "events", 100_000)
    await eventually(partial(has_event, "ReviewReplied"))
    assert own_service.processes["worker"].poll() is None
    assert await own_service.dead_letters() == []


@pytest.mark.long
async def test_events_wait_while_kafka_rejects_the_clock(own_service: Service, own_facade: Facade) -> None:
    setting, products = "message.timestamp.before.max.ms", list[str]()

    async def is_rejected() -> bool:
        products.append(new_id())
        await own_facade.submit(submission(products[-1]))
        return "retrying: clocks differ" in own_service.log("worker")

    async def announced() -> list[str]:
        return [product for product in products if await own_service.events(f"Product:{product}")]

    # All records are older than that, as those of a clock that is ahead are too new.
    await configure(own_service, "events", setting, 0)
    await eventually(is_rejected)
    await configure(own_service, "events", setting, 2**63 - 1)
    await eventually(announced, products.__eq__)
    log = own_service.log("worker").splitlines()
    assert not [line for line in log if "server unavailable" in line and "clock" in line]


@pytest.mark.long
async def test_order_event_from_the_future_does_not_stop_later_ones(own_service: Service, own_returns: Returns) -> None:
    """Kafka refuses such records only from version 4.0 on, and by its default settings."""
    topic, id, ahead = "order-events", new_id("order"), datetime(2100, 1, 1, tzinfo=UTC)
    await configure(own_service, topic, "message.timestamp.after.max.ms", 2**63 - 1)

    async def is_accepted(date: str | None) -> bool:
        event = order_event(an_order(id, {"a": 9}, modifiedDate=date))
        try:
            await own_service.publish(topic, event._replace(timestamp=int(ahead.timestamp() * 1_000)))
        except InvalidTimestampError:
            return False  # the setting isn't in effect yet
        return True

    for date in (None, ahead.isoformat()):
        await eventually(partial(is_accepted, date))
    await own_service.publish(topic, order_event(an_order(id, {"a": 1})))
    await eventually(partial(own_returns.available, id), lambda found: found == {"a": 1})
    letters = await own_service.letters(topic, id, 2)
    assert [dict(each.headers)["x-error-code"] for each in letters] == [b"invalid-timestamp", b"invalid-message"]
