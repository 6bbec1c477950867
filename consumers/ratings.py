"""Change and recount ratings, and give rated objects the names by which they are found."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from consumers.services import Services
from domain.commands import CommandMark, Outcome
from domain.delivery import OutgoingMessage
from domain.objects import ObjectKey, object_name
from domain.places import entity_key
from domain.ratings import ChangedTally, Entity, RatingTally, TallyKey
from domain.reviews import Review
from domain.reviews_moderated import ModeratedReview
from messaging.decoding import Received, mark_in
from messaging.envelope import OF_WORKERS, Envelope
from messaging.events import rating_changed
from messaging.reviews import RecountOfEntity, RecountOfStore, ReviewChange
from messaging.topics import Topic, TopicNames
from storage.outcomes import ItemOutcome
from storage.queries import in_batches
from storage.ratings.objects import UnnamedTally
from storage.unit_of_work import UnitOfWork

_FAN_OUT_BATCH: Final = 1_000
_NAMED_AT_ONCE: Final = 200
_MOST_NAMED: Final = 5_000
"""Maximum number of objects named in one run, so that other periodic work gets its turn."""


async def apply_recounts(services: Services, changes: Sequence[Received[ReviewChange]]) -> None:
    """Recount the objects among these changes; for a store, or for all, publish a recount of each object."""
    recounts = [change for _, change in changes if isinstance(change, RecountOfEntity)]
    entities = sorted({Entity(each.entity_type, each.entity_id) for each in recounts})
    for entity in entities:
        await recount(services, entity)
    await services.rated_objects.forget_names(entities)
    for record, change in changes:
        if isinstance(change, RecountOfStore):
            await _fan_out(services, change, mark_in(record.headers))


async def recount(services: Services, entity: Entity) -> None:
    """Recount the ratings of one object from its approved reviews. A repeat changes nothing."""

    async def count(work: UnitOfWork) -> None:
        tallies = await work.repositories.ratings.recount(entity, datetime.now(UTC), work.session)
        work.emit(rating_events(services, tallies))

    await services.transactions.run(count)


async def _fan_out(services: Services, command: RecountOfStore, mark: CommandMark | None) -> None:
    has_any = False
    async for entities in in_batches(services.ratings.entities(command.store_id), _FAN_OUT_BATCH):
        has_any = True
        await services.publisher.publish([recount_message(services.topics, OF_WORKERS, each) for each in entities])
    if command.command_id:
        is_there = has_any or command.store_id is None or await services.stores.get(command.store_id) is not None
        outcome = Outcome.APPLIED if is_there else Outcome.NOT_FOUND
        answer = ItemOutcome(command.command_id, command.store_id or "", outcome, mark=mark)
        await services.outcomes.remember([answer], datetime.now(UTC))


async def change_ratings(
    services: Services,
    work: UnitOfWork,
    changes: Mapping[TallyKey, RatingTally],
    reviews: Iterable[ModeratedReview | Review] = (),
) -> None:
    """Change tallies in the transaction that changes these reviews, and emit the new ratings. The ratings of objects of
    uncertain reviews are counted instead."""
    uncertain = {review.entity for review in reviews if review.is_uncertain}
    tallies = await work.repositories.ratings.add(changes, work.session, uncertain)
    work.emit(rating_events(services, tallies))


def rating_events(services: Services, tallies: Mapping[TallyKey, ChangedTally]) -> list[OutgoingMessage]:
    """The events for changed tallies."""
    return [
        services.event(entity_key(key.entity), "RatingChanged", rating_changed(key, changed))
        for key, changed in tallies.items()
    ]


def recount_message(topics: TopicNames, envelope: Envelope, entity: Entity) -> OutgoingMessage:
    """The message that has the ratings of one object recounted."""
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
