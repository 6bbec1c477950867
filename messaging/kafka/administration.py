"""Queries to Kafka about its topics."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code

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
    """The partitions of those of these topics that exist, sorted.

    Raises the error of a topic that exists and can't be described: without it, that topic would seem to be empty.
    """
    described = await admin.describe_topics(topics) if topics else []
    for topic in described:
        error = error_of_topic(topic)
        if error and not isinstance(error, UnknownTopicOrPartitionError):
            raise error
    return sorted(TopicPartition(t["topic"], p["partition"]) for t in described for p in t["partitions"])


def error_of_topic(described: Mapping[str, Any]) -> KafkaError | None:
    """The reason why the cluster doesn't serve a topic, from its description; None if it serves it."""
    code = described["error_code"]
    error = for_code(code)
    return error(f"The topic {described['topic']} is unavailable: {error.description}") if code else None
