"""The Kafka client: lost connections, concurrent publications, subscriptions without records."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest
from faststream.kafka.subscriber.usecase import BatchSubscriber

from consumers import subscriptions
from consumers.inbox import Inbox
from consumers.subscriptions import subscribed_broker
from domain.delivery import OutgoingMessage
from domain.timestamps import milliseconds
from messaging.decoding import Received
from messaging.kafka import topic_reader
from messaging.kafka.aiokafka_internals import find_brokers_again, recover_lost_connections
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.kafka.tail import Tail
from messaging.kafka.topic_reader import TopicReader
from messaging.topics import Topic, TopicNames
from storage.topics_growth import GrowthRepository
from tests.support.facade import new_id
from tests.support.messages import Message
from tests.support.service import Servers, Service
from tests.support.topics import create_topic, delete_topic, new_topic
from tests.support.waiting import eventually, free_port

AT_ONCE = 400
EACH = 10


async def test_write_to_closed_connection_is_a_lost_connection(servers: Servers) -> None:
    host, _, port = servers.kafka.partition(":")

    async def send_too_late() -> None:
        recover_lost_connections()
        connection = await create_conn(host, int(port))
        assert await connection.send(MetadataRequest([]))
        # As when the broker resets it: the event loop closes it, and reports that only in its next iteration.
        connection._writer.transport.abort()
        await asyncio.sleep(0)
        with pytest.raises(KafkaConnectionError):
            await connection.send(MetadataRequest([]))
        assert not connection.connected()

    await asyncio.to_thread(uvloop.run, send_too_late())


@pytest.mark.long
async def test_publications_of_one_partition_do_not_starve_each_other(servers: Servers) -> None:
    topic = await new_topic(servers)
    connection = KafkaConnection(servers.kafka, idempotence=not servers.is_tansu)
    publisher = Publisher(connection, timeout=30)  # twice as long as a slow machine may delay the broker
    expected = {call: [f"{call}-{number}" for number in range(EACH)] for call in range(AT_ONCE)}
    try:
        publications = [
            publisher.publish([OutgoingMessage(topic, b"key", value.encode()) for value in values])
            for values in expected.values()
        ]
        single = [publisher.publish([OutgoingMessage(topic, b"key", b"single")]) for _ in range(AT_ONCE)]
        await asyncio.gather(*publications, *single)
    finally:
        await publisher.stop()
    found: dict[int, list[str]] = {call: [] for call in range(AT_ONCE)}
    async with AIOKafkaConsumer(topic, bootstrap_servers=servers.kafka, auto_offset_reset="earliest") as consumer:
        for _ in range(AT_ONCE * (EACH + 1)):
            value = (await asyncio.wait_for(consumer.getone(), 90)).value.decode()
            if value != "single":
                found[int(value.partition("-")[0])].append(value)
    assert found == expected


@pytest.mark.long
async def test_hung_start_is_followed_by_one_with_full_timeout(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load, where callers queue behind it: under their own timeouts, the remaining time never suffices."""
    topic, plain, starts = await new_topic(servers), AIOKafkaProducer.start, 0
    connection = KafkaConnection(servers.kafka, idempotence=not servers.is_tansu)

    async def start(self: AIOKafkaProducer) -> None:
        nonlocal starts
        starts += 1
        await asyncio.sleep(60 if starts == 1 else 0.5)  # the first one hangs, the next is slow
        await plain(self)

    monkeypatch.setattr(AIOKafkaProducer, "start", start)
    publisher, calls = Publisher(connection, timeout=4), set[asyncio.Task[None]]()
    try:
        # One every 100 ms: when the first start times out, each caller has that much less time left than the next one.
        while not any(call.done() and not call.exception() for call in calls):
            calls.add(asyncio.create_task(publisher.publish([OutgoingMessage(topic, b"key", b"value")])))
            await asyncio.sleep(0.1)
            assert len(calls) < 600  # on a busy machine, the second start may time out, too
    finally:
        await publisher.stop()
        await asyncio.gather(*calls, return_exceptions=True)
    assert starts >= 2


@pytest.mark.long
async def test_topic_reader_ends_when_topic_is_recreated(servers: Servers) -> None:
    topic = await new_topic(servers)
    partition = TopicPartition(topic, 0)

    async def add_records(count: int) -> None:
        async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer:
            for _ in range(count):
                await producer.send_and_wait(topic, b"value")

    await add_records(3)
    async with TopicReader.open(KafkaConnection(servers.kafka)) as reader, asyncio.timeout(60):
        spans = await reader.spans([partition])
        await delete_topic(servers, topic)
        await create_topic(servers, topic)
        await add_records(1)
        read = [record.offset async for records in reader.between(spans) for record in records]
    assert (spans, read) == ({partition: range(3)}, [0])


