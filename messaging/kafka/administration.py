"""Queries to Kafka about its topics."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from messaging.kafka.connection import KafkaConnection


@asynccontextmanager
async def admin_client(connection: KafkaConnection) -> AsyncIterator[AIOKafkaAdminClient]:
    """A connected admin client."""
    admin = AIOKafkaAdminClient(**connection.client_options())
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


async def partitions_of(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> list[TopicPartition]:
    """The partitions of those of these topics that exist, sorted."""
    described = await admin.describe_topics(topics) if topics else []
    return sorted(TopicPartition(t["topic"], p["partition"]) for t in described for p in t["partitions"])
