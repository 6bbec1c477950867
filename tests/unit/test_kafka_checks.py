"""Checks of Kafka, against a broker with given answers."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from domain.findings import Finding, Level
from messaging.kafka import checks
from messaging.kafka.checks import KeptLetters, check_consumption, check_dead_letters, kept_letters
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.lag import ConsumerLag, Lag, Unread
from messaging.topics import Topic, TopicNames
from tests.support.clock import Clock

TOPICS = TopicNames("plaudit.")
LETTERS = TOPICS.dead_letters(Topic.STORE_UPDATES)


class Broker:
    """A dead-letter topic with one partition whose first three records are deleted."""

    async def list_topics(self) -> list[str]:
        return [LETTERS]

    async def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        return [{"topic": name, "error_code": 0, "partitions": [{"partition": 0}]} for name in names]

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


class Groups:
    """Consumer groups that all have these members."""

    def __init__(self, *members: str) -> None:
        self.members = members

    async def describe_consumer_groups(self, names: list[str]) -> list[Any]:
        state = "Stable" if self.members else "Empty"
        described = {"groups": [{"group": name, "state": state, "members": self.members} for name in names]}
        return [SimpleNamespace(to_object=lambda: described)]


class Reader:
    """Finds a record of two minutes ago at each offset."""

    @classmethod
    @asynccontextmanager
    async def open(cls, _: KafkaConnection, **__: str) -> "AsyncIterator[Reader]":
        yield cls()

    async def record(self, _: TopicPartition, __: int) -> Any:
        return SimpleNamespace(timestamp=(time.time() - 120) * 1000)

    async def spans(self, places: list[TopicPartition]) -> dict[TopicPartition, range]:
        return dict.fromkeys(places, range(1_000))


async def progress(
    monkeypatch: pytest.MonkeyPatch, *offsets: tuple[int, ...], members: tuple[str, ...] = ("one",)
) -> tuple[Finding, float]:
    """The finding on the progress of partitions with a backlog, which are at each of these offsets for a second, and
    the seconds that it took."""
    clock = Clock()

    async def sleep(seconds: float) -> None:
        clock.now += seconds

    async def measure(_: ConsumerLag) -> Lag:
        now = offsets[min(int(clock.now), len(offsets) - 1)]
        return {(Topic.IMAGE_UPLOADS, number): Unread(100, offset) for number, offset in enumerate(now)}

    replaced = {
        "TopicReader": Reader,
        "time": SimpleNamespace(monotonic=clock, time=time.time),
        "asyncio": SimpleNamespace(sleep=sleep),
    }
    for name, value in replaced.items():
        monkeypatch.setattr(checks, name, value)
    monkeypatch.setattr(ConsumerLag, "measure", measure)
    admin = cast("AIOKafkaAdminClient", Groups(*members))
    found = [each async for each in check_consumption(admin, KafkaConnection("127.0.0.1:1"), TOPICS)]
    assert [each.check for each in found] == ["lag", "progress"]
    return found[-1], clock.now


async def test_partitions_have_time_to_move_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seconds = await progress(monkeypatch, (0, 0), (0, 0), (5, 0), (10, 0), (10, 5), (15, 5))
    assert (found.level, seconds) == (Level.OK, 4)


async def test_partition_is_stuck_if_none_of_its_topic_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seconds = await progress(monkeypatch, (3, 7))
    assert (found.level, seconds) == (Level.FAIL, 8)
    assert found.text.startswith("partition 0 of image-uploads is stuck at offset 3, ")


async def test_partition_may_wait_for_others_that_move(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = await progress(monkeypatch, (0, 7), (5, 7))
    assert found.level is Level.WARN
    assert found.text.startswith("partition 1 of image-uploads stays at offset 7, ")
    assert found.text.endswith(", while others move")


async def test_topic_may_grow_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = await progress(monkeypatch, (0, 0), (5, 0, 0), (5, 5, 0))
    assert found.level is Level.OK


async def test_topics_without_consumer_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seconds = await progress(monkeypatch, (3, 7), members=())
    assert (found.level, seconds) == (Level.OK, 0)
