"""Topics whose records would be lost with one broker."""

from collections.abc import Collection, Mapping
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from domain.quantities import listed
from messaging.topics import IN_SYNC

SAFE: Final = 2
"""Number of brokers that must have a record before it is acknowledged, so that it survives the loss of one."""

_MAX_SHOWN: Final = 3


async def topic_settings_of(admin: AIOKafkaAdminClient, names: Collection[str]) -> dict[str, dict[str, str]]:
    """The settings of topics by name, for those of these topics whose settings we may read."""
    responses = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])
    return {
        name: {entry[0]: entry[1] for entry in entries}
        for response in responses
        for code, _, _, name, entries in response.resources
        if code == 0
    }


def unsafe_topics(settings: Mapping[str, Mapping[str, str]], least: int) -> list[str]:
    """The topics where fewer than `least` brokers may acknowledge a record; an unknown setting counts as enough."""
    return [name for name, config in settings.items() if int(config.get(IN_SYNC) or least) < least]


async def why_not_durable(admin: AIOKafkaAdminClient, names: Collection[str]) -> list[str]:
    """The reasons why acknowledged records of these topics could be lost with one broker; empty if they are safe."""
    existing = sorted(set(names) & set(await admin.list_topics()))
    settings = await topic_settings_of(admin, existing)
    copies = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics(existing)}
    few = [name for name in existing if any(len(partition["replicas"]) < SAFE for partition in copies[name])]
    reasons = {
        f"fewer than {SAFE} replicas of": few,
        f"{IN_SYNC} below {SAFE} in": unsafe_topics(settings, SAFE),
        "no permission to read the settings (DescribeConfigs) of": [name for name in existing if name not in settings],
    }
    return [f"{reason} {listed(names, _MAX_SHOWN)}" for reason, names in reasons.items() if names]
