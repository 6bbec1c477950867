"""The offsets that the consumer commits: past the ends of transactions, never past a record that isn't processed."""

from collections import OrderedDict
from collections.abc import Mapping
from random import Random
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import FetchError, FetchResult
from aiokafka.errors import RecordTooLargeError, UnknownError
from aiokafka.structs import OffsetAndMetadata

from consumers import subscriptions
from consumers.subscriptions import Batch
from tests.support.records import Record
from tests.unit.test_patient_consumer import OTHER, PLACE, Fetches, Group, Member

PLACES = (PLACE, OTHER)
Log = str
"""A partition: `r` is a record, `m` a control record, such as the end of a transaction."""


class Fetched:
    """Records of a partition that were fetched from an offset up to the end of its log."""

    def __init__(self, log: Log, offset: int) -> None:
        self.next_fetch_offset = offset
        self._log = log

    def __iter__(self) -> "Fetched":
        return self

    def __next__(self) -> Record:
        while self.next_fetch_offset < len(self._log):
            self.next_fetch_offset += 1
            if self._log[self.next_fetch_offset - 1] == "r":
                return Record(self.next_fetch_offset - 1)
        raise StopIteration


class LoggedFetches(Fetches):
    """Fetches from logs, whenever the consumer polls. `too_large` are partitions whose next record can't be fetched."""

    def __init__(self, member: Member) -> None:
        super().__init__(member)
        self._records = OrderedDict()
        self._prefetch_backoff = 0
        self.logs: dict[TopicPartition, Log] = dict.fromkeys(PLACES, "")
        self.too_large: set[TopicPartition] = set()

    async def fetched_records(self, partitions: Any, *_: object, max_records: int | None = None) -> Any:
        assignment = self._subscriptions.subscription.assignment
        for place in assignment.tps:
            state, log = assignment.state_value(place), self.logs[place]
            state.highwater = len(log)
            if place in self._records or state.position >= len(log):
                continue
            if place in self.too_large and log[state.position] == "r":
                self.too_large.remove(place)
                self._set_error(place, RecordTooLargeError("larger than the fetch size"))
                state.consumed_to(state.position + 1)
                continue
            fetched = Fetched(log, state.position)
            self._records[place] = FetchResult(place, assignment=assignment, partition_records=fetched, backoff=0)
        return await super().fetched_records(partitions, 0, max_records)


