"""What FastStream makes of our subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from consumers import subscriptions
from consumers.subscriptions import Subscription, subscribed_broker
from domain.delivery import OutgoingMessage
from messaging.connection import KafkaConnection
from messaging.decoding import RawRecord
from messaging.topics import Topic, TopicNames
from tests.facade import new_id
from tests.service import Message, Service


async def test_a_consumer_without_records_is_not_sent_to_sleep(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []
    slept: list[float] = []
    received: asyncio.Queue[bytes | None] = asyncio.Queue()
    plain_look = subscriptions.AIOKafkaConsumer.getmany

    async def look(self: object, *partitions: object, **options: object) -> object:
        looks.append(None)
        return await plain_look(self, *partitions, **options)

    async def process(records: Sequence[RawRecord]) -> None:
        for record in records:
            received.put_nowait(record.value)

    async def publish(messages: Sequence[OutgoingMessage]) -> None:
        raise AssertionError(messages)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr(subscriptions, "_LOOK_MS", 20)
    monkeypatch.setattr(subscriptions.AIOKafkaConsumer, "getmany", look)
    monkeypatch.setattr("faststream.kafka.subscriber.usecase.anyio.sleep", sleep)
    connection, topics = KafkaConnection(service.servers.kafka), TopicNames(service.prefix)
    broker = subscribed_broker(
        connection, topics, [Subscription(Topic.MAIL_COMMANDS, process)], publish, group_prefix=new_id("group")
    )
    await subscriptions.start(broker, connection)
    try:
        async with asyncio.timeout(60):
            while len(looks) < 10:
                await asyncio.sleep(0.01)
            await service.publish("mail-commands", Message("key", b"a value"))
            while await received.get() != b"a value":
                pass
    finally:
        await broker.stop()
    assert not slept
