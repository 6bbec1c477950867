"""Repositories, transactions and messages for the consumers of one worker."""

from collections.abc import Sequence
from copy import copy

from domain.delivery import OutgoingMessage
from domain.entity_types import SAMPLE, EntityTypes
from messaging.envelope import OF_WORKERS
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.images.files import ImageFiles
from storage.repositories import Repositories
from storage.unit_of_work import RetryWhileAway, Transactions


class Services(Repositories):
    """Repositories and transactions in MongoDB, the image store, and the publisher to Kafka."""

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        topics: TopicNames,
        image_files: ImageFiles,
        entity_types: EntityTypes = SAMPLE,
        token_keys: Sequence[bytes] = (),
        erasure_keys: Sequence[bytes] = (),
    ) -> None:
        super().__init__(database, entity_types.purchase_item_fields, token_keys, erasure_keys)
        self.transactions = Transactions(database, self, publisher.publish)
        self.database = database
        self.entity_types = entity_types
        self.image_files = image_files
        self.publisher = publisher
        self.topics = topics

    def with_patience(self, patience: RetryWhileAway) -> "Services":
        """A copy whose transactions publish with this patience while Kafka is unavailable."""
        services = copy(self)
        services.transactions = Transactions(self.database, self, self.publisher.publish, patience)
        return services

    def message(
        self, topic: Topic, key: str, kind: str, data: object, *, id: str | None = None, cause: str = ""
    ) -> OutgoingMessage:
        """A message of the worker; for the arguments see `Envelope.wrap`."""
        return OF_WORKERS.wrap(self.topics.name(topic), key, kind, data, id=id, cause=cause)

    def event(self, key: str, kind: str, data: object, *, id: str | None = None, cause: str = "") -> OutgoingMessage:
        """An event; for the arguments see `Envelope.wrap`."""
        return self.message(Topic.EVENTS, key, kind, data, id=id, cause=cause)
