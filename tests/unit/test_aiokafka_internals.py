"""The private parts of aiokafka that we use work as expected, and renamed ones raise AttributeError."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, patch

import aiokafka
import aiokafka.admin.client
import aiokafka.consumer.fetcher
import pytest
from aiokafka import conn
from aiokafka.consumer import group_coordinator
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import (
    CommitFailedError,
    KafkaConnectionError,
    KafkaError,
    OffsetMetadataTooLargeError,
    ProducerClosed,
)
from aiokafka.producer.sender import Sender
from aiokafka.protocol.commit import OffsetFetchResponse_v3
from aiokafka.protocol.fetch import FetchRequest_v4
from aiokafka.protocol.group import (
    HeartbeatResponse_v1,
    JoinGroupRequest,
    JoinGroupResponse_v5,
    SyncGroupRequest,
    SyncGroupResponse_v3,
)
from aiokafka.protocol.metadata import MetadataRequest, MetadataRequest_v5, MetadataResponse_v0
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import BrokerMetadata, OffsetAndMetadata

from messaging.kafka import aiokafka_internals
from messaging.kafka.connection import is_broker_away
from messaging.kafka.record_batches import ReadableBatches
from tests.support.raw_batches import batch, record
from tests.support.renaming import loaded_anew, rename
from tests.support.waiting import eventually

PLACE = aiokafka.TopicPartition("topic", 0)
COMMITTED = [("topic", [(0, 7, "", 0)])]
"""A committed offset of 7, as a broker returns it."""
SUBSCRIBED = SimpleNamespace(assignment=[PLACE])
Check = Callable[[Any], Awaitable[None]]


async def filled_producer(ours: Any) -> tuple[Any, asyncio.Future[Any]]:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
    content = producer.create_batch()
    content.append(key=None, value=b"v", timestamp=None, headers=[])
    return producer, ours.queue_batch(producer, content, PLACE)


async def check_queue(ours: Any) -> None:
    """Batches of one partition are queued, and fail or end with the producer."""
    producer, first = await filled_producer(ours)
    second = ours.queue_batch(producer, producer.create_batch(), PLACE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(producer.flush(), 0.01)
    producer._message_accumulator.fail_all(KafkaError("failed"))
    for future in (first, second):
        with pytest.raises(KafkaError, match="failed"):
            await future
    with pytest.raises(KafkaError, match="failed"):
        ours.queue_batch(producer, producer.create_batch(), PLACE)
    await ours.close_without_flush(producer)


async def check_closed_queue(ours: Any) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
    await producer._message_accumulator.close()
    with pytest.raises(ProducerClosed):
        ours.queue_batch(producer, producer.create_batch(), PLACE)
    await ours.close_without_flush(producer)


async def check_close(ours: Any) -> None:
    """A producer is closed at once with its sender and client, even if batches are buffered."""
    producer, waiting = await filled_producer(ours)
    with patch.object(Sender, "close") as close:
        async with asyncio.timeout(30):
            await ours.close_without_flush(producer)
            await ours.close_without_flush(producer)
            await producer.stop()  # would wait for the buffer of an open producer
    close.assert_awaited_once()
    assert not waiting.done()


async def check_connection(ours: Any) -> None:
    """A write that the event loop refuses counts as a lost connection."""
    before = conn.AIOKafkaConnection.send
    try:
        ours.recover_lost_connections()
        with pytest.raises(KafkaConnectionError, match="No connection"):
            await conn.AIOKafkaConnection("host", 1).send(MetadataRequest([]))
        connection = conn.AIOKafkaConnection("host", 1)
        connection._writer = _ClosedWriter()
        connection._versions = {3: (0, 0)}
        with pytest.raises(KafkaConnectionError, match="broken"):
            await connection.send(MetadataRequest([]))
        assert not connection.connected()
    finally:
        conn.AIOKafkaConnection.send = before


class _ClosedWriter:
    def write(self, data: bytes) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    def close(self) -> None:
        """Do nothing: the writer is closed already."""


async def check_batches(ours: Any) -> None:
    """Fetched batches are read by the replacement class, which may be set twice."""
    fetcher = aiokafka.consumer.fetcher
    before = fetcher.MemoryRecords
    if before is ReadableBatches:  # replaced by an earlier test in this process
        fetcher.MemoryRecords = MemoryRecords
    try:
        ours.replace_batch_reader(_Reader)
        ours.replace_batch_reader(_Reader)
        assert fetcher.MemoryRecords is _Reader
    finally:
        fetcher.MemoryRecords = before
    assert [one.value for one in ours.record_batch(batch(record(b"v")))] == [b"v"]
    assert [one.value for one in ours.legacy_batch(batch(record(b"v")))] == [b"v"]


class _Reader:
    pass


@asynccontextmanager
async def started_consumer() -> AsyncIterator[Any]:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    with patch.object(aiokafka.client.AIOKafkaClient, "bootstrap"):
        await consumer.start()
    await asyncio.sleep(0)  # let its tasks start
    try:
        yield consumer
    finally:
        await consumer.stop()


async def check_fetches(ours: Any) -> None:
    """Fetch requests of a started consumer carry the maximum wait that was set last."""
    at_its_beginning = SimpleNamespace(has_valid_position=True, paused=False, position=0)
    assignment = SimpleNamespace(tps=[PLACE], state_value=lambda _: at_its_beginning)
    async with started_consumer() as consumer:
        for wait in (2_000, 250):
            ours.wait_in_fetches(consumer, wait)
            with patch.object(consumer._fetcher, "_select_read_replica", return_value=0):
                ((_, request),) = consumer._fetcher._get_actions_per_node(assignment)[0]
            assert request.build(FetchRequest_v4).max_wait_time == wait


class FetchedRecords:
    """The records of a partition that were fetched, numbered from 0."""

    def __init__(self, count: int) -> None:
        self.next_fetch_offset = 0
        self._count = count

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.next_fetch_offset == self._count:
            raise StopIteration
        self.next_fetch_offset += 1
        return self.next_fetch_offset - 1


async def check_turns(ours: Any) -> None:
    """Partitions take turns, whatever the number of their records."""
    places = [aiokafka.TopicPartition("topic", number) for number in range(3)]
    async with started_consumer() as consumer:
        ours.serve_last(consumer, places)
        consumer._subscription.assign_from_user(places)
        assignment = consumer._subscription.subscription.assignment
        for place in places:
            consumer._subscription.seek(place, 0)
            consumer._fetcher._records[place] = aiokafka.consumer.fetcher.FetchResult(
                place, assignment=assignment, partition_records=FetchedRecords(7), backoff=0
            )
        served = []
        for _ in range(6):
            found = await consumer._fetcher.fetched_records(places, max_records=3)
            ours.serve_last(consumer, found)
            served.append({place.partition: records for place, records in found.items()})
    assert served[:3] == [{0: [0, 1, 2]}, {1: [0, 1, 2]}, {2: [0, 1, 2]}]
    assert {number for found in served[3:] for number in found} == {0, 1, 2}


async def check_positions(ours: Any) -> None:
    """Known positions are returned, except in partitions with fetched records."""
    read, buffered, _ = places = [aiokafka.TopicPartition("topic", number) for number in range(3)]
    async with started_consumer() as consumer:
        consumer._subscription.assign_from_user(places)
        assert ours.drained_positions(consumer) == {}
        for place in read, buffered:
            consumer._subscription.seek(place, 7)
        consumer._fetcher._records[buffered] = aiokafka.consumer.fetcher.FetchError(error=KafkaError(), backoff=0)
        assert ours.drained_positions(consumer) == {read: 7}


async def check_brokers(ours: Any) -> None:
    """If no known broker answers, brokers are looked up at the bootstrap addresses; known topics are kept."""
    before = aiokafka.client.AIOKafkaClient._metadata_update
    moved = BrokerMetadata(7, "127.0.0.1", 1, None)
    asked: list[Any] = []

    async def bootstrap(client: Any) -> None:
        asked.append(client)
        if len(asked) == 1:
            raise KafkaConnectionError("away")
        if len(asked) == 2:
            client.cluster.update_metadata(MetadataResponse_v0([(7, "127.0.0.1", 1)], []))

    try:
        ours.find_brokers_again()
        asking = aiokafka.client.AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
        asking.cluster._partitions = {"topic": {}}
        with patch.object(aiokafka.client.AIOKafkaClient, "bootstrap", bootstrap):
            for brokers in (set(), {moved}, {moved}):
                assert await asking._metadata_update(asking.cluster, []) is False
                assert asking.cluster.brokers() == brokers
        assert len(asked) == 3
        assert asking not in asked
        assert asking.cluster.topics() == {"topic"}
        await asking.close()
    finally:
        aiokafka.client.AIOKafkaClient._metadata_update = before


async def check_topics(ours: Any) -> None:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    ours.look_up_topics(consumer, ["topic", "other"])
    assert consumer._client._topics == {"topic", "other"}


async def check_questions(ours: Any) -> None:
    """Metadata requests of clients don't let brokers create topics."""
    modules = aiokafka.client, aiokafka.admin.client
    before = [module.MetadataRequest for module in modules]
    for module in modules:
        module.MetadataRequest = MetadataRequest
    try:
        ours.make_no_topics()
        ours.make_no_topics()
        for module in modules:
            request = module.MetadataRequest(["shop.events"]).build(MetadataRequest_v5)
            assert (request.topics, request.allow_auto_topic_creation) == (["shop.events"], False)
    finally:
        for module, one in zip(modules, before, strict=True):
            module.MetadataRequest = one


