"""The consumer between polls: offsets are committed of what is still ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from unittest.mock import AsyncMock

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3
from aiokafka.structs import OffsetAndMetadata

from consumers.subscriptions import Batch
from messaging.kafka.patient_consumer import PatientConsumer
from tests.support.records import Record

PLACE, OTHER = TopicPartition("topic", 0), TopicPartition("topic", 1)


class Group(GroupCoordinator):  # type: ignore[misc]
    """A group with one member, which keeps its offsets without Kafka, and tells them once all refusals are told."""

    def __init__(self) -> None:
        self.generation = 1
        self.group_id = "group"
        self.coordinator_id = 0
        self.offsets: dict[TopicPartition, int] = {}
        self.refusals: list[int] = []
        self._commit_lock = asyncio.Lock()
        self._retry_backoff_ms = 0

    async def ensure_coordinator_known(self) -> None:
        """It is."""

    async def close(self) -> None:
        """Nothing is open."""

    def coordinator_dead(self) -> None:
        """Another one is the same."""

    async def _do_commit_offsets(self, _: object, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.offsets |= {place: each.offset for place, each in offsets.items()}

    async def _send_req(self, request: OffsetFetchRequest) -> OffsetFetchResponse_v3:
        if self.refusals:
            return OffsetFetchResponse_v3(0, [], self.refusals.pop())
        told = [(place.topic, [(place.partition, offset, "", 0)]) for place, offset in self.offsets.items()]
        return OffsetFetchResponse_v3(0, told, 0)


class Member(PatientConsumer):
    """A member of such a group, with a batch of twenty records of each partition in hand."""

    def __init__(self) -> None:
        super().__init__("topic", bootstrap_servers="127.0.0.1:1", group_id="group")
        self._coordinator = self.group = Group()
        self._subscription.assign_from_subscribed([PLACE, OTHER])

    async def is_assigned(self, *places: TopicPartition, generation: int) -> None:
        self.group.generation = generation
        self._subscription.assign_from_subscribed(places)
        await asyncio.sleep(0)  # the loop tells who waits for it

    def batch(self) -> Batch:
        places = (PLACE, OTHER)
        return Batch(self, [Record(n, (), "topic", place.partition) for place in places for n in range(20)], 1)


@pytest.fixture
async def member(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Member]:
    monkeypatch.setattr(AIOKafkaConsumer, "start", AsyncMock())
    consumer = Member()
    await consumer.start()
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


async def test_a_group_whose_offsets_are_not_told_for_now_is_asked_again(member: Member) -> None:
    member.group.offsets, member.group.refusals = {PLACE: 7}, [14, 16]
    assert await member.committed(PLACE) == 7
    assert member.group.refusals == []
