"""`plaudit reviews`: republishes all reviews to the topic `reviews`, and compares them with an earlier state of it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson
from typing_extensions import TypedDict

from consumers.reviews.relay import ReviewRelay
from domain.delivery import in_parts
from domain.quantities import quantity
from domain.timestamps import milliseconds, timestamp
from messaging.kafka.administration import admin_client, partitions_of
from messaging.kafka.topic_reader import TopicReader
from messaging.reviews_state import review_id_of, review_of_state, review_state
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.errors import CommandError, UsageError
from plaudit.terminal import Terminal, shown
from plaudit.tools.servers import reached
from storage.pymongo_internals import cancel_and_wait
from storage.repositories import Repositories
from storage.reviews.changes import RelayProgress
from storage.reviews.repository import ReviewRepository

_PAUSE_S: Final = 0.2
_BATCH: Final = 500
_STATUS: Final = "reviewStatus"
_LEFT_OUT: Final = frozenset({"modifiedDate", "reviewStatusId"})


async def republish(settings: Settings, out: Terminal, progress: Terminal) -> None:
    """Have all reviews published in their current state, and tombstones for others that the topic holds.

    The worker that relays reviews does it; if none runs, this process. If cut short, the workers continue it.
    """
    async with reached(settings, Topic.REVIEWS) as (database, _):
        relay = asyncio.create_task(ReviewRelay(database, settings.kafka_connection(), settings.topics).run())
        try:
            with progress.status("Waiting for the relay of reviews") as status:
                notes = RelayProgress(database)
                request = await notes.request_republication()
                # A later request may have replaced this one.
                while ((state := await notes.load()).done or "") < request:
                    if republication := state.republication:
                        status.update(f"Published {quantity(republication.published, 'review')}")
                    if relay.done():
                        relay.result()
                    await asyncio.sleep(_PAUSE_S)
        finally:
            await cancel_and_wait(relay)
    out.set_result({"done": True})
    out.print("The topic has the current state of all reviews.")


class Difference(TypedDict):
    """A review that has changed: its statuses `before` and `now`, null if it was gone, and the fields that differ."""

    id: str
    storeId: str | None
    before: str | None
    now: str | None
    fields: list[str]


async def compare_reviews(settings: Settings, out: Terminal, progress: Terminal, at: datetime) -> int:
    """Print the reviews that differ from their state in the topic at a moment, and those that can't be compared,
    because the topic has only later states of them; returns the number of both.

    Memory holds the states of one partition, and the differences. Raises UsageError: the moment is in the future.
    Raises CommandError: the topic or the database is missing, or the topic has no record from before the moment.
    """
    if at > datetime.now(UTC):
        raise UsageError(f"{timestamp(at)} is in the future: there is no earlier state to compare with.")
    compared, differences, uncomparable = 0, list[Difference](), list[str]()
    async with reached(settings, Topic.REVIEWS) as (database, _):
        reviews = Repositories(database).reviews
        with progress.status("Comparing reviews"):
            async for recorded in _recorded(settings, at):
                compared += len(recorded.states)
                async for difference in _differences(recorded.states, reviews):
                    differences.append(difference)
                    out.print(_line(difference))
                async for id in _uncomparable(recorded, reviews, at):
                    uncomparable.append(id)
                    out.print(f"{shown(id)}  can't be compared")
    if not compared:
        raise CommandError(f"The topic has no reviews from before {timestamp(at)}: there is nothing to compare with.")
    found = {"compared": compared, "differences": differences, "uncomparable": uncomparable}
    out.set_result({"at": timestamp(at), **found})
    if differences:
        out.print(f"{len(differences):,} of {quantity(compared, 'review')} changed since {timestamp(at)}.")
    else:
        out.print(f"None of {quantity(compared, 'review')} changed since {timestamp(at)}.")
    if uncomparable:
        unknown = quantity(len(uncomparable), "review")
        out.print(f"{unknown} can't be compared: the topic has only states of them from after that time.")
    return len(differences) + len(uncomparable)


class _Recorded(NamedTuple):
    """The records of one partition."""

    states: dict[str, bytes | None]
    """The newest state of each review before the moment; None for a deleted one."""
    later: dict[str, datetime | None]
    """The creation of each review, as records after the moment have it; None if they have no value."""


async def _recorded(settings: Settings, at: datetime) -> AsyncIterator[_Recorded]:
    """The records of the topic, partition by partition."""
    connection = settings.kafka_connection()
    async with admin_client(connection) as admin:
        partitions = await partitions_of(admin, [settings.topics.name(Topic.REVIEWS)])
    async with TopicReader.open(connection) as reader:
        for partition in partitions:
            states, later = dict[str, bytes | None](), dict[str, datetime | None]()
            async for records in reader.batches([partition]):
                for record in records:
                    if (id := review_id_of(record.key)) is None:
                        continue
                    if record.timestamp < milliseconds(at):
                        states[id] = record.value
                    elif id not in states and later.get(id) is None:
                        review = review_of_state(record.value) if record.value else None
                        later[id] = review.created if review else None
            yield _Recorded(states, later)


async def _uncomparable(recorded: _Recorded, reviews: ReviewRepository, at: datetime) -> AsyncIterator[str]:
    """The ids of reviews without a state before the moment that may have existed then. What the database knows comes
    first: an imported review was created long before it came."""
    ids = sorted(recorded.later.keys() - recorded.states.keys())
    for part in in_parts(ids, _BATCH):
        holders = await reviews.holders(part)
        for id in part:
            created = (holders[id].created if id in holders else None) or recorded.later[id]
            if created is None or created < at:
                yield id


async def _differences(states: Mapping[str, bytes | None], reviews: ReviewRepository) -> AsyncIterator[Difference]:
    for part in in_parts(sorted(states), _BATCH):
        found = await reviews.of_ids(part)
        for id in part:
            value, review = states[id], found.get(id)
            before = None if value is None else orjson.loads(value)
            # Through JSON, like the state in the topic, so that numbers and nulls compare equal.
            now = None if review is None else orjson.loads(orjson.dumps(review_state(review)))
            if fields := _differing_fields(before, now):
                known: Mapping[str, Any] = now or before or {}
                yield {
                    "id": id,
                    "storeId": known["storeId"],
                    "before": before and before[_STATUS],
                    "now": now and now[_STATUS],
                    "fields": fields,
                }


def _differing_fields(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[str]:
    """The fields that differ; the status alone if the review appeared or vanished. Older states have fewer fields."""
    if before is None or now is None:
        return [] if before is now else [_STATUS]
    names = (name for name in now if name in before and name not in _LEFT_OUT)
    return [name for name in names if before[name] != now[name]]


def _line(difference: Difference) -> str:
    was, now = difference["before"] or "gone", difference["now"] or "gone"
    change = f"{was}, now {now}" if was != now else now
    others = ", ".join(name for name in difference["fields"] if name != _STATUS)
    return f"{shown(difference['id'])}  {change}" + (f"; changed: {others}" if others else "")