async def check_assignment(ours: Any) -> None:
    """An assignment ends with the next one, even if that has the same partitions."""
    consumer = aiokafka.AIOKafkaConsumer("topic", bootstrap_servers="127.0.0.1:1")
    try:
        consumer._subscription.assign_from_subscribed([PLACE])
        end = ours.assignment_end(consumer)
        assert not end.done()
        consumer._subscription.assign_from_subscribed([PLACE])
        assert end.done()
        assert not ours.assignment_end(consumer).done()
    finally:
        await consumer.stop()


async def check_commits(ours: Any) -> None:
    """Errors of cancelled commits are dropped, others are raised. Forbidden commits aren't sent."""
    reported: list[dict[str, Any]] = []
    loop, proceed, may_commit = asyncio.get_running_loop(), asyncio.Event(), [True]
    loop.set_exception_handler(lambda _, context: reported.append(context))
    consumer = aiokafka.AIOKafkaConsumer("topic", bootstrap_servers="127.0.0.1:1", group_id="group")
    coordinator = group_coordinator.GroupCoordinator(consumer._client, consumer._subscription, group_id="group")

    async def refused(_: Any) -> None:
        await proceed.wait()
        raise OffsetMetadataTooLargeError

    coordinator._send_req, coordinator.ensure_coordinator_known = refused, AsyncMock()
    if hasattr(consumer, "_coordinator"):  # as after its start
        consumer._coordinator = coordinator
    try:
        ours.guard_commits(consumer, lambda: may_commit[-1])
        offsets = {PLACE: OffsetAndMetadata(1, "")}
        given_up = asyncio.create_task(coordinator.commit_offsets(None, offsets))
        await asyncio.sleep(0)  # let it start
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        proceed.set()
        with pytest.raises(OffsetMetadataTooLargeError):
            await coordinator.commit_offsets(None, offsets)
        may_commit.append(False)
        with pytest.raises(CommitFailedError):
            await coordinator.commit_offsets(None, offsets)
        gc.collect()  # also collects leftovers of earlier tests
        assert OffsetMetadataTooLargeError not in {type(context.get("exception")) for context in reported}
    finally:
        loop.set_exception_handler(None)
        await coordinator.close()
        await consumer.stop()


