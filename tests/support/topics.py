"""Topics as administrators delete them."""

from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection

from .service import Servers
from .waiting import eventually


async def delete_topic(servers: Servers, topic: str) -> None:
    """Delete a topic and wait until it is gone: brokers accept records and offsets for a while after the response."""
    async with admin_client(KafkaConnection(servers.kafka)) as admin:
        await admin.delete_topics([topic])
        await eventually(admin.list_topics, lambda there: topic not in there)
