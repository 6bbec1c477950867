"""Recount ratings from their reviews, and give rated objects the names by which they are found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from consumers.services import ENVELOPE, Services
from domain.commands import CommandMark, Outcome
from domain.delivery import OutgoingMessage
from domain.objects import ObjectKey, object_name
from domain.places import entity_key
from domain.ratings import ChangedTally, Entity, TallyKey
from messaging.decoding import Received, mark_in
from messaging.envelope import Envelope
from messaging.events import rating_changed
from messaging.reviews import RecountOfEntity, RecountOfStore, ReviewChange
from messaging.topics import Topic, TopicNames
from storage.outcomes import ItemOutcome
from storage.queries import in_batches
from storage.ratings_objects import UnnamedTally
from storage.unit_of_work import UnitOfWork

_FAN_OUT_BATCH: Final = 1_000
_NAMED_AT_ONCE: Final = 200
_MOST_NAMED: Final = 5_000
"""Maximum number of objects named in one run, so that other periodic work gets its turn."""


@dataclass(frozen=True, slots=True)
class Recounter:
    """Recomputes tallies from the approved reviews, and has their names looked up again.

    Called at least once; a repeat changes nothing.
    """

    services: Services

    async def recount(self, orders: Iterable[Received[ReviewChange]]) -> None:
        """Recount objects, with one transaction for each; for a store, or for all, publish an order per object."""
        orders = list(orders)
        wanted = [order for _, order in orders if isinstance(order, RecountOfEntity)]
        entities = sorted({Entity(order.entity_type, order.entity_id) for order in wanted})
        for entity in entities:
            await self.count(entity)
        await self.services.rated_objects.forget_names(entities)
        for record, order in orders:
            if isinstance(order, RecountOfStore):
                await self._fan_out(order, mark_in(record.headers))

    async def count(self, entity: Entity) -> None:
        """Recount the ratings of one object."""
        await self.services.transactions.run(partial(self._recount, entity))

    async def _fan_out(self, command: RecountOfStore, mark: CommandMark | None) -> None:
        services = self.services
        has_any = False
        async for entities in in_batches(services.ratings.entities(command.store_id), _FAN_OUT_BATCH):
            has_any = True
            await services.publisher.publish([recount_message(services.topics, ENVELOPE, each) for each in entities])
        if command.command_id:
            is_there = has_any or command.store_id is None or await services.stores.get(command.store_id) is not None
            outcome = Outcome.APPLIED if is_there else Outcome.NOT_FOUND
            answer = ItemOutcome(command.command_id, command.store_id or "", outcome, mark=mark)
            await services.outcomes.remember([answer], datetime.now(UTC))

    async def _recount(self, entity: Entity, work: UnitOfWork) -> None:
        tallies = await work.repositories.ratings.recount(entity, datetime.now(UTC), work.session)
        work.emit(rating_events(self.services, tallies))


def rating_events(services: Services, tallies: Mapping[TallyKey, ChangedTally]) -> list[OutgoingMessage]:
    """The events for changed tallies."""
    return [
        services.event(entity_key(key.entity), "RatingChanged", rating_changed(key, changed))
        for key, changed in tallies.items()
    ]


def recount_message(topics: TopicNames, envelope: Envelope, entity: Entity) -> OutgoingMessage:
    """The order to recount the ratings of one object."""
    change = {"kind": "recount", "entityType": entity.type, "entityId": entity.id}
    return envelope.wrap(topics.name(Topic.REVIEW_CHANGES), entity_key(entity), "rating.recount", change)


async def name_rated_objects(services: Services) -> int:
    """Name rated objects whose names are unknown or have changed, by their facts, else by their newest approved review.
    Returns their number. Several workers may do it: a name that changes meanwhile is looked up again."""
    named = 0
    while named < _MOST_NAMED and (wanted := await services.rated_objects.awaiting_names(_NAMED_AT_ONCE)):
        await services.rated_objects.save_names(await _find_names(services, wanted))
        named += len(wanted)
    return named


async def _find_names(services: Services, wanted: Sequence[UnnamedTally]) -> list[tuple[UnnamedTally, str | None]]:
    keys = {tally: ObjectKey(tally.key.entity, tally.key.store_id) for tally in wanted}
    known = await services.objects.of_keys(keys.values())
    by_facts = {tally: object_name(known, key) for tally, key in keys.items()}
    in_reviews = await services.rated_objects.names_in_reviews([tally for tally, name in by_facts.items() if not name])
    return [(tally, name or in_reviews.get(tally.id)) for tally, name in by_facts.items()]
