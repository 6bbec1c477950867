"""The consumer around its polls: the offsets it commits, and the errors it attributes to records."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import (
    CorruptRecordException,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KafkaError,
    RecordTooLargeError,
    UnknownError,
    UnsupportedCodecError,
)
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3
from aiokafka.structs import OffsetAndMetadata

from consumers import subscriptions
from consumers.subscriptions import Batch
from messaging.kafka.patient_consumer import PatientConsumer
from messaging.kafka.unreadable import TRIES, Attempts
from tests.support.records import Record

PLACE, OTHER = TopicPartition("topic", 0), TopicPartition("topic", 1)


class Group(GroupCoordinator):  # type: ignore[misc]
    """A group with one member that keeps offsets in memory and returns them after the given refusals."""

    def __init__(self) -> None:
        self.generation = 1
        self.group_id = "group"
        self.coordinator_id = 0
        self.offsets: dict[TopicPartition, int] = {}
        self.refusals: list[int] = []
        self.is_refusing_commits = False
        self.joins = 0
        self._commit_lock = asyncio.Lock()
        self._retry_backoff_ms = 0

    async def ensure_coordinator_known(self) -> None:
        """Always known."""

    async def close(self) -> None:
        """Nothing to close."""

    def check_errors(self) -> None:
        """None occur."""

    def coordinator_dead(self) -> None:
        """Ignored: the same coordinator serves on."""

    def request_rejoin(self) -> None:
        """Counts; joining is immediate."""
        self.joins += 1

    async def _do_commit_offsets(self, _: object, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.is_refusing_commits:
            raise UnknownError
        self.offsets |= {place: each.offset for place, each in offsets.items()}

    async def _send_req(self, request: OffsetFetchRequest) -> OffsetFetchResponse_v3:
        if self.refusals:
            return OffsetFetchResponse_v3(0, [], self.refusals.pop())
        offsets = [(place.topic, [(place.partition, offset, "", 0)]) for place, offset in self.offsets.items()]
        return OffsetFetchResponse_v3(0, offsets, 0)


class Member(PatientConsumer):
    """A member of such a group, with a batch of twenty records of each partition."""

    def __init__(self) -> None:
        super().__init__("topic", bootstrap_servers="127.0.0.1:1", group_id="group")
        self._coordinator = self.group = Group()
        self._subscription.assign_from_subscribed([PLACE, OTHER])

        self._fetcher = SimpleNamespace(
            seek_to=self._subscription.seek, close=AsyncMock(), _fetch_max_wait_ms=0, _records={}
        )

    async def is_assigned(self, *places: TopicPartition, generation: int) -> None:
        self.group.generation = generation
        self._subscription.assign_from_subscribed(places)
        await asyncio.sleep(0)  # lets tasks that wait for the assignment run

    def batch(self) -> Batch:
        places = (PLACE, OTHER)
        return Batch(self, [Record(n, (), "topic", place.partition) for place in places for n in range(20)], 1)


class Fetched:
    """Twelve fetched records of a partition."""

    def __init__(self) -> None:
        self.next_fetch_offset = 0

    def __iter__(self) -> "Fetched":
        return self

    def __next__(self) -> Record:
        if self.next_fetch_offset == 12:
            raise StopIteration
        self.next_fetch_offset += 1
        return Record(self.next_fetch_offset - 1)


class Fetches(Fetcher):  # type: ignore[misc]
    """The fetches of a member, with such records of each partition."""

    def __init__(self, member: Member) -> None:
        self._subscriptions = member._subscription
        self._wait_consume_future = None
        self._fetch_max_wait_ms = 0
        assignment = member._subscription.subscription.assignment
        self._records = OrderedDict(
            (place, FetchResult(place, assignment=assignment, partition_records=Fetched(), backoff=0))
            for place in (PLACE, OTHER)
        )

    async def close(self) -> None:
        """Nothing to close."""


class Polls:
    """Results of aiokafka's polls: the errors first, then one record of each partition, at its position."""

    def __init__(self, member: Member, errors: list[Exception]) -> None:
        self.member = member
        self.errors = errors

    async def __call__(self, *places: TopicPartition, **_: object) -> dict[TopicPartition, list[Record]]:
        if self.errors:
            error = self.errors.pop(0)
            if isinstance(error, RecordTooLargeError) and len(places) == 1:
                # So does aiokafka, when it fetches such a record.
                self.member.seek(places[0], await self.member.position(places[0]) + 1)
            raise error
        return {place: [Record(await self.member.position(place))] for place in sorted(places)}


