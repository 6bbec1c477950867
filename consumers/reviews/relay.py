"""The relay of reviews: MongoDB's change stream in, the compacted topic `reviews` out."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Final

import structlog
from uuid_utils import uuid7

from messaging.kafka.connection import KafkaConnection
from messaging.kafka.fenced_publisher import FencedPublisher
from messaging.kafka.topic_reader import TopicReader
from messaging.metrics import note_wait
from messaging.reviews_state import review_id_of, review_of_state, review_state, state_record, tombstone
from messaging.server_errors import for_log
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.leases import LeaseRepository, new_holder
from storage.reviews.changes import (
    HistoryLostError,
    Progress,
    RelayProgress,
    Republication,
    ReviewChanges,
    States,
)
from storage.unit_of_work import is_unavailable

log = structlog.get_logger()

LEASE: Final = "reviews-relay"
LEASE_S: Final = 10.0
"""Seconds after which another worker takes over from one that died."""

_RENEW_S: Final = 2.5
_NOTE_S: Final = 1.0
_IDLE_NOTE_S: Final = 5.0
_POLL_S: Final = 1.0
_STOP_S: Final = 2.0
_NEWEST: Final = 50
"""Number of offsets of each partition whose reviews MongoDB has to know; transactions take some of them."""


class ReviewRelay:
    """Publishes the current state of each review that has changed, and a tombstone if it is gone.

    The last record of a review is its newest state, because
    - one process publishes at a time: the lease selects it, and once its publisher is open, Kafka rejects records of
      earlier processes, even of one that was suspended with a batch in progress;
    - it works sequentially: it reads the current reviews, publishes them, waits for Kafka's acknowledgement, and reads
      on, so that a later record was read later, whether it comes from a change or from a republication;
    - each change is followed by a read: the resume token is stored once Kafka has what was read after it, so a
      successor reads and publishes at least the rest.
    Several changes of a review in one batch are published once. All reviews are republished, with tombstones for all
    other ids in the topic, if there is no token (the first start), if MongoDB no longer has the changes after it, if
    the collection has been replaced, if the topic is empty when a process begins, and on request. While MongoDB or
    Kafka is unavailable, it waits.

    It begins with a look at the newest records of the topic. MongoDB knows their reviews, or the ids of those deleted
    since, unless it was put back to an earlier state: then they are noted as missing, before a republication replaces
    them by tombstones.

    Approved reviews that it has read are removed from the queue of unapproved ones (`storage.reviews.queue`).
    """

    def __init__(self, database: Database, connection: KafkaConnection, topics: TopicNames) -> None:
        self._database = database
        self._connection = connection
        self._topic: Final = topics.name(Topic.REVIEWS)
        self._progress = RelayProgress(database)
        self._leases = LeaseRepository(database)
        self._holder: Final = new_holder()
        self._renew_at = 0.0
        self._wanted: str | None = None
        self._missing: tuple[str, ...] = ()

    async def run(self) -> None:
        """Relay until cancelled, whenever this process gets the lease."""
        try:
            while True:
                try:
                    if await self._holds_lease():
                        await self._lead()
                except Exception as error:
                    if is_unavailable(error):
                        note_wait("reviews-relay", error)
                    else:
                        log.exception("the relay of reviews failed; restarting it")
                await asyncio.sleep(_RENEW_S)
        finally:
            await self._release()

    async def _lead(self) -> None:
        async with FencedPublisher.open(self._connection, f"{self._topic}.relay") as publisher:
            # Read after others are fenced off: all that they have published is at this token or after it.
            progress = await self._progress.load()
            log.info("this worker relays reviews", holder=self._holder)
            try:
                if progress.token is None or progress.collection != await self._progress.collection_uuid():
                    raise HistoryLostError("no change of this collection has been relayed yet")
                if await self._is_topic_lost(publisher):
                    raise HistoryLostError("the topic is empty, and there are reviews")
                await self._follow(publisher, progress)
            except HistoryLostError as lost:
                log.warning("publishing all reviews again", reason=str(lost))
                collection, anew = await self._progress.collection_uuid(), Republication(str(uuid7()))
                afresh = replace(progress, token=None, collection=collection, republication=anew)
                await self._follow(publisher, afresh)

    async def _is_topic_lost(self, publisher: FencedPublisher) -> bool:
        """True if nothing is on the topic although there are reviews: it was created anew, as after a loss of Kafka."""
        if not await self._progress.has_reviews():
            return False
        partitions = await publisher.partitions(self._topic)
        async with TopicReader.open(self._connection) as reader:
            return not await reader.spans(partitions)

    async def _follow(self, publisher: FencedPublisher, progress: Progress) -> None:
        """Relay from the token on for as long as the lease is held, and republish on request."""
        async with ReviewChanges.open(self._database, progress.token) as changes:
            await self._note_missing(publisher, changes)
            flow = _Flow(self._connection, self._topic, publisher, changes, self._progress, progress)
            while await self._holds_lease():
                await self._forget_found(changes)
                await flow.relay()
                async with aclosing(flow.republish(self._wanted)) as steps:
                    async for _ in steps:
                        if not await self._holds_lease():
                            return

    async def _note_missing(self, publisher: FencedPublisher, changes: ReviewChanges) -> None:
        """Note reviews of the newest records that MongoDB doesn't know. It is asked after the topic was read: a review
        deleted in between has left a placeholder."""
        partitions = await publisher.partitions(self._topic)
        async with TopicReader.open(self._connection) as reader:
            newest = {review_id_of(record.key): record.value for record in await reader.newest(partitions, _NEWEST)}
        ids = {id for id, value in newest.items() if id and value and review_of_state(value)}
        if missing := ids - await changes.known(ids):
            log.error("MongoDB lacks reviews that the topic has: was it restored?", missing=len(missing))
            await self._progress.note_missing(missing)

    async def _forget_found(self, changes: ReviewChanges) -> None:
        """Forget missing reviews that MongoDB knows by now, because workers have read their records again."""
        if self._missing:
            await self._progress.forget_missing(await changes.known(self._missing))
            self._missing = ()

    async def _holds_lease(self) -> bool:
        """Take or renew the lease, and look for requests, every _RENEW_S seconds; False if another process has it."""
        if monotonic() < self._renew_at:
            return True
        hold = await self._leases.take(LEASE, self._holder, LEASE_S)
        if hold is None:
            return False
        progress = await self._progress.load()
        self._wanted, self._missing = progress.wanted, progress.missing
        self._renew_at = monotonic() + _RENEW_S
        return True

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(_STOP_S):
                await self._leases.release(LEASE, self._holder)
        except Exception as error:
            log.warning("stopped without releasing the lease", error=for_log(error))


@dataclass(slots=True)
class _Flow:
    """The work of a process while it holds the lease."""

    connection: KafkaConnection
    topic: str
    publisher: FencedPublisher
    changes: ReviewChanges
    notes: RelayProgress
    progress: Progress
    relayed_at: float = float("-inf")
    noted_at: float = float("-inf")

    async def relay(self) -> bool:
        """Publish a batch of the changes since the last call; without any, wait a moment for one. Returns True if more
        changes are likely to wait."""
        began = datetime.now(UTC)
        found = await self.changes.next()
        await self._publish(await self.changes.states(found.ids))
        self.progress = replace(self.progress, token=found.token or self.progress.token)
        self.relayed_at = monotonic()
        await self._note(found.at or began, every=_NOTE_S if found.ids else _IDLE_NOTE_S)
        return found.is_full

    async def republish(self, wanted: str | None) -> AsyncGenerator[None, None]:
        """Publish all reviews if that is under way or requested, and all changes in between: a stream that falls behind
        loses its place once the oplog is overwritten. One step is one batch."""
        # Requests are ordered by time: a later one that is done covers those before it.
        if self.progress.republication is None and wanted and wanted > (self.progress.done or ""):
            self.progress = replace(self.progress, republication=Republication(wanted))
        step = self.progress.republication
        if step is None:
            return
        async with aclosing(self._steps(step)) as steps:
            async for step in steps:
                self.progress = replace(self.progress, republication=step)
                is_relaying = monotonic() > self.relayed_at + _POLL_S
                while is_relaying:
                    is_relaying = await self.relay()
                    yield
                yield
        log.info("all reviews are published", published=step.published)
        self.progress = replace(self.progress, republication=None, done=step.request)
        self.noted_at = float("-inf")
        await self.relay()

    async def _steps(self, step: Republication) -> AsyncGenerator[Republication, None]:
        while step.after is not None:
            page = await self.changes.page(step.after)
            await self._publish(page.states)
            step = replace(step, after=page.last, published=step.published + len(page.states.present))
            yield step
        # Other ids in the topic, as after a restore to an earlier state.
        partitions = await self.publisher.partitions(self.topic)
        async with TopicReader.open(self.connection) as reader:
            async for records in reader.batches(partitions):
                ids = {id for record in records if record.value is not None and (id := review_id_of(record.key))}
                states = await self.changes.states(ids, are_published=True)
                await self._publish(States([], states.gone, []))
                yield step

    async def _publish(self, states: States) -> None:
        present = [state_record(self.topic, review_state(each)) for each in states.present]
        await self.publisher.publish([*present, *(tombstone(self.topic, id) for id in states.gone)])
        await self.changes.leave_queue(states)

    async def _note(self, at: datetime, *, every: float) -> None:
        if monotonic() >= self.noted_at + every:
            await self.notes.note(self.progress, at)
            self.noted_at = monotonic()
