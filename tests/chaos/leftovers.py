"""Documents that must be gone when all work is done: what a crash between two steps would leave behind."""

from typing import Literal, NamedTuple

from tests.chaos.model import Json, Model
from tests.support.service import Service


class Leftover(NamedTuple):
    """Documents about one object that should be gone; "lost" if they are commands or messages without an effect."""

    kind: Literal["lost", "wrong"]
    id: str
    what: str


async def leftovers(service: Service, model: Model) -> list[Leftover]:
    """Feedback on reviews that aren't stored, commands parked for reviews and orders that are known, and owed
    messages."""
    found, living = list[Leftover](), {id for id, _ in model.living()}
    for collection, field in (("votes", "$_id.reviewId"), ("reports", "$reviewId")):
        counts = await _counts(service, collection, field)
        found += [Leftover("wrong", id, f"{n} {collection}, no review") for id, n in counts.items() if id not in living]
    for collection, field, known in (
        ("parkedCommands", "$reviewId", model.reviews.keys()),
        ("parkedVerdicts", "$reviewId", model.reviews.keys()),
        ("parkedReturns", "$orderId", model.orders.keys()),
    ):
        counts = await _counts(service, collection, field)
        found += [
            Leftover("lost", id, f"{n} still in {collection}, though it is known")
            for id, n in counts.items()
            if id in known
        ]
    owed = await _counts(service, "outbox", "$_id")
    return [*found, *(Leftover("lost", str(id), "messages are in the outbox, not in Kafka") for id in owed)]


async def _counts(service: Service, collection: str, field: str) -> dict[str, int]:
    """The number of documents in a collection by the value of a field."""
    group: list[Json] = [{"$group": {"_id": field, "count": {"$sum": 1}}}]
    async with service.mongo() as database:
        return {each["_id"]: each["count"] async for each in await database[collection].aggregate(group)}
