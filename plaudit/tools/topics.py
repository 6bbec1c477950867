"""`plaudit topics grow`: adds partitions while everything runs, and keeps the order of messages with one key.

Topics go through the steps of `messaging.kafka.partition_counts.Step`. Old partitions are those from before the growth.

| Step | the tool | our publishers | workers read | the router |
|---|---|---|---|---|
| announced | waits 32 s, and for `review-changes` (1); adds partitions | use the old ones | the old ones | waits (1) |
| switching | waits 4.5 s; again if this fails or takes 15 s | wait, 10 s at most | the old ones | continues |
| switched | waits `--wait` s, and until the old ones are applied | use all | the old ones | continues |
| complete | is done | use all | all | continues |

(1) If `review-changes` grows, nobody publishes ordered messages to it until all of its records are applied and its new
partitions exist; it is then complete at once. After an assignment of partitions of `moderation-commands` the router
also waits until everything that others passed on is applied (`consumers.routing_handover`).
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.errors import BrokerResponseError

from domain.quantities import quantity
from messaging.kafka.administration import admin_client, partitions_of
from messaging.kafka.connection import is_access_denied, is_broker_away
from messaging.kafka.lag import ConsumerLag, Ends
from messaging.kafka.partition_counts import KNOWN_GROWING_S, KNOWN_S, SWITCHED_S, Growth, Step
from messaging.topics import CONSUMED, Topic, TopicNames
from plaudit.config import Settings
from plaudit.errors import CommandError, UsageError, short
from plaudit.processes.waiting import patiently
from plaudit.terminal import Terminal
from plaudit.tools.migration_lease import HELD_UP, MigrationLease, migration_lease
from plaudit.tools.servers import reached
from storage.schema import SchemaMarks
from storage.topics_growth import GrowthRepository
from storage.unit_of_work import is_unavailable

T = TypeVar("T")

_UNORDERED: Final = (Topic.MAIL_COMMANDS,)
"""Topics whose messages are independent of each other. Without a mailer nobody reads the mails."""

_ANNOUNCED_S: Final = KNOWN_S + 12.0
"""Seconds after which nobody publishes changes of reviews: all have asked again, and nothing is in flight."""

_SWITCHING_S: Final = KNOWN_GROWING_S + 1.5
"""Seconds after which nobody publishes to a topic whose keys are being redistributed."""

_SWITCH_BY_S: Final = SWITCHED_S / 2
"""Maximum seconds of the step SWITCHING, so that the next one is written before anybody takes it as abandoned."""

_IN_FLIGHT_S: Final = 10.0
"""Seconds after which messages sent before the redistribution of keys have arrived or failed."""

_POLL_S: Final = 1.0
_GIVE_UP_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Grower:
    """One run. The next run continues one that was cut short."""

    names: TopicNames
    repository: GrowthRepository
    admin: AIOKafkaAdminClient
    lag: ConsumerLag
    progress: Terminal
    lease: MigrationLease

    async def grow(self, count: int, wait_s: float) -> list[Topic]:
        """Grow each topic to `count` partitions; returns the topics that grew."""
        there = await self._patiently(self._counts)
        growths = await self._growths(count, there)
        growing = {
            topic: each if each.step is Step.SWITCHED else Growth(each.count, to=count)
            for topic, each in growths.items()
            if each.to or each.count < count
        }
        # Before anybody waits: a user without the right gets the error at once.
        await self._create(dict.fromkeys(growing, count), is_only_asked=True)
        # A topic that was deleted and recreated has too few partitions for its keys.
        await self._create({topic: each.published or each.count for topic, each in growths.items()})
        undivided = {topic: growth for topic, growth in growing.items() if growth.step is not Step.SWITCHED}
        held = {topic for topic, growth in growing.items() if there[topic] > growth.count}
        if undivided:
            try:
                await self._divide(undivided, held)
            except BaseException as error:
                await self._restore(count, undivided, held, error)
                raise
        await self._complete_all({t: growth for t, growth in growing.items() if t != Topic.REVIEW_CHANGES}, wait_s)
        return list(growing)

    async def _divide(self, growing: Mapping[Topic, Growth], held: set[Topic]) -> None:
        """Add partitions, and have all our processes distribute keys among them from one moment on.

        Adds to `held` the topics that may have new partitions.
        """
        for topic, growth in growing.items():
            await self.lease.note(partial(self.repository.save, topic, growth))
        await self._wait(_ANNOUNCED_S, "until all processes know that the topics are growing")
        changes = {topic: growth for topic, growth in growing.items() if topic == Topic.REVIEW_CHANGES}
        async for _ in self._applied(dict.fromkeys(changes, sys.maxsize)):
            pass  # it is only waited for: its new partitions don't exist yet
        held |= growing.keys()
        await self._create({topic: growth.to or growth.count for topic, growth in growing.items()})
        for topic, growth in changes.items():
            await self._complete(topic, growth)
        if others := growing.keys() - changes.keys():
            await self._switch(others)

    async def _switch(self, topics: Collection[Topic]) -> None:
        while True:
            began = monotonic()
            await self.lease.note(partial(self.repository.go_to, Step.SWITCHING, topics))
            await self._wait(_SWITCHING_S, "until no process publishes with the old partitions")
            if monotonic() < began + _SWITCH_BY_S:
                # Not retried: later, processes may have stopped waiting for it.
                try:
                    if await self.repository.switch(topics, _SWITCH_BY_S):
                        return
                except Exception as error:
                    if not is_unavailable(error):
                        raise
            # Processes that wait for it will soon go on as before, unless MongoDB has written it.
            await self.lease.note(partial(self.repository.go_to, Step.ANNOUNCED, topics))
            await self._wait(_SWITCHING_S, "because the last step didn't succeed in time")

    async def _restore(
        self, count: int, growing: Collection[Topic], held: Collection[Topic], why: BaseException
    ) -> None:
        """Let everything that waits for a topic go on, with its keys distributed as before.

        New partitions of topics that others publish to stay unread; those of `review-changes` are empty, also if Kafka
        created them and its answer was lost. Raises CommandError: the lease was lost, or MongoDB doesn't answer.
        """

        async def restore() -> bool:
            if not await self.lease.is_still_mine():
                return False
            free = {topic for topic in growing if topic == Topic.REVIEW_CHANGES or topic not in held}
            await self.repository.give_up(free)
            await self.repository.go_to(Step.ANNOUNCED, set(growing) - free)
            return True

        # MongoDB may be what ended the run, and all moderation waits until this is written. In a task: a command that
        # was cancelled may soon be cancelled again.
        restoring = asyncio.ensure_future(asyncio.wait_for(patiently("MongoDB", restore), _GIVE_UP_S))
        while not restoring.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([restoring])
        stands = "moderation is paused, waiting for the topics to grow."
        try:
            if not restoring.result():
                raise CommandError(f"{HELD_UP} Until then {stands}") from why
        except TimeoutError:
            again = f"Run `plaudit topics grow {count}` again once it is back: until then"
            raise CommandError(f"MongoDB is unavailable. {again} {stands}") from why

    async def _complete_all(self, growing: Mapping[Topic, Growth], wait_s: float) -> None:
        """Have new partitions read once everything published before is applied."""
        if not growing:
            return
        self.progress.print(f"Added partitions to {quantity(len(growing), 'topic')}; they aren't read yet")
        await self._wait(max(wait_s, _IN_FLIGHT_S), "until all producers know them")
        old = {topic: 0 if topic in _UNORDERED else growth.count for topic, growth in growing.items()}
        async for topic in self._applied(old):
            await self._complete(topic, growing[topic])

    async def _growths(self, count: int, there: Mapping[Topic, int]) -> dict[Topic, Growth]:
        """The growth of each topic. Raises UsageError or CommandError: one can't grow to `count` partitions."""
        known = await self.repository.all()
        growths = {topic: known.get(topic) or Growth(there[topic]) for topic in CONSUMED}
        for topic, growth in growths.items():
            _check(topic, growth, there[topic], count)
        return growths

    async def _create(self, counts: Mapping[Topic, int], *, is_only_asked: bool = False) -> None:
        """Create missing partitions, or only ask Kafka to validate that. Raises CommandError: Kafka refuses."""
        try:
            await self._patiently(partial(self._create_once, counts, is_only_asked=is_only_asked))
        except BrokerResponseError as error:
            so_far = "Nothing was changed" if is_only_asked else "The growth is unfinished"
            raise CommandError(
                f"Kafka refuses more partitions ({error}). {so_far}. Grant the permission ALTER on the topics, and "
                "check the brokers' limits and policies. Then run this again."
            ) from error

    async def _create_once(self, counts: Mapping[Topic, int], *, is_only_asked: bool) -> None:
        there = await self._counts()
        wanted = {
            self.names.name(topic): NewPartitions(total_count=count)
            for topic, count in counts.items()
            if there[topic] < count
        }
        if wanted:
            await self.admin.create_partitions(wanted, validate_only=is_only_asked)

    async def _complete(self, topic: Topic, growth: Growth) -> None:
        await self.lease.note(partial(self.repository.complete, topic, growth.to or growth.count))

    async def _wait(self, seconds: float, until: str) -> None:
        self.progress.print(f"Waiting for {seconds:.0f} s, {until}")
        end = monotonic() + seconds
        while monotonic() < end:
            await self._renew_and_pause()

    async def _applied(self, old: Mapping[Topic, int]) -> AsyncIterator[Topic]:
        """These topics, each as soon as its old partitions are applied up to their current ends."""
        ends = await self._patiently(partial(self.lag.ends, *old)) if old else {}
        ends = {partition: end for partition, end in ends.items() if partition[1] < old[partition[0]]}
        waiting = set(old)
        while True:
            ends = await self._patiently(partial(self.lag.unapplied, ends))
            for topic in waiting - {topic for topic, _ in ends}:
                yield topic
                waiting.remove(topic)
            if not waiting:
                return
            self.progress.print(f"Waiting for {_shown_partitions(ends)}: not applied yet")
            await self._renew_and_pause()

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of Kafka; retries while it is unavailable."""
        while True:
            try:
                return await ask()
            except Exception as error:
                if is_access_denied(error) or not is_broker_away(error):
                    raise
                self.progress.print(f"Retrying: Kafka is unavailable ({short(error)})")
                await self._renew_and_pause()

    async def _renew_and_pause(self) -> None:
        await patiently("MongoDB", self.lease.keep)
        await asyncio.sleep(_POLL_S)

    async def _counts(self) -> dict[Topic, int]:
        names = {self.names.name(topic): topic for topic in CONSUMED}
        counts = dict.fromkeys(CONSUMED, 0)
        for partition in await partitions_of(self.admin, list(names)):
            counts[names[partition.topic]] += 1
        return counts


async def grow(settings: Settings, out: Terminal, progress: Terminal, count: int, wait_s: float) -> None:
    """Grow each topic that Plaudit reads to `count` partitions, while everything runs.

    Raises UsageError: `count` isn't a multiple of the current number, or another growth is unfinished. Raises
    CommandError: the schema has no places yet, or a step fails.
    """
    async with reached(settings, *CONSUMED) as (database, _), AsyncExitStack() as stack:
        if not (await SchemaMarks(database).load()).has_places:
            raise CommandError("The schema has no places yet: run `plaudit migrate` first.")
        admin = await stack.enter_async_context(admin_client(settings.kafka_connection()))
        lag = await stack.enter_async_context(ConsumerLag(settings.kafka_connection(), settings.topics))
        lease = await stack.enter_async_context(migration_lease(database, progress))
        grower = Grower(settings.topics, GrowthRepository(database), admin, lag, progress, lease)
        grown = await grower.grow(count, wait_s)
    names = [settings.topics.name(topic) for topic in grown]
    out.set_result({"partitions": count, "grown": names})
    if not names:
        out.print(f"Every topic has {quantity(count, 'partition')}.")
        return
    out.print(f"Grew {quantity(len(names), 'topic')} to {count} partitions: {', '.join(names)}.")
    out.print(f"Set PLAUDIT_KAFKA__PARTITIONS to {count}.")


def _check(topic: Topic, growth: Growth, there: int, count: int) -> None:
    if growth.to not in (None, count):
        raise UsageError(f"A growth to {growth.to} is unfinished: continue it with `plaudit topics grow {growth.to}`.")
    if there > growth.count and there != count:
        raise CommandError(f"{topic} has {there} partitions, but keys are distributed among {growth.count} of them.")
    if count % growth.count:
        raise UsageError(f"{topic} has {quantity(growth.count, 'partition')}: the new number must be a multiple of it.")


def _shown_partitions(ends: Ends) -> str:
    first, *others = (f"{topic} {number}" for topic, number in sorted(ends))
    return f"partition {first}" + (f" and {quantity(len(others), 'other')}" if others else "")
