"""`plaudit ratings`: compares ratings with their reviews, and has them recounted."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from consumers.ratings import recount_message
from domain.quantities import quantity
from domain.ratings import RatingTally, rating_number
from messaging.envelope import Envelope
from messaging.kafka.lag import ConsumerLag, Lag
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.processes.waiting import patiently
from plaudit.terminal import Terminal, shown
from plaudit.tools.servers import reached
from plaudit.tools.stores import check_registered
from storage.queries import in_batches
from storage.ratings.repository import RatingRepository

_BATCH: Final = 1_000
_PAUSE_S: Final = 0.2
_MOST_SHOWN: Final = 20


async def verify(settings: Settings, out: Terminal, progress: Terminal) -> int:
    """Compare all tallies with a count of their reviews, consistent for each object; returns the number that differ."""
    async with reached(settings) as (database, _):
        differences = 0
        rows: list[dict[str, object]] = []
        with progress.status("Counting reviews"):
            async for key, stored, counted in RatingRepository(database).differences():
                differences += 1
                if differences <= _MOST_SHOWN:
                    (type, id), store = key
                    of_key = {"entityType": type, "entityId": id, "storeId": store}
                    rows.append({**of_key, "stored": _counts(stored), "counted": _counts(counted)})
                    where = f"{shown(type)} {shown(id)}, store {'none' if store is None else shown(store)}"
                    out.print(f"{where}: stored {_tally(stored)}; counted {_tally(counted)}")
    out.set_result({"differences": differences, "ratings": rows})
    if differences:
        out.print(f"Found {quantity(differences, 'wrong rating')}. `plaudit ratings rebuild` recounts all ratings.")
    else:
        out.print("Every rating matches a count of its reviews.")
    return differences


def _counts(tally: RatingTally) -> dict[str, object]:
    return {"reviewCount": tally.count, "sum": float(rating_number(tally.sum)), "histogram": tally.histogram}


def _tally(tally: RatingTally) -> str:
    stars = "not known" if tally.histogram is None else " ".join(map(str, tally.histogram))
    return f"{quantity(tally.count, 'review')}, sum {rating_number(tally.sum):.2f}, 1 to 5 stars: {stars}"


async def rebuild(settings: Settings, out: Terminal, progress: Terminal, store_id: str | None) -> None:
    """Order a recount of every object, or of those reviewed in a store; workers do it in the order of the topic.

    Moderation waits behind recounts, so a batch is ordered only once no more than a batch is unread; without a worker
    this waits for one. Raises CommandError: the store is unknown. Raises what `reached` does.
    """
    envelope, topics, connection = Envelope("/plaudit/cli"), settings.topics, settings.kafka_connection()
    ordered = 0
    async with (
        reached(settings, Topic.REVIEW_CHANGES) as (database, publisher),
        ConsumerLag(connection, topics) as lag,
    ):
        await check_registered(database, store_id)
        with progress.status("Ordering recounts") as status:
            async for entities in in_batches(RatingRepository(database).entities(store_id), _BATCH):
                if ordered and connection.idempotence:  # else the broker doesn't report the lag
                    await await_small_backlog(partial(patiently, "Kafka", partial(lag.measure, Topic.REVIEW_CHANGES)))
                await publisher.publish([recount_message(topics, envelope, each) for each in entities])
                ordered += len(entities)
                status.update(f"Requested {quantity(ordered, 'recount')}")
    out.set_result({"ordered": ordered})
    out.print(f"Requested a recount of {quantity(ordered, 'object')}; workers carry it out.")


async def await_small_backlog(measure: Callable[[], Awaitable[Lag]]) -> None:
    """Wait until at most a batch of changes is unread."""
    found = await measure()
    while sum(each.records for each in found.values()) > _BATCH:
        await asyncio.sleep(_PAUSE_S)
        found = await measure()
