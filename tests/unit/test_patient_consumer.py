"""The consumer between polls: offsets are committed of what is still ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.structs import OffsetAndMetadata

from consumers.subscriptions import Batch
from messaging.kafka.aiokafka_internals import guard_commits
from messaging.kafka.patient_consumer import PatientConsumer
from messaging.kafka.tenure import Tenure
from tests.support.records import Record

PLACE, OTHER = TopicPartition("topic", 0), TopicPartition("topic", 1)


class Group(GroupCoordinator):  # type: ignore[misc]
    """A group with one member, which keeps its offsets without Kafka."""

    def __init__(self) -> None:
        self.generation = 0
        self.offsets: dict[TopicPartition, int] = {}
        self._commit_lock = asyncio.Lock()

    async def ensure_coordinator_known(self) -> None:
        """It is."""

    async def close(self) -> None:
        """Nothing is open."""

    async def _do_commit_offsets(self, _: object, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.offsets |= {place: each.offset for place, each in offsets.items()}

    async def fetch_committed_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        return {place: OffsetAndMetadata(self.offsets[place], "") for place in places if place in self.offsets}


class Member(PatientConsumer):
    """A member of such a group, with a batch of twenty records of each partition in hand."""

    group: Group

    async def begin(self) -> None:
        self._coordinator = self.group = Group()
        await self.is_assigned(PLACE, OTHER, generation=1, has_begun=False)
        self._tenure = Tenure(self)
        guard_commits(self, lambda: self._tenure.is_current)
        self.polled = self._tenure.assignments

    async def is_assigned(self, *places: TopicPartition, generation: int, has_begun: bool = True) -> None:
        self.group.generation = generation
        self._subscription.assign_from_subscribed(places)
        if has_begun:
            await asyncio.sleep(0)  # the loop tells who waits for it

    def batch(self) -> Batch:
        records = [
            Record(n, (), place.topic, place.partition, 1_000, b"") for place in (PLACE, OTHER) for n in range(20)
        ]
        return Batch(self, records, self.polled)


@pytest.fixture
async def member() -> AsyncIterator[Member]:
    consumer = Member("topic", bootstrap_servers="127.0.0.1:1", group_id="group")
    await consumer.begin()
    yield consumer
    await consumer.stop()


async def test_a_batch_is_committed(member: Member) -> None:
    await member.batch().commit()
    assert member.group.offsets == {PLACE: 20, OTHER: 20}


async def test_a_partition_that_stays_ours_is_committed_however_often_others_come_and_go(member: Member) -> None:
    member.group.offsets = {PLACE: 0, OTHER: 0}
    batch = member.batch()
    for generation in range(2, 9):
        await member.is_assigned(*([PLACE] if generation % 2 else [PLACE, OTHER]), generation=generation)
    await member.is_assigned(PLACE, OTHER, generation=9)
    await batch.commit()
    assert member.group.offsets == {PLACE: 20, OTHER: 0}


async def test_offsets_of_a_deleted_topic_are_not_committed_to_the_next(member: Member) -> None:
    batch = member.batch()
    await member.is_assigned(generation=2)
    await member.is_assigned(PLACE, OTHER, generation=3)
    await batch.commit()
    assert member.group.offsets == {}


async def test_neither_are_they_where_nobody_saw_the_topic_gone(member: Member) -> None:
    """As where it has more partitions than before: they are assigned anew, and the group has no offset any more."""
    batch = member.batch()
    await member.is_assigned(PLACE, OTHER, generation=2)
    await batch.commit()
    assert member.group.offsets == {}


async def test_a_partition_that_another_one_had_meanwhile_is_not_committed(member: Member) -> None:
    member.group.offsets = {PLACE: 10, OTHER: 10}
    batch = member.batch()
    await member.is_assigned(PLACE, OTHER, generation=3)
    await batch.commit()
    assert member.group.offsets == {PLACE: 10, OTHER: 10}


@pytest.mark.parametrize("generation", [-1, 2], ids=["the group was left", "others have joined"])
async def test_nothing_is_committed_in_another_generation(member: Member, generation: int) -> None:
    member.group.generation = generation
    await member.batch().commit()
    assert member.group.offsets == {}


async def test_a_batch_that_failed_goes_back_under_its_own_assignment_alone(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    went: list[tuple[TopicPartition, int]] = []
    monkeypatch.setattr(member, "seek", lambda place, offset: went.append((place, offset)))
    batch = member.batch()
    batch.seek(PLACE, 5)
    await member.is_assigned(PLACE, OTHER, generation=2)
    batch.seek(OTHER, 5)
    assert went == [(PLACE, 5)]