@pytest.fixture
async def member(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Member]:
    consumer = Member()
    monkeypatch.setattr(AIOKafkaConsumer, "start", AsyncMock())
    await consumer.start()
    yield consumer
    await consumer.stop()


@pytest.fixture
def polls(member: Member, monkeypatch: pytest.MonkeyPatch) -> Polls:
    """The polls of a member whose group has committed 5 in each partition, with errors to be added."""
    member.group.offsets = {PLACE: 5, OTHER: 5}
    polls = Polls(member, [])
    monkeypatch.setattr(AIOKafkaConsumer, "getmany", polls)
    return polls


@pytest.fixture
def refused(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group refuses commits, and the member doesn't wait after it."""
    monkeypatch.setattr(subscriptions, "AFTER_REFUSAL_S", 0)
    member.group.is_refusing_commits = True


READ = {PLACE: [Record(5)], OTHER: [Record(5)]}


async def test_a_batch_is_committed(member: Member) -> None:
    await member.batch().commit()
    assert member.group.offsets == {PLACE: 20, OTHER: 20}


async def test_partitions_take_turns(member: Member) -> None:
    for place in (PLACE, OTHER):
        member.seek(place, 0)
    member._fetcher = Fetches(member)
    polls = [await member.getmany(max_records=5) for _ in range(5)]
    assert [{place: [each.offset for each in found] for place, found in poll.items()} for poll in polls] == [
        {PLACE: [0, 1, 2, 3, 4]},
        {OTHER: [0, 1, 2, 3, 4]},
        {PLACE: [5, 6, 7, 8, 9]},
        {OTHER: [5, 6, 7, 8, 9]},
        {PLACE: [10, 11], OTHER: [10, 11]},
    ]


async def test_partition_kept_through_rebalances_is_committed(member: Member) -> None:
    member.group.offsets = {PLACE: 0, OTHER: 0}
    batch = member.batch()
    for generation in range(2, 9):
        await member.is_assigned(*([PLACE] if generation % 2 else [PLACE, OTHER]), generation=generation)
    await member.is_assigned(PLACE, OTHER, generation=9)
    await batch.commit()
    assert member.group.offsets == {PLACE: 20, OTHER: 0}


@pytest.mark.parametrize(
    ("committed", "assignments"),
    [
        ({}, {2: (), 3: (PLACE, OTHER)}),
        # As with a topic recreated with more partitions: they are assigned anew, and the group's offsets are gone.
        ({}, {2: (PLACE, OTHER)}),
        ({PLACE: 10, OTHER: 10}, {3: (PLACE, OTHER)}),
    ],
    ids=["the topic was deleted", "its deletion went unnoticed", "another member had the partitions meanwhile"],
)
async def test_offsets_of_lost_partitions_are_not_committed(
    member: Member, committed: dict[TopicPartition, int], assignments: dict[int, tuple[TopicPartition, ...]]
) -> None:
    member.group.offsets = dict(committed)
    batch = member.batch()
    for generation, places in assignments.items():
        await member.is_assigned(*places, generation=generation)
    await batch.commit()
    assert member.group.offsets == committed


@pytest.mark.parametrize("generation", [-1, 2], ids=["the group was left", "others have joined"])
async def test_nothing_is_committed_in_another_generation(member: Member, generation: int) -> None:
    member.group.generation = generation
    await member.batch().commit()
    assert member.group.offsets == {}


@pytest.mark.usefixtures("refused", "polls")
async def test_batch_is_delivered_again_if_its_commit_fails(member: Member) -> None:
    """FastStream continues after it: without further records, the batch would look unread for ever."""
    for place in (PLACE, OTHER):
        member.seek(place, 20)
    with pytest.raises(UnknownError):
        await member.batch().commit()
    assert await member.getmany() == READ


@pytest.mark.usefixtures("refused", "polls")
async def test_partition_may_be_lost_while_offsets_are_reset(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownError):
        await member.batch().commit()
    send_request = member.group._send_req

    async def lose_one(request: OffsetFetchRequest) -> OffsetFetchResponse_v3:
        await member.is_assigned(PLACE, generation=2)
        return await send_request(request)

    monkeypatch.setattr(member.group, "_send_req", lose_one)
    assert await member.getmany(PLACE) == {PLACE: [Record(5)]}


async def test_failed_batch_seeks_only_under_its_own_assignment(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeks: list[tuple[TopicPartition, int]] = []
    monkeypatch.setattr(member, "seek", lambda place, offset: seeks.append((place, offset)))
    batch = member.batch()
    batch.seek(PLACE, 5)
    await member.is_assigned(PLACE, OTHER, generation=2)
    batch.seek(OTHER, 5)
    assert seeks == [(PLACE, 5)]


async def test_temporary_refusal_of_offsets_is_retried(member: Member) -> None:
    member.group.offsets, member.group.refusals = {PLACE: 7}, [14, 16]
    assert await member.committed(PLACE) == 7
    assert member.group.refusals == []


UNFORESEEN = KafkaError("Unexpected exception in heartbeat task: UnknownError()")


@pytest.mark.parametrize(
    "error",
    [UNFORESEEN, UnknownError(), InconsistentGroupProtocolError(), GroupAuthorizationFailedError("group")],
    ids=repr,
)
async def test_group_error_is_not_attributed_to_a_record(member: Member, polls: Polls, error: Exception) -> None:
    polls.errors = [error] * 2 * TRIES
    for _ in range(2 * TRIES):
        with pytest.raises(type(error)):
            await member.getmany()
    # The heartbeat task that met it has ended: only a new join starts another one.
    assert member.group.joins == 2 * TRIES
    assert await member.getmany() == READ


async def test_group_error_during_single_reads_is_not_attributed_to_a_record(member: Member, polls: Polls) -> None:
    polls.errors = [CorruptRecordException(), UNFORESEEN] * TRIES
    for _ in range(TRIES):
        with pytest.raises(KafkaError, match="heartbeat"):
            await member.getmany()
    assert await member.getmany() == READ


@pytest.mark.parametrize(
    "error",
    [
        CorruptRecordException("Invalid CRC"),
        RecordTooLargeError("larger than the fetch size"),
        UnsupportedCodecError("no library"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        IndexError("index out of range"),
    ],
    ids=repr,
)
async def test_unreadable_record_is_delivered_as_invalid(member: Member, polls: Polls, error: Exception) -> None:
    polls.errors = [error] * 3 * TRIES
    found: dict[TopicPartition, list[Any]] = await member.getmany(max_records=10)
    assert {(place, record.offset, record.value.code) for place, (record,) in found.items()} == {
        (place, 5, "undecodable") for place in (PLACE, OTHER)
    }
    assert all(type(error).__name__ in record.value.reason for (record,) in found.values())
    assert member.group.joins == 0


@pytest.mark.usefixtures("refused")
async def test_batch_is_not_redelivered_at_once_after_a_failed_commit(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "AFTER_REFUSAL_S", 60)
    committing = asyncio.ensure_future(member.batch().commit())
    await asyncio.wait([committing], timeout=0.2)
    assert not committing.done()
    committing.cancel()


def test_each_record_has_its_attempts_unless_it_follows_an_exhausted_one() -> None:
    """As in a batch that is damaged as a whole. The oldest record of a topic follows none."""
    attempts = Attempts()
    first = [attempts.are_over(PLACE, 0) for _ in range(TRIES)]
    assert (first, attempts.are_over(PLACE, 1), attempts.are_over(PLACE, 2)) == ([False, False, True], True, True)
    assert [attempts.are_over(OTHER, offset) for offset in (5, 6, 6, 6)] == [False, False, False, True]


async def test_record_read_in_the_end_regains_all_attempts(member: Member, polls: Polls) -> None:
    for _ in range(2):
        # Each partition fails twice and is read completely the third time.
        polls.errors = [CorruptRecordException()] * 6
        assert await member.getmany() == READ


async def test_rebalance_during_start_is_no_error(member: Member, polls: Polls) -> None:
    polls.errors = [IllegalStateError("not assigned")]
    assert await member.getmany() == READ
    assert member.group.joins == 0
