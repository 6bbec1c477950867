"""The way out to Kafka, when many want to go at the same time."""

from __future__ import annotations

import asyncio
import uuid

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from domain.delivery import OutgoingMessage
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from tests.support.service import Servers

AT_ONCE = 400
EACH = 10


async def test_publications_of_one_partition_do_not_starve_each_other(servers: Servers) -> None:
    topic = f"t{uuid.uuid4().hex[:8]}"
    admin = AIOKafkaAdminClient(bootstrap_servers=servers.kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, 1)])
    finally:
        await admin.close()
    publisher = Publisher(KafkaConnection(servers.kafka, idempotence=not servers.is_tansu))
    await publisher.start()
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
            value = (await asyncio.wait_for(consumer.getone(), 20)).value.decode()
            if value != "single":
                found[int(value.partition("-")[0])].append(value)
    assert found == expected
