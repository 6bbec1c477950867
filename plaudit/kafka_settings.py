"""Settings of the connection to Kafka, and of new topics."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from messaging.kafka.connection import KafkaAccess


class _Address(BaseModel):
    bootstrap_servers: Annotated[
        str | None,
        Field(description="`host:port`, several with commas; missing: `plaudit up` runs a broker of its own"),
    ] = None


class KafkaSettings(KafkaAccess, _Address):
    """The connection to Kafka, and the settings of new topics."""

    idempotence: Annotated[
        bool,
        Field(description="False for brokers without idempotent producers: messages come twice then, with one effect"),
    ] = True
    topic_prefix: Annotated[
        str,
        Field(
            pattern="^[A-Za-z0-9._-]*$",  # what Kafka takes in the name of a topic, which has 249 characters at most
            max_length=200,
            description="The beginning of the names of all topics and consumer groups",
        ),
    ] = "plaudit."
    partitions: Annotated[
        int, Field(ge=1, le=1_000, description="Of topics that are made; `plaudit topics grow` for those there are")
    ] = 12
    replication_factor: Annotated[
        int, Field(ge=1, le=10, description="Of topics that are made: 3 where nothing may be lost")
    ] = 1
    retention_days: Annotated[
        int,
        Field(
            ge=1,
            le=12_400,  # MongoDB keeps for 2^31 - 1 seconds at most, and is asked to for twice as long and a week
            description="Of topics that are made; ids of what is deleted stay taken twice as long, and a week",
        ),
    ] = 7