async def check_generation(ours: Any) -> None:
    """A consumer that isn't in a group has a negative generation."""
    async with coordinated_consumer() as (consumer, _):
        assert ours.generation(consumer) < 0


async def check_offsets(ours: Any) -> None:
    """Offset fetches are retried while a coordinator loads, and at another broker if the coordinator has moved."""
    loading, moved, found = (
        OffsetFetchResponse_v3(0, topics, code) for code, topics in ((14, []), (16, []), (0, COMMITTED))
    )
    async with coordinated_consumer() as (consumer, coordinator):
        known = []

        async def look_up() -> None:
            known.append(coordinator.coordinator_id)
            coordinator.coordinator_id = 0

        coordinator.ensure_coordinator_known, coordinator._retry_backoff_ms = look_up, 0
        ours.read_group_errors(consumer)
        with patch.object(consumer._client, "send", AsyncMock(side_effect=[loading, moved, found])):
            offsets = await coordinator.fetch_committed_offsets([PLACE])
        assert offsets == {PLACE: OffsetAndMetadata(7, "")}
        assert known == [None, 0, None]


async def check_join(ours: Any) -> None:
    """An unknown error code of a heartbeat is raised at each poll until the member rejoins."""
    beats = iter([999])
    joined: list[Any] = []
    assigned = ConsumerProtocol.ASSIGNMENT(0, [("topic", [0])], b"").encode()

    async def answer(request: Any) -> Any:
        if isinstance(request, JoinGroupRequest):
            joined.append(request)
            return JoinGroupResponse_v5(0, 0, len(joined), "roundrobin", "another", "one", [])
        if isinstance(request, SyncGroupRequest):
            return SyncGroupResponse_v3(0, 0, assigned)
        return HeartbeatResponse_v1(0, next(beats, 0))

    async with coordinated_consumer("topic", heartbeat_interval_ms=1, retry_backoff_ms=1) as (consumer, coordinator):
        coordinator._send_req, coordinator.ensure_coordinator_known = answer, AsyncMock()
        for _ in range(3):
            await eventually(lambda: coordinator._pending_exception)
            with pytest.raises(KafkaError, match="heartbeat"):
                coordinator.check_errors()
        assert len(joined) == 1
        ours.join_anew(consumer)
        await eventually(lambda: len(joined) == 2)
        await eventually(lambda: coordinator.generation == 2 and not coordinator.need_rejoin(SUBSCRIBED))
        coordinator.check_errors()


