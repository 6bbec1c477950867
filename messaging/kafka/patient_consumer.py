"""A consumer whose polls return only with records, and which loses none if decoding fails."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
)

from messaging.decoding import RawRecord
from messaging.kafka.aiokafka_internals import (
    assignment_end,
    guard_commits,
    join_anew,
    read_group_errors,
    serve_last,
    wait_in_fetches,
)
from messaging.kafka.connection import is_broker_away
from messaging.kafka.record_batches import Allowance, allowance
from messaging.kafka.tenure import Tenure
from messaging.kafka.unreadable import Attempts, is_of_records, unreadable_record
from messaging.metrics import note_out_of_range
from messaging.server_errors import for_log

log = structlog.get_logger()

_BUSY_FETCH_MS: Final = 250
"""Milliseconds that a broker holds a fetch of partitions without new records. A partition with buffered records isn't
in that fetch, and is fetched again only after its end: by default up to half a second later."""

_IDLE_FETCH_MS: Final = 2_000
"""Milliseconds of such a fetch after an empty poll: it is work for the broker, and a record that arrives ends it."""

_SINGLE_POLL_MS: Final = 500
"""Milliseconds to wait for the records of one partition when each is read separately."""

_MAX_POLL_INTERVAL_MS: Final = 24 * 3_600_000
"""Maximum milliseconds between polls. By default aiokafka leaves the group after five minutes: in a longer outage it
would lose all members, and waiting batches would be delivered again. A batch that hangs keeps its partitions for this
long, but the standstill is reported. Kafka notices a dead process by its missing heartbeats."""

_HEARTBEAT_MS: Final = 1_000
"""Milliseconds between heartbeats, by default 3 s. By them members learn of a rebalance, which waits for them all."""

_NO_PARTITION: Final = TopicPartition("", 0)

Found = dict[TopicPartition, list[RawRecord]]
Readable = Callable[[str], Awaitable[int | None]]


class PatientConsumer(AIOKafkaConsumer):  # type: ignore[misc]
    """Returns from a poll only with records: after an empty one, FastStream sleeps. Delivers records at least once.

    aiokafka drains one partition after the other; if it raises at one of them, what it has drained from the others is
    lost. So after any exception all partitions return to their committed offsets, and each is read separately, record
    by record, up to the one that raises. After TRIES failures that one is delivered as an unreadable record. Errors
    that no record causes are raised; after those of the group, which have ended its task, the consumer rejoins it.

    Partitions take turns, however many records wait in one. One that its group never committed is read from its oldest
    record, and so is one whose records at the committed offset are gone, which is logged with their number. Pass
    `auto_offset_reset="none"`: aiokafka's own reset is silent.

    While nothing arrives it asks brokers less often. `readable` returns how many partitions of a topic, by its full
    name, may be read at the moment, None for all: the others, of a topic that grows, are left alone.

    `polled` is the assignment of the last poll, as `Tenure` counts them. The consumer's state tells what to commit:
    - Between batches, positions are the committed offsets, or past control records; an empty poll commits those.
    - From a poll with records until their `commit` or the next assignment, `_in_hand` is the current assignment, and an
      empty poll commits nothing. The `commit` includes `_passed`: the offsets past control records in the partitions
      of which no records are in hand.
    - `_is_astray`, in either case: after an error of a poll or a commit, positions may be past records that nobody got,
      so the next poll returns to the committed offsets first.
    """

    def __init__(self, *topics: str, readable: Readable | None = None, **options: Any) -> None:
        own_options = {
            "fetch_max_wait_ms": _BUSY_FETCH_MS,
            "max_poll_interval_ms": _MAX_POLL_INTERVAL_MS,
            "heartbeat_interval_ms": _HEARTBEAT_MS,
        }
        super().__init__(*topics, **options | own_options)
        self._readable = readable
        self._cleared: set[TopicPartition] = set()
        self._allowance = Allowance()
        self.polled = 0
        self._is_astray = False
        self._in_hand = 0
        self._passed: dict[TopicPartition, int] = {}
        self._attempts = Attempts()

    async def start(self) -> None:
        """Connect and join the group."""
        token = allowance.set(self._allowance)
        try:
            await super().start()
            self._tenure = Tenure(self)
            guard_commits(self, lambda: self._tenure.is_current)
            read_group_errors(self)
        finally:
            allowance.reset(token)

    async def getmany(self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None) -> Found:
        """Wait for records, however long that takes. Raises aiokafka's errors, except those of records."""
        found: Found = {}
        self._passed = {}
        while not found:
            self._allowance.renew()
            try:
                if self._is_astray:
                    await self._return_to_committed()
                await self._clear_assigned()
                # To aiokafka, none means all.
                wanted = partitions or tuple(self._cleared) or (_NO_PARTITION,)
                found = await self._fetch(*wanted, timeout_ms=timeout_ms, max_records=max_records)
                self.polled = self._tenure.assignments
                wait_in_fetches(self, _BUSY_FETCH_MS if found else _IDLE_FETCH_MS)
            except ConsumerStoppedError:
                raise
            except IllegalStateError:
                self._is_astray = True  # a rebalance: what was drained from other partitions is lost
                continue
            except Exception as error:
                self._is_astray = True
                if not is_of_records(error):
                    if not is_broker_away(error) or isinstance(error, GroupAuthorizationFailedError):
                        join_anew(self)
                    raise
                log.warning("fetched records can't be read; reading each partition by itself", error=for_log(error))
                await self._return_to_committed()
                found = await self._read_each_separately(max_records or 1)
            if not found and self._in_hand != self._tenure.assignments:
                await self._commit_past_markers()
        if self._in_hand != self.polled:
            self._passed = self._tenure.passed(in_hand=found)
        self._in_hand = self.polled
        return found

    async def _fetch(self, *partitions: TopicPartition, timeout_ms: int, max_records: int | None) -> Found:
        """The records that aiokafka has fetched; none if a partition was moved to its oldest one."""
        try:
            found: Found = await super().getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
            self._attempts.forget(found)
            serve_last(self, found)
            return found
        except NoOffsetForPartitionError:
            await self._seek_uncommitted_to_oldest(await self._committed_offsets(self._cleared))
        except OffsetOutOfRangeError as error:
            (offsets,) = error.args
            for partition, offset in offsets.items():
                await self._continue_at_oldest(partition, offset)
        return {}

    async def _seek_uncommitted_to_oldest(self, committed: Mapping[TopicPartition, int | None]) -> None:
        """Seek to the oldest records of all partitions that were never committed.

        aiokafka names one of them, and moves none while it fetches from the others: one by one, each would wait for as
        long as a broker holds a fetch.
        """
        if new := [partition for partition, offset in committed.items() if offset is None]:
            await self.seek_to_beginning(*new)

    async def _continue_at_oldest(self, partition: TopicPartition, offset: int) -> None:
        """Continue at the oldest record that is left if there is none at this offset, and report what was lost."""
        oldest = (await self.beginning_offsets([partition]))[partition]
        try:
            # First, so that it is reported once: the next owner of the partition finds this offset.
            await self.commit({partition: oldest})
            self.seek(partition, oldest)
        except (CommitFailedError, IllegalStateError):
            return  # a rebalance: the new owner finds the same
        note_out_of_range(partition.topic, partition.partition, offset, oldest)

    async def _clear_assigned(self) -> None:
        """Find out which newly assigned partitions may be read; a partition that may be read stays so."""
        assigned = self.assignment()
        self._cleared &= assigned
        uncleared = assigned - self._cleared
        if self._readable is None:
            self._cleared |= uncleared
            return
        for topic in {partition.topic for partition in uncleared}:
            try:
                limit = await self._readable(topic)
            except Exception as error:
                log.warning("the readable partitions are unknown; waiting", topic=topic, error=for_log(error))
                continue
            self._cleared |= {p for p in uncleared if p.topic == topic and (limit is None or p.partition < limit)}

    @property
    def read(self) -> frozenset[TopicPartition]:
        """The assigned partitions that may be read."""
        return frozenset(self._cleared)

    async def commit(self, offsets: dict[TopicPartition, int] | None = None) -> None:
        """Commit these offsets, with which the records of the last poll are processed, and those of `_passed`.

        aiokafka retries a commit while the topic doesn't exist, and would commit the offsets of a deleted topic to the
        one that replaces it. Raises CommitFailedError once partitions have been reassigned. Uncommitted records are
        delivered again.
        """
        if offsets is not None and self.polled == self._tenure.assignments:
            offsets = self._passed | offsets
        committing = asyncio.ensure_future(super().commit(offsets))
        try:
            await asyncio.wait([committing, assignment_end(self)], return_when=asyncio.FIRST_COMPLETED)
            if not committing.done():
                raise CommitFailedError("partitions were reassigned")
            committing.result()
        except Exception:
            self._is_astray = True
            raise
        finally:
            committing.cancel()
        self._tenure.committed |= offsets or {}
        self._in_hand = 0

    async def still_ours(self, partitions: Collection[TopicPartition], polled: int) -> set[TopicPartition]:
        """The partitions among these in which offsets of a poll's records may be committed.

        Under a later assignment they are those that nobody else has had since, and for which the group still has an
        offset: Kafka drops that with the topic.
        """
        held = self._tenure.held_since(polled) & set(partitions)
        now = self._tenure.assignments
        if now == polled:
            return held
        committed = await self._committed_offsets(held)
        return {each for each in held if committed[each] is not None} if now == self._tenure.assignments else set()

    def rewind(self, partition: TopicPartition, offset: int, polled: int) -> None:
        """Seek back to a record of a poll. A later assignment starts at the committed offsets anyway."""
        if polled == self._tenure.assignments and partition in self.assignment():
            self.seek(partition, offset)

    async def _commit_past_markers(self) -> None:
        """Commit offsets past control records, such as the ends of transactions, which would look like a backlog."""
        try:
            # aiokafka refuses to commit nothing.
            if passed := self._tenure.passed():
                await self.commit(passed)
        except (CommitFailedError, IllegalStateError):
            return  # a rebalance: the new owner commits

    async def _return_to_committed(self) -> None:
        committed = await self._committed_offsets(self.assignment())
        for partition, offset in committed.items():
            if offset is not None:
                self.seek(partition, offset)
        await self._seek_uncommitted_to_oldest(committed)
        self._is_astray = False

    async def _committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        partitions = list(partitions)
        return dict(zip(partitions, await asyncio.gather(*map(self.committed, partitions)), strict=True))

    async def _read_each_separately(self, max_records: int) -> Found:
        self.polled = self._tenure.assignments
        found: Found = {}
        for partition in self._cleared & self.assignment():
            records = await self._read_up_to_unreadable(partition, max_records - sum(map(len, found.values())))
            if records:
                found[partition] = records
        return found

    async def _read_up_to_unreadable(self, partition: TopicPartition, max_records: int) -> list[RawRecord]:
        records: list[RawRecord] = []
        while len(records) < max_records:
            position = await self.position(partition)
            try:
                wait = 0 if records else _SINGLE_POLL_MS
                one = await self._fetch(partition, timeout_ms=wait, max_records=1)
            except ConsumerStoppedError:
                raise
            except Exception as error:
                if not is_of_records(error):
                    self._is_astray = True
                    raise
                if isinstance(error, RecordTooLargeError):
                    # aiokafka has moved the position past the record, perhaps before this read.
                    position = await self.position(partition) - 1
                self.seek(partition, position)
                if not records and self._attempts.are_over(partition, position):
                    records.append(unreadable_record(partition, position, error))
                    self.seek(partition, position + 1)
                break
            if not one:
                break
            records += one[partition]
        return records
