"""Recounts of very many objects leave workers capacity for moderation."""

import asyncio

import pytest

from messaging.kafka.lag import ConsumerLag, Lag, Unread
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.terminal import Terminal
from plaudit.tools import ratings
from tests.support.service import Service
from tests.support.waiting import eventually


async def test_recounts_wait_for_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratings, "_PAUSE_S", 0)
    waiting = [(3_000, 1), (1_000, 1), (600, 400), (0, 0)]

    async def measure() -> Lag:
        return {(Topic.REVIEW_CHANGES, n): Unread(count, 0) for n, count in enumerate(waiting.pop(0))}

    await ratings.await_small_backlog(measure)
    assert waiting == [(0, 0)]


@pytest.mark.long
async def test_rebuild_proceeds_at_the_pace_of_workers(
    stopped_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stopped_service.servers.is_tansu:
        pytest.skip("it doesn't tell what waits")
    async with stopped_service.mongo() as database:
        await database["reviews"].insert_many([{"entityType": "Product", "entityId": f"{n}"} for n in range(5)])
    for name, value in stopped_service.command_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ratings, "_BATCH", 1)
    measured = 0

    async def measure(lag: ConsumerLag, *topics: Topic) -> Lag:
        nonlocal measured
        measured += 1
        return await plain_measure(lag, *topics)

    plain_measure = ConsumerLag.measure
    monkeypatch.setattr(ConsumerLag, "measure", measure)
    rebuild = asyncio.create_task(ratings.rebuild(Settings(), Terminal(quiet=True), Terminal(quiet=True), None))
    await eventually(lambda: measured > 3)
    assert len(await stopped_service.values("review-changes")) == 2, "expected one without a backlog, and one after it"
    async with stopped_service.running(api=False):
        await rebuild
    assert len(await stopped_service.values("review-changes")) == 5