@asynccontextmanager
async def coordinated_consumer(*topics: str, **options: int) -> AsyncIterator[tuple[Any, Any]]:
    """A consumer with a coordinator, as after its start."""
    consumer = aiokafka.AIOKafkaConsumer(*topics, bootstrap_servers="127.0.0.1:1", group_id="group")
    consumer._subscription.register_fetch_waiters(set())
    coordinator = group_coordinator.GroupCoordinator(
        consumer._client, consumer._subscription, group_id="group", **options
    )
    if hasattr(consumer, "_coordinator"):
        consumer._coordinator = coordinator
    try:
        yield consumer, coordinator
    finally:
        await coordinator.close()
        await consumer.stop()


PARTS: list[tuple[str, str, Check]] = [
    ("aiokafka.producer.producer", "_message_accumulator", check_queue),
    ("aiokafka.producer.message_accumulator", "_append_batch", check_queue),
    ("aiokafka.producer.message_accumulator", "_exception", check_queue),
    ("aiokafka.producer.message_accumulator", "_closed", check_closed_queue),
    ("aiokafka.producer.producer", "_closed", check_close),
    ("aiokafka.producer.producer", "_sender", check_close),
    ("aiokafka.conn", "send", check_connection),
    ("aiokafka.client", "_metadata_update", check_brokers),
    ("aiokafka.cluster", "_brokers", check_brokers),
    ("aiokafka.consumer.consumer", "_client", check_topics),
    ("aiokafka.client", "set_topics", check_topics),
    ("aiokafka.consumer.consumer", "_fetcher", check_fetches),
    ("aiokafka.consumer.fetcher", "_fetch_max_wait_ms", check_fetches),
    ("aiokafka.consumer.consumer", "_fetcher", check_turns),
    ("aiokafka.consumer.fetcher", "_records", check_turns),
    ("aiokafka.consumer.consumer", "_fetcher", check_positions),
    ("aiokafka.consumer.fetcher", "_records", check_positions),
    ("aiokafka.consumer.subscription_state", "all_consumed_offsets", check_positions),
    ("aiokafka.consumer.subscription_state", "subscription", check_assignment),
    ("aiokafka.consumer.subscription_state", "assignment", check_assignment),
    ("aiokafka.consumer.subscription_state", "unassign_future", check_assignment),
    ("aiokafka.consumer.consumer", "_coordinator", check_commits),
    ("aiokafka.consumer.group_coordinator", "_do_commit_offsets", check_commits),
    ("aiokafka.consumer.consumer", "_coordinator", check_generation),
    ("aiokafka.consumer.group_coordinator", "generation", check_generation),
    ("aiokafka.consumer.consumer", "_coordinator", check_offsets),
    ("aiokafka.consumer.group_coordinator", "_send_req", check_offsets),
    ("aiokafka.consumer.group_coordinator", "coordinator_dead", check_offsets),
    ("aiokafka.consumer.consumer", "_coordinator", check_join),
    ("aiokafka.consumer.group_coordinator", "request_rejoin", check_join),
]
CHECKS: list[Check] = [*dict.fromkeys(check for *_, check in PARTS), check_batches, check_questions]


@pytest.mark.parametrize("check", CHECKS)
async def test_private_parts_work_as_used(check: Check) -> None:
    await check(aiokafka_internals)


@pytest.mark.filterwarnings("ignore:Unclosed AIOKafkaProducer:ResourceWarning")
@pytest.mark.parametrize(("module", "name", "check"), PARTS)
async def test_renamed_part_raises_attribute_error(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, check: Check
) -> None:
    rename(monkeypatch, module, name)
    with pytest.raises(AttributeError) as raised:
        await check(loaded_anew(aiokafka_internals.__name__))
    assert str(raised.traceback[-1].path) == aiokafka_internals.__file__


async def test_replaced_batch_reader_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiokafka.consumer.fetcher, "MemoryRecords", ModuleType)
    with pytest.raises(AttributeError, match="another class"):
        await check_batches(aiokafka_internals)


@pytest.mark.parametrize("module", [aiokafka.client, aiokafka.admin.client])
def test_replaced_metadata_request_is_detected(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    monkeypatch.setattr(module, "MetadataRequest", ModuleType)
    with pytest.raises(AttributeError, match="another class"):
        aiokafka_internals.make_no_topics()


async def test_refused_offset_of_one_partition_is_waited_for() -> None:
    """aiokafka raises NoError, which is not retriable, instead of the partition's error."""
    denied = OffsetFetchResponse_v3(0, [("topic", [(0, -1, "", 29)])], 0)
    admin = aiokafka.admin.client.AIOKafkaAdminClient(bootstrap_servers="127.0.0.1:9")
    with patch.object(admin, "_send_request", AsyncMock(return_value=denied)), pytest.raises(KafkaError) as refused:
        await admin.list_consumer_group_offsets("group", 0, [PLACE])
    assert is_broker_away(refused.value)
