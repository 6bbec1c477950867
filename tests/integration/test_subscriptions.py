"""Subscriptions as FastStream carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from aiokafka import AIOKafkaConsumer

from consumers import subscriptions
from consumers.inbox import Inbox
from consumers.subscriptions import subscribed_broker
from domain.delivery import OutgoingMessage
from messaging.decoding import Received
from messaging.kafka.connection import KafkaConnection
from messaging.topics import Topic, TopicNames
from tests.support.facade import new_id
from tests.support.messages import Message
from tests.support.service import Service


async def test_a_consumer_without_records_is_not_sent_to_sleep(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    monkeypatch.setattr(subscriptions, "_LOOK_MS", 20)
    monkeypatch.setattr(AIOKafkaConsumer, "getmany", look)
    monkeypatch.setattr("faststream.kafka.subscriber.usecase.anyio.sleep", sleep)
    connection, topics = KafkaConnection(service.servers.kafka), TopicNames(service.prefix)
    inbox = Inbox(Topic.MAIL_COMMANDS, bytes, handle, publish)
    broker = subscribed_broker(connection, topics, [inbox], group_prefix=new_id("group"))
    await subscriptions.start(broker)
    try:
        async with asyncio.timeout(60):
            for _ in range(10):
                await looked.get()
            await service.publish("mail-commands", Message("key", b"a value"))
            while await received.get() != b"a value":
                pass
    finally:
        await broker.stop()
    assert not slept
