"""The topics: their names, partitions and retention.

Message schemas are declared once, in the modules named after the features; the validation of incoming records, the
publisher and the AsyncAPI document all use them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import InvalidReplicationFactorError, TopicAlreadyExistsError, for_code

from messaging.kafka.administration import error_of_topic
from messaging.kafka.connection import BrokerAwayError, is_broker_away

MAX_RECORD_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of a record that the broker accepts. Far above MAX_MESSAGE_BYTES, so that an oversized message becomes
a dead letter with a reason instead of only an error at its producer."""

MAX_DEAD_LETTER_BYTES: Final = MAX_RECORD_BYTES + 64 * 1024
"""Maximum bytes of a dead letter, which has more headers than its record."""

DEAD_LETTER_SUFFIX: Final = ".dlq"

_DAY_MS: Final = 86_400_000

_FENCED: Final = "fenced"
"""Kafka's word for brokers that were slow, until its controller hears from them again, which takes a moment."""

MIN_COMPACTION_LAG: Final = "min.compaction.lag.ms"
MAX_COMPACTION_LAG: Final = "max.compaction.lag.ms"

COMPACTED: Final[dict[str, str]] = {
    "cleanup.policy": "compact",
    MIN_COMPACTION_LAG: str(_DAY_MS),
    MAX_COMPACTION_LAG: str(_DAY_MS),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(_DAY_MS),
}
"""Settings of the topic of reviews: the newest record of each key stays for ever. An older one stays for at least a
day, for `plaudit reviews compare`, and for about two at most: a segment takes records for up to a day, and is compacted
a day after its last one."""


class Topic(StrEnum):
    """Names without the prefix, in order of dependencies: a store before its reviews, an order before its returns."""

    STORE_UPDATES = "store-updates"
    OBJECT_UPDATES = "object-updates"
    ORDER_EVENTS = "order-events"
    IMAGE_UPLOADS = "image-uploads"
    REVIEW_SUBMISSIONS = "review-submissions"
    MODERATION_COMMANDS = "moderation-commands"
    REVIEW_FEEDBACK = "review-feedback"
    IMAGE_COMMANDS = "image-commands"
    MODERATION_VERDICTS = "moderation-verdicts"
    REVIEW_CHANGES = "review-changes"
    RETURN_COMMANDS = "return-commands"
    REMINDER_COMMANDS = "reminder-commands"
    MAIL_COMMANDS = "mail-commands"
    ENDED_SESSIONS = "ended-sessions"
    DEAD_LETTER_COMMANDS = "dead-letter-commands"
    REVIEW_CLAIMS = "review-claims"
    REVIEWS = "reviews"
    EVENTS = "events"

    @property
    def is_consumed(self) -> bool:
        """True if Plaudit consumes it; it then has a dead-letter topic."""
        return self not in (Topic.EVENTS, Topic.REVIEWS, Topic.REVIEW_CLAIMS)


CONSUMED: Final = tuple(topic for topic in Topic if topic.is_consumed)
"""Topics with dead letters, in order of dependencies."""

IN_SYNC: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Full names of the topics, which start with a prefix."""

    prefix: str

    def name(self, topic: Topic) -> str:
        """The name at the broker."""
        return f"{self.prefix}{topic}"

    def dead_letters(self, topic: Topic) -> str:
        """The dead-letter topic of this topic."""
        return f"{self.prefix}{topic}{DEAD_LETTER_SUFFIX}"

    def all(self) -> list[str]:
        """The names of all topics that the service needs."""
        names = [self.name(topic) for topic in Topic]
        return names + [self.dead_letters(topic) for topic in CONSUMED]


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """Settings of new topics: partitions, replicas, and retention in days."""

    partitions: int = 12
    replication_factor: int = 1
    retention_days: int = 7

    @property
    def in_sync(self) -> int:
        """The replicas that must have a record before it is acknowledged: the leader alone may be lost with it."""
        return 2 if self.replication_factor >= 3 else 1


@dataclass(frozen=True, slots=True)
class ExpectedTopics:
    """The topics as configured."""

    topics: TopicNames
    layout: TopicLayout
    remember_days: int
    """Days for which the ids of deleted reviews are remembered."""


class TopicNotMadeError(Exception):
    """Kafka refuses to create a topic, and waiting doesn't help; the message says why."""


async def create_topics(
    admin: AIOKafkaAdminClient, names: TopicNames, layout: TopicLayout, counts: Mapping[str, int]
) -> list[str]:
    """Create the missing topics, and return their names. Existing ones stay as they are.

    `counts`: the partitions of topics that have grown, by topic. Raises TopicNotMadeError, or an error that passes
    (`is_broker_away`).
    """
    grown = {f"{names.prefix}{topic}": count for topic, count in counts.items()}
    missing = sorted(set(names.all()) - set(await admin.list_topics()))
    if not missing:
        return []
    response = await admin.create_topics(
        [
            NewTopic(
                name,
                num_partitions=grown.get(name, layout.partitions),
                replication_factor=layout.replication_factor,
                topic_configs=topic_settings(name, names, layout),
            )
            for name in missing
        ]
    )
    created = []
    for name, code, *detail in response.topic_errors:
        error = for_code(code)
        if not code:
            created.append(name)
        # Another process may have created it since the list was read.
        elif error is not TopicAlreadyExistsError:
            refused = error(f"The topic {name} can't be created: {detail[0] if detail else error.description}")
            if error is InvalidReplicationFactorError and _FENCED in str(refused):
                raise BrokerAwayError(str(refused)) from refused
            raise refused if is_broker_away(refused) else TopicNotMadeError(refused)
    return created


async def check_topics(admin: AIOKafkaAdminClient, names: TopicNames) -> None:
    """Raise the error of a topic that the cluster doesn't serve: it takes a moment until a new one is known."""
    for topic in await admin.describe_topics(names.all()):
        if error := error_of_topic(topic):
            raise error


def topic_settings(name: str, names: TopicNames, layout: TopicLayout) -> dict[str, str]:
    """The settings of a new topic with this full name."""
    largest = MAX_DEAD_LETTER_BYTES if name.endswith(DEAD_LETTER_SUFFIX) else MAX_RECORD_BYTES
    # Whatever the brokers' default is: a compacted topic loses all but the last message of each key.
    retained = {"cleanup.policy": "delete", "retention.ms": str(layout.retention_days * _DAY_MS)}
    kept = COMPACTED if name == names.name(Topic.REVIEWS) else retained
    safe = {IN_SYNC: str(layout.in_sync)} if layout.in_sync > 1 else {}
    return {"max.message.bytes": str(largest), **safe, **kept}
