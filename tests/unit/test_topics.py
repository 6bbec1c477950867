"""Topics that can't be created: temporary errors are retried, others are reported."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.errors import InvalidReplicationFactorError

from messaging.kafka.connection import BrokerAwayError, is_broker_away
from messaging.topics import TopicLayout, TopicNames, TopicNotMadeError, create_topics

FACTOR = InvalidReplicationFactorError.errno
REFUSED = "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached"


async def create_with_error(code: int, detail: str) -> list[str]:
    """Run `create_topics` with a broker that answers with this error."""
    names = TopicNames("p.")

    async def list_topics() -> list[str]:
        return names.all()[1:]

    async def create(topics: list[Any]) -> Any:
        return SimpleNamespace(topic_errors=[(topic.name, code, detail) for topic in topics])

    admin = SimpleNamespace(list_topics=list_topics, create_topics=create)
    return await create_topics(cast(Any, admin), names, TopicLayout(), {})


async def test_fenced_brokers_are_waited_for() -> None:
    """A broker is fenced after a pause of its machine, and is unfenced with its next heartbeat."""
    with pytest.raises(BrokerAwayError, match="fenced") as refused:
        await create_with_error(
            FACTOR, "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
        )
    assert is_broker_away(refused.value)


async def test_missing_brokers_are_an_error() -> None:
    with pytest.raises(TopicNotMadeError, match="cannot be reached"):
        await create_with_error(FACTOR, REFUSED)
    assert len(await create_with_error(0, "")) == 1
