"""Topics as administrators take them away."""

from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection

from .service import Servers
from .waiting import eventually


async def delete_topic(servers: Servers, topic: str) -> None:
    """Delete a topic. It is gone when this returns: brokers take records and offsets for a while after the answer."""
    async with admin_client(KafkaConnection(servers.kafka)) as admin:
        await admin.delete_topics([topic])
        await eventually(admin.list_topics, lambda there: topic not in there)