class CheckedGroup(Group):
    """A group that accepts only offsets before which all records are processed."""

    def __init__(self, logs: dict[TopicPartition, Log]) -> None:
        super().__init__()
        self.offsets = dict.fromkeys(PLACES, 0)
        self.logs = logs
        self.processed: dict[TopicPartition, set[int]] = {place: set() for place in PLACES}

    async def _do_commit_offsets(self, _: object, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        await super()._do_commit_offsets(_, offsets)
        for place, each in offsets.items():
            records = {offset for offset, kind in enumerate(self.logs[place][: each.offset]) if kind == "r"}
            assert records <= self.processed[place], (place, each.offset)


class CheckedMember(Member):
    """A member of such a group that reads such logs."""

    def __init__(self) -> None:
        super().__init__()
        self._fetcher = LoggedFetches(self)
        self.logs = self._fetcher.logs
        self._coordinator = self.group = CheckedGroup(self.logs)
        for place in PLACES:
            self.seek(place, 0)

    async def reassign(self, *places: TopicPartition) -> None:
        """Give the member these partitions, in the next generation; it continues at the committed offsets."""
        await self.is_assigned(*places, generation=self.group.generation + 1)
        self._fetcher._records.clear()
        for place in places:
            self.seek(place, self.group.offsets[place])

    async def polled_batch(self) -> Batch:
        """The records of the next poll."""
        found = await self.getmany(max_records=3)
        records = [Record(r.offset, (), *place) for place, records in found.items() for r in records]
        return Batch(self, records, self.polled)

    def process(self, batch: Batch) -> None:
        for record in batch.records:
            self.group.processed[TopicPartition(record.topic, record.partition)].add(record.offset)


@pytest.fixture
async def member(monkeypatch: pytest.MonkeyPatch) -> Any:
    consumer = CheckedMember()
    monkeypatch.setattr(AIOKafkaConsumer, "start", AsyncMock())
    monkeypatch.setattr(subscriptions, "AFTER_REFUSAL_S", 0)
    await consumer.start()
    yield consumer
    await consumer.stop()


async def consume(member: CheckedMember) -> None:
    batch = await member.polled_batch()
    member.process(batch)
    await batch.commit()


async def test_end_of_a_transaction_is_committed_with_another_partition(member: CheckedMember) -> None:
    member.logs[PLACE] = "rm"
    await consume(member)
    assert member.group.offsets == {PLACE: 1, OTHER: 0}
    member.logs[OTHER] = "r"
    await consume(member)
    assert member.group.offsets == {PLACE: 2, OTHER: 1}


async def test_partition_without_markers_is_committed_only_with_its_records(member: CheckedMember) -> None:
    committed: list[set[TopicPartition]] = []
    commit = member.group._do_commit_offsets

    async def noted(_: object, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        committed.append(set(offsets))
        await commit(_, offsets)

    member.group._do_commit_offsets = noted  # type: ignore[method-assign]
    member.logs[PLACE] = "r"
    await consume(member)
    for _ in range(3):
        member.logs[OTHER] += "r"
        await consume(member)
    assert committed[-2:] == [{OTHER}] * 2


async def test_record_that_is_delivered_again_is_not_passed(member: CheckedMember) -> None:
    member.logs |= {PLACE: "rm", OTHER: ""}
    failed = await member.polled_batch()
    failed.seek(PLACE, 0)
    member.logs |= {PLACE: "", OTHER: "r"}  # the next fetch gets only these
    await consume(member)
    member.logs |= {PLACE: "rm", OTHER: "rr"}
    await consume(member)
    assert member.group.offsets[PLACE] <= 1


async def test_records_in_hand_are_not_committed_with_others(member: CheckedMember) -> None:
    member.logs[PLACE] = "r"
    await member.polled_batch()
    member.logs[OTHER] = "r"
    await consume(member)
    assert member.group.offsets == {PLACE: 0, OTHER: 1}


async def test_partition_that_was_lost_is_not_committed_with_others(member: CheckedMember) -> None:
    member.logs |= {PLACE: "m", OTHER: "r"}
    batch = await member.polled_batch()
    member.process(batch)
    await member.reassign(OTHER)
    await batch.commit()
    assert member.group.offsets == {PLACE: 0, OTHER: 1}


async def test_record_that_is_too_large_for_a_fetch_is_not_passed(member: CheckedMember) -> None:
    """aiokafka moves the position behind it at once, and raises after the records of other partitions."""
    member.logs |= {PLACE: "r", OTHER: "r"}
    member._fetcher.too_large = {PLACE}
    member._fetcher._records[OTHER] = FetchResult(
        OTHER, assignment=member._subscription.subscription.assignment, partition_records=Fetched("r", 0), backoff=0
    )
    await consume(member)
    assert isinstance(member._fetcher._records[PLACE], FetchError)
    assert member.group.offsets == {PLACE: 0, OTHER: 1}


@pytest.mark.parametrize("seed", range(100))
async def test_no_offset_is_committed_past_an_unprocessed_record(member: CheckedMember, seed: int) -> None:
    """Whatever fails: handlers, commits, fetches; and whoever holds the partitions."""
    choose = Random(seed)
    for _ in range(60):
        for place in PLACES:
            member.logs[place] += "".join(choose.choices("rm", k=choose.randrange(4)))
        assigned = member.assignment()
        member._fetcher.too_large = {place for place in sorted(assigned) if choose.random() < 0.1}
        some = choose.choice(sorted(assigned))
        member.logs[some] += "r"  # a poll returns only with records
        batch = await member.polled_batch()
        if choose.random() < 0.2:
            for place in {TopicPartition(record.topic, record.partition) for record in batch.records}:
                first = min(r.offset for r in batch.records if TopicPartition(r.topic, r.partition) == place)
                batch.seek(place, first)
            continue
        if choose.random() < 0.2:
            await member.reassign(*choose.choice([(PLACE,), (OTHER,), PLACES]))
        member.process(batch)
        member.group.is_refusing_commits = choose.random() < 0.2
        try:
            await batch.commit()
        except UnknownError:
            assert member.group.is_refusing_commits
    member.group.is_refusing_commits = False
    await member.reassign(*PLACES)
    member.logs[PLACE] += "rm"
    while member.group.offsets[PLACE] < len(member.logs[PLACE]):
        member.logs[OTHER] += "r"
        await consume(member)
