"""The content of `endpoints.json`, where a running `plaudit up` publishes its addresses."""

from typing import Final, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict


class KafkaLogin(TypedDict):
    """The login at the embedded Kafka."""

    securityProtocol: str
    mechanism: str
    username: str
    password: str


class PublishedAddresses(TypedDict):
    """The addresses of everything that a `plaudit up` runs."""

    http: str
    kafka: str
    mongo: str
    database: str
    idempotence: NotRequired[bool]
    """Missing: true."""
    kafkaSasl: NotRequired[KafkaLogin]
    """Missing: the broker requires no login."""


PUBLISHED_ADDRESSES: Final = TypeAdapter(PublishedAddresses)
