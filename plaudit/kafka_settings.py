"""Settings of the connection to Kafka, and of new topics."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, SecretStr

from messaging.kafka.connection import SaslMechanism, SecurityProtocol
from plaudit.setting_paths import OptionalFile


class KafkaSettings(BaseModel):
    """The connection to Kafka, and the settings of new topics."""

    bootstrap_servers: Annotated[
        str | None,
        Field(description="`host:port`, several with commas; missing: `plaudit up` runs a broker of its own"),
    ] = None
    security_protocol: Annotated[
        SecurityProtocol, Field(description="`SSL`, `SASL_PLAINTEXT` or `SASL_SSL` otherwise")
    ] = "PLAINTEXT"
    sasl_mechanism: Annotated[SaslMechanism, Field(description="Of a login")] = "PLAIN"
    sasl_username: Annotated[str | None, Field(description="Of a login; with OAUTHBEARER the id of a client")] = None
    sasl_password: SecretStr | None = None
    sasl_token_url: Annotated[
        str | None, Field(description="With OAUTHBEARER: the token endpoint, for username and password")
    ] = None
    sasl_token_scope: Annotated[str | None, Field(description="With OAUTHBEARER: the scope that is asked for")] = None
    tls_ca_file: Annotated[
        OptionalFile,
        Field(description="PEM: whoever has signed the brokers' certificates; missing: those that the system trusts"),
    ] = None
    tls_cert_file: Annotated[OptionalFile, Field(description="PEM: our certificate, where brokers ask for one")] = None
    tls_key_file: Annotated[OptionalFile, Field(description="PEM: its key")] = None
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
