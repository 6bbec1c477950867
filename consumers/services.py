"""What the consumers of one worker work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from domain.delivery import OutgoingMessage
from domain.entity_types import SAMPLE, EntityTypes
from messaging.envelope import Envelope
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.repositories import Repositories
from storage.unit_of_work import Transactions

ENVELOPE: Final = Envelope("/plaudit/worker")


@dataclass(frozen=True, slots=True)
class Services:
    """Repositories and transactions in MongoDB, and the way out to Kafka."""

    repositories: Repositories
    transactions: Transactions
    publisher: Publisher
    topics: TopicNames

    @classmethod
    def on(
        cls, database: Database, publisher: Publisher, topics: TopicNames, entity_types: EntityTypes = SAMPLE
    ) -> Services:
        """The services on one database and one publisher."""
        repositories = Repositories.on(database, entity_types.purchase_item_fields)
        return cls(repositories, Transactions(database, repositories, publisher.publish), publisher, topics)

    def message(
        self, topic: Topic, key: str, kind: str, data: object, *, id: str | None = None, cause: str = ""
    ) -> OutgoingMessage:
        """A message of the worker; the arguments are those of `Envelope.wrap`."""
        return ENVELOPE.wrap(self.topics.name(topic), key, kind, data, id=id, cause=cause)

    def event(self, key: str, kind: str, data: object, *, id: str | None = None, cause: str = "") -> OutgoingMessage:
        """An event; the arguments are those of `Envelope.wrap`."""
        return self.message(Topic.EVENTS, key, kind, data, id=id, cause=cause)
