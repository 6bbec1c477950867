"""A worker for selected topics ends only after messages passed on between these topics are processed as well."""

from collections.abc import Sequence

import pytest

from messaging.kafka.connection import KafkaConnection
from messaging.kafka.lag import ConsumerLag
from messaging.topics import Topic, TopicNames
from plaudit.processes import worker
from tests.support.app import NOWHERE

FORWARDED = {
    Topic.DEAD_LETTER_COMMANDS: Topic.REVIEW_SUBMISSIONS,
    Topic.REVIEW_SUBMISSIONS: Topic.REVIEW_CHANGES,
    Topic.MODERATION_COMMANDS: Topic.REVIEW_CHANGES,
}


class DrainingLag(ConsumerLag):
    """The lag of a worker that processes one record of a topic between two queries, and forwards it."""

    def __init__(self, **unread: int) -> None:
        super().__init__(KafkaConnection(NOWHERE), TopicNames(""))
        self.unread = dict.fromkeys(Topic, 0) | {Topic[name]: count for name, count in unread.items()}

    async def is_read(self, topic: Topic) -> bool:
        if not self.unread[topic]:
            return True
        self.unread[topic] -= 1
        if topic in FORWARDED:
            self.unread[FORWARDED[topic]] += 1
        return False


@pytest.mark.parametrize(
    "topics",
    [
        (Topic.MODERATION_COMMANDS, Topic.REVIEW_CHANGES),
        (Topic.REVIEW_CHANGES, Topic.MODERATION_COMMANDS),
        (Topic.REVIEW_CHANGES, Topic.REVIEW_SUBMISSIONS, Topic.MODERATION_COMMANDS, Topic.DEAD_LETTER_COMMANDS),
    ],
)
async def test_forwarded_messages_are_read_too(topics: Sequence[Topic], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PAUSE_S", 0)
    lag = DrainingLag(**{topic.name: 2 for topic in topics if topic is not Topic.REVIEW_CHANGES})
    await worker.until_read(lag, topics)
    assert not any(lag.unread.values())