async def test_topic_reader_looks_up_all_topics_at_once(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a pause before each, by which a list of dead letters would take seconds."""
    topics = [await new_topic(servers) for _ in range(3)]
    async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer:
        for topic in topics:
            await producer.send_and_wait(topic, b"value")
    patient = partial(AIOKafkaConsumer, retry_backoff_ms=600_000)
    monkeypatch.setattr(topic_reader, "AIOKafkaConsumer", patient)
    partitions = [TopicPartition(topic, 0) for topic in topics]
    async with TopicReader.open(KafkaConnection(servers.kafka)) as reader, asyncio.timeout(60):
        assert await reader.spans(partitions) == dict.fromkeys(partitions, range(1))


@pytest.mark.long
async def test_consumer_finds_cluster_after_all_brokers_moved(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configured addresses lead to them, like the name of a restored cluster."""
    monkeypatch.setattr(AIOKafkaClient, "_metadata_update", AIOKafkaClient._metadata_update)
    find_brokers_again()
    topic = await new_topic(servers)
    group = {"group_id": topic, "auto_offset_reset": "earliest", "metadata_max_age_ms": 500, "retry_backoff_ms": 20}
    async with (
        AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer,
        AIOKafkaConsumer(topic, bootstrap_servers=servers.kafka, **group) as consumer,
        asyncio.timeout(60),
    ):
        await producer.send_and_wait(topic, b"before")
        assert (await consumer.getone()).value == b"before"
        cluster, nowhere = consumer._client.cluster, free_port()
        cluster._brokers = {id: each._replace(port=nowhere) for id, each in cluster._brokers.items()}
        for connection in consumer._client._conns.values():
            connection.close()
        await producer.send_and_wait(topic, b"after")
        assert (await consumer.getone()).value == b"after"
        await consumer.commit()


async def test_tail_sees_records_published_while_it_starts(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, calls = await new_topic(servers), list[str]()
    async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer:

        def publish_after(question: str) -> None:
            plain = getattr(AIOKafkaConsumer, question)

            async def ask(self: AIOKafkaConsumer, *arguments: object) -> object:
                answer = await plain(self, *arguments)
                calls.append(question)
                await producer.send_and_wait(topic, question.encode())
                return answer

            monkeypatch.setattr(AIOKafkaConsumer, question, ask)

        for question in ("end_offsets", "offsets_for_times"):
            publish_after(question)
        records = Tail(KafkaConnection(servers.kafka), [topic]).records(datetime.now(UTC))
        seen = [(await asyncio.wait_for(anext(records), 60)).value.decode() for _ in range(2)]
        await records.aclose()
    assert seen == calls
    assert sorted(calls) == ["end_offsets", "offsets_for_times"]


@pytest.mark.long
async def test_tail_misses_nothing_when_connection_breaks(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever partition is read first, the other has an older record."""
    now, times_s = datetime.now(UTC), [(-8, -5), (-7, -6)]
    topic = await new_topic(servers, len(times_s))
    async with AIOKafkaProducer(bootstrap_servers=servers.kafka) as producer:
        for partition, times in enumerate(times_s):
            for second in times:
                at = milliseconds(now + timedelta(seconds=second))
                await producer.send_and_wait(topic, b"", partition=partition, timestamp_ms=at)
    plain, reads = AIOKafkaConsumer.getone, iter(range(1_000))

    async def read(self: AIOKafkaConsumer) -> object:
        if next(reads) == len(times_s[0]):
            raise KafkaConnectionError
        return await plain(self)

    monkeypatch.setattr(AIOKafkaConsumer, "getone", read)
    records = Tail(KafkaConnection(servers.kafka), [topic]).records(now - timedelta(minutes=1))
    seen: set[tuple[int, int]] = set()
    while len(seen) < sum(map(len, times_s)):
        record = await asyncio.wait_for(anext(records), 30)
        seen.add((record.partition, record.offset))
    await records.aclose()


async def test_consumer_without_records_does_not_sleep(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: asyncio.Queue[None] = asyncio.Queue()
    slept: list[float] = []
    received: asyncio.Queue[bytes] = asyncio.Queue()
    plain_look = AIOKafkaConsumer.getmany

    async def look(self: object, *partitions: object, **options: object) -> object:
        looked.put_nowait(None)
        return await plain_look(self, *partitions, **options)

    async def handle(batch: Sequence[Received[bytes]]) -> None:
        for _, value in batch:
            received.put_nowait(value)

    async def publish(messages: Sequence[OutgoingMessage]) -> None:
        raise AssertionError(messages)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr("consumers.inbox.READERS", {Topic.MAIL_COMMANDS: bytes})
    monkeypatch.setattr(subscriptions, "_POLL_MS", 20)
    monkeypatch.setattr(AIOKafkaConsumer, "getmany", look)
    monkeypatch.setattr("faststream.kafka.subscriber.usecase.anyio.sleep", sleep)
    connection, topics = KafkaConnection(service.servers.kafka), TopicNames(service.prefix)
    inbox = Inbox(Topic.MAIL_COMMANDS, handle, publish)
    broker = subscribed_broker(connection, topics, [inbox], group_prefix=new_id("group"))
    try:
        async with service.mongo() as database, asyncio.timeout(60):
            await subscriptions.start(broker, topics, GrowthRepository(database))
            for _ in range(10):
                await looked.get()
            await service.publish("mail-commands", Message("key", b"a value"))
            while await received.get() != b"a value":
                pass
    finally:
        await broker.stop()
    assert not slept


@pytest.mark.long
async def test_workers_with_several_shares_of_a_topic_get_equal_numbers_of_partitions(service: Service) -> None:
    async def ignore(messages: Sequence[object]) -> None:
        """Nothing is published here."""

    connection, topics = KafkaConnection(service.servers.kafka), TopicNames(new_id("prefix"))
    await create_topic(service.servers, topics.name(Topic.MAIL_COMMANDS), partitions=8)
    inbox: Inbox[bytes] = Inbox(Topic.MAIL_COMMANDS, ignore, ignore, shares=2)
    workers = [subscribed_broker(connection, topics, [inbox], group_prefix=topics.prefix) for _ in range(8)]

    def partitions() -> list[int]:
        members = [[each for each in worker.subscribers if isinstance(each, BatchSubscriber)] for worker in workers]
        return [sum(len(each.consumer.assignment()) for each in own if each.consumer) for own in members]

    async with service.mongo() as database:
        try:
            starting = [subscriptions.start(worker, topics, GrowthRepository(database)) for worker in workers]
            await asyncio.gather(*starting)
            await eventually(partitions, lambda found: found == [1] * 8)
        finally:
            await asyncio.gather(*(worker.stop() for worker in workers))
