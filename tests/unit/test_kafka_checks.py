"""Checks of Kafka, against a broker with given answers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from domain.findings import Level
from messaging.kafka import checks
from messaging.kafka.checks import KeptLetters, check_dead_letters, kept_letters
from messaging.kafka.lag import ConsumerLag, Unread
from messaging.topics import Topic, TopicNames
from tests.support.clock import Clock

TOPICS = TopicNames("plaudit.")
LETTERS = TOPICS.dead_letters(Topic.STORE_UPDATES)


class Broker:
    """A dead-letter topic with one partition whose first three records are deleted."""

    async def list_topics(self) -> list[str]:
        return [LETTERS]

    async def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return [{"topic": name, "partitions": [{"partition": 0}]} for name in names]

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 3)

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 8)


async def kept(*offsets: int) -> KeptLetters:
    """The retained dead letters of that topic; those at the given offsets are settled."""
    broker = Broker()
    consumer, admin = cast("AIOKafkaConsumer", broker), cast("AIOKafkaAdminClient", broker)
    return await kept_letters(consumer, admin, TOPICS, [f"{LETTERS}/0-{offset}-1700000000000" for offset in offsets])


async def test_only_retained_letters_are_counted() -> None:
    assert await kept() == KeptLetters(5, 0)
    assert await kept(1, 2, 3, 7) == KeptLetters(5, 2)


async def test_settled_letters_over_the_limit_are_reported_as_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "MOST_SETTLED", 3)
    few, many, all_ = await kept(5, 6, 7), await kept(4, 5, 6, 7), await kept(3, 4, 5, 6, 7)
    assert [check_dead_letters(each).text for each in (few, many, all_)] == [
        "2 open, 3 settled",
        "5 retained, at least 4 of them settled",
        "0 open, 5 settled",
    ]
    assert [check_dead_letters(each).level for each in (few, many, all_)] == [Level.WARN, Level.WARN, Level.OK]


class CatchingUp:
    """The lag of a worker that reads each of its partitions in turn, and one of them never if it is `stuck`."""

    def __init__(self, clock: Clock, stuck: int | None = None) -> None:
        self.clock = clock
        self.stuck = stuck

    async def measure(self) -> dict[tuple[Topic, int], Unread]:
        offsets = {number: 0 if number == self.stuck else int(self.clock.now + number) // 6 for number in range(6)}
        return {(Topic.REVIEW_SUBMISSIONS, number): Unread(1_000, offset) for number, offset in offsets.items()}


@pytest.mark.parametrize("stuck", [None, 0, 5])
async def test_partitions_that_take_turns_are_not_stuck(monkeypatch: pytest.MonkeyPatch, stuck: int | None) -> None:
    clock = Clock()

    async def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(checks, "asyncio", SimpleNamespace(sleep=sleep))
    lag, standing = await checks.look_for_progress(cast("ConsumerLag", CatchingUp(clock, stuck)))
    assert len(lag) == 6
    assert standing == ([] if stuck is None else [(Topic.REVIEW_SUBMISSIONS, stuck, 0)])
