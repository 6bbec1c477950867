"""`plaudit ratings`: compare ratings with their reviews, and have them counted anew."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from consumers.ratings import recount_message
from domain.delivery import OutgoingMessage
from domain.ratings import RatingTally, rating_number
from messaging.envelope import Envelope
from plaudit.cli.terminal import shown
from plaudit.config import Settings
from plaudit.processes.connections import connected
from storage.ratings import RatingRepository

_BATCH: Final = 1_000
_SHOWN: Final = 20


async def verify(settings: Settings, out: Console) -> int:
    """Compare all tallies with a count of their reviews at one moment; returns how many differ."""
    async with connected(settings) as (database, _), database.client.start_session(snapshot=True) as session:
        differences = 0
        with out.status("Counting reviews"):
            async for key, stored, counted in RatingRepository(database).differences(session):
                differences += 1
                if differences <= _SHOWN:
                    out.print(
                        f"{shown(key.entity.type)} {shown(key.entity.id)}, store {_store(key.store_id)}: "
                        f"stored {_tally(stored)}; counted {_tally(counted)}"
                    )
    if differences:
        out.print(f"{differences} ratings differ. `plaudit ratings rebuild` has them counted anew.")
    else:
        out.print("Every rating equals a count of its reviews.")
    return differences


def _tally(tally: RatingTally) -> str:
    stars = "not known" if tally.histogram is None else " ".join(map(str, tally.histogram))
    return f"{tally.count} reviews, sum {rating_number(tally.sum):.2f}, 1 to 5 stars: {stars}"


def _store(id: str | None) -> str:
    return "none" if id is None else shown(id)


async def rebuild(settings: Settings, out: Console, store_id: str | None) -> None:
    """Order a recount of every object, or of those reviewed in a store. The workers do it, in their order."""
    envelope, topics = Envelope("/plaudit/cli"), settings.topics
    ordered = 0
    async with connected(settings) as (database, publisher):
        with out.status("Ordering recounts") as status:
            batch: list[OutgoingMessage] = []
            async for entity in RatingRepository(database).entities(store_id):
                batch.append(recount_message(topics, envelope, entity))
                if len(batch) == _BATCH:
                    await publisher.publish(batch)
                    ordered += len(batch)
                    status.update(f"Ordered {ordered} recounts")
                    batch = []
            await publisher.publish(batch)
    out.print(f"Ordered the recount of {ordered + len(batch)} objects; the workers are at it.")
