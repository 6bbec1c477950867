"""Route moderation commands to the consumer that owns the object of their review."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from consumers.parking import MOST_OVERDUE, Overdue, give_up
from consumers.routing_handover import Handover
from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage, in_parts
from domain.moderation import Moderation
from domain.places import bucket_in, entity_key
from domain.ratings import Entity
from messaging.decoding import Received
from messaging.envelope import of_command
from messaging.metrics import MODERATIONS
from messaging.moderation import (
    ModerationCommand,
    direct_position,
    direct_value,
    forwarded_value,
    moderation_fields,
    moderations_in,
    routed_value,
)
from messaging.topics import Topic
from storage.outcomes import ItemOutcome

_MOST_AT_ONCE: Final = 1_000
"""Maximum number of commands that are expanded and published at a time: each takes several kilobytes."""


@dataclass(frozen=True, slots=True)
class CommandRouter:
    """Forwards moderation commands to `review-changes`, by the place of their review, so that one consumer owns each
    object.

    Delivered and forwarded at least once, in the order of each source partition; a review recognises a repeat by the
    position of its command. A command whose id contains the place is forwarded without a lookup; the owner knows
    whether the review exists. Of the others, a command about an unknown review is parked, and one about a deleted or
    refused review is answered "not-found".
    """

    services: Services
    handover: Handover

    async def __call__(self, batch: Sequence[Received[ModerationCommand]]) -> None:
        """Route a batch: a few records may name a hundred thousand reviews."""
        await self.handover.wait()
        for part in in_parts(batch, _MOST_AT_ONCE, lambda each: len(each.message.ids)):
            await self._route(part)

    async def _route(self, batch: Sequence[Received[ModerationCommand]]) -> None:
        commands = [command for received in batch for command in moderations_in(received)]
        placeless = [command for command in commands if bucket_in(command.review_id) is None]
        entities = await self._load_entities_or_park(placeless)
        await self.release({id: entity for id, entity in entities.items() if entity is not None})
        await self._forward(commands, entities)
        await self._refuse(placeless, entities)

    async def _load_entities_or_park(self, commands: Sequence[Moderation]) -> dict[str, Entity | None]:
        """The objects of the commands' reviews, by review id; None for deleted and refused reviews. Commands about
        unknown reviews are parked."""
        entities = await self.services.reviews.entities({command.review_id for command in commands})
        if unknown := [command for command in commands if command.review_id not in entities]:
            # Parked before the look-up, as in `ReviewCommandConsumer.apply`.
            await self.services.parked_moderation.park(unknown)
            entities |= await self.services.reviews.entities({command.review_id for command in unknown})
        return entities

    async def release(self, entities: Mapping[str, Entity]) -> None:
        """Forward the commands parked for these reviews, which are stored, to their owners. Nobody gives them up from
        here on: a transaction that does so conflicts with their new time, and is repeated with the stored reviews. A
        worker that has seen a review refused, or sees it deleted, still refuses them: whoever answers first is right.
        """
        parking = self.services.parked_moderation
        async for waiting in parking.about(entities.keys()):
            await parking.wait_anew(waiting)
        async for waiting in parking.about(entities.keys()):
            await self._forward(waiting, entities)

    async def give_up_overdue(self, before: datetime) -> int:
        """Give up commands parked before that moment: dead-letter and answer them. Returns the number given up.

        Commands whose review has arrived are forwarded again, and their parking time starts anew: while their owner has
        a backlog, or can't use the review, each is forwarded once per parking time. They are forwarded first: after a
        crash in between, or by a second worker at the same time, they are just forwarded twice. Commands whose review
        is gone are refused.
        """
        services = self.services
        waiting = await services.parked_moderation.overdue(before, MOST_OVERDUE)
        entities = await services.reviews.entities({command.review_id for command in waiting})
        arrived = {id: entity for id, entity in entities.items() if entity is not None}
        to_forward = [command for command in waiting if command.review_id in arrived]
        await self._forward(to_forward, arrived)
        await services.parked_moderation.wait_anew(to_forward)
        await self._refuse(waiting, entities)
        overdue = [command for command in waiting if command.review_id not in entities]
        given_up = await give_up(services, services.parked_moderation, overdue, _overdue, unless_arrived=True)
        _count_not_found(given_up)
        return len(given_up)

    async def _forward(self, commands: Iterable[Moderation], entities: Mapping[str, Entity | None]) -> None:
        """Forward the commands whose place is known: the owner applies them after those that are parked.

        Raises BrokerAwayError while `review-changes` is growing.
        """
        placed = ((command, self._key(command, entities)) for command in commands)
        known = [(command, key) for command, key in placed if key]
        if known:
            await self.services.publisher.partition_counts.check()
        for part in in_parts(known, _MOST_AT_ONCE):
            await self.services.publisher.publish([self._message(command, key) for command, key in part])

    def _key(self, command: Moderation, entities: Mapping[str, Entity | None]) -> str | None:
        """The key of the place of a command's review; None if it is unknown."""
        entity = entities.get(command.review_id)
        if entity is not None:
            return entity_key(entity)
        return command.review_id if bucket_in(command.review_id) is not None else None

    async def _refuse(self, commands: Iterable[Moderation], entities: Mapping[str, Entity | None]) -> None:
        """Answer "not-found" to the commands about deleted and refused reviews, and remove them from the parking."""
        gone = [c for c in commands if c.review_id in entities and entities[c.review_id] is None]
        if not gone:
            return
        answers = [
            ItemOutcome(command.command_id, command.review_id, Outcome.NOT_FOUND, mark=command.mark)
            for command in gone
            if command.command_id
        ]
        await self.services.outcomes.remember(answers, datetime.now(UTC))
        await self.services.parked_moderation.remove(gone)
        _count_not_found(gone)

    def _message(self, command: Moderation, key: str) -> OutgoingMessage:
        value = forwarded_value(command)
        message = self.services.message(Topic.REVIEW_CHANGES, key, "review.moderation", value, cause=command.trace)
        return of_command(message, command.command_id) if command.command_id else message


def _overdue(command: Moderation) -> Overdue:
    direct = direct_position(command.position)
    topic, value_of = (Topic.REVIEW_CHANGES, direct_value) if direct else (Topic.MODERATION_COMMANDS, routed_value)
    value = value_of(moderation_fields(command), command.review_id, command.text_hash)
    return Overdue(topic, direct or command.position, command.review_id, value, command.command_id, command.mark)


def _count_not_found(commands: Iterable[Moderation]) -> None:
    for command in commands:
        MODERATIONS.labels(command.action.value, Outcome.NOT_FOUND.value).inc()
