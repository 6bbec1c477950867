"""Topics as administrators create and delete them."""

from aiokafka.admin import NewTopic

from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection

from .facade import new_id
from .service import Servers
from .waiting import eventually


async def create_topic(servers: Servers, topic: str, partitions: int = 1) -> None:
    """Create a topic, as soon as the one that it replaces is deleted."""

    async def is_created() -> bool:
        async with admin_client(KafkaConnection(servers.kafka)) as admin:
            response = await admin.create_topics([NewTopic(topic, partitions, 1)])
            return all(not code for _, code, *_ in response.topic_errors)

    await eventually(is_created)


async def new_topic(servers: Servers, partitions: int = 1) -> str:
    """Create a topic. Returns its name."""
    await create_topic(servers, topic := new_id("topic"), partitions)
    return topic


async def delete_topic(servers: Servers, topic: str) -> None:
    """Delete a topic and wait until it is gone: brokers accept records and offsets for a while after the response."""
    async with admin_client(KafkaConnection(servers.kafka)) as admin:
        await admin.delete_topics([topic])
        await eventually(admin.list_topics, lambda there: topic not in there)
