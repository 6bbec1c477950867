"""Route moderation commands to the consumer that owns the object of their review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.moderation import Moderation
from domain.ratings import Entity
from messaging.dead_letters import rebuilt_dead_letter
from messaging.decoding import InvalidMessageError, Received
from messaging.envelope import mark_in, of_command
from messaging.metrics import MODERATIONS
from messaging.moderation import ModerationCommand, moderation_command_value, moderation_of_review_value
from messaging.reviews import entity_key
from messaging.topics import Topic
from messaging.tracing import cause_of
from storage.outcomes import Answer


@dataclass(frozen=True, slots=True)
class CommandRouter:
    """Passes moderation commands on to `review-changes`, keyed by object, so that one consumer owns each object.

    Delivered at least once, passed on at least once, in the order of each source partition; a review knows a repeat
    by the position of its command. A command about a review that is unknown is parked, one about a review that is
    gone is answered "not-found".
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ModerationCommand]]) -> None:
        """Route a batch."""
        commands = [
            command
            for each in batch
            for command in each.message.moderations(
                each.position, cause_of(each.position), mark_in(each.record.headers)
            )
        ]
        reviews = self.services.reviews
        places = await reviews.entities({command.review_id for command in commands})
        unknown = [command for command in commands if command.review_id not in places]
        if unknown:
            # Parked first, looked up then: the consumer of submissions does it the other way round, so one of the two
            # sees the other.
            await self.services.parking.park(unknown, datetime.now(UTC))
            places |= await reviews.entities({command.review_id for command in unknown})
        known = {id: entity for id, entity in places.items() if entity is not None}
        await self._route((c for c in commands if c.review_id in known), known)
        await self._give_up([c for c in commands if c.review_id in places and c.review_id not in known])

    async def release(self, entities: Mapping[str, Entity]) -> None:
        """Pass on the parked commands about these reviews, which are stored by now."""
        await self._route((), entities)

    async def report_overdue(self, before: datetime) -> int:
        """Give up commands parked before that moment: dead-letter and answer them. Returns how many there were."""
        overdue = await self.services.parking.parked_before(before, limit=500)
        await self.services.publisher.publish([self._overdue_message(command) for command in overdue])
        await self._give_up(overdue)
        return len(overdue)

    async def _route(self, commands: Iterable[Moderation], entities: Mapping[str, Entity]) -> None:
        """Pass commands on, each behind those that were parked about its review before it came."""
        services = self.services
        parked = await services.parking.about(entities.keys())
        known = {(command.source, command.review_id) for command in parked}
        fresh = [command for command in commands if (command.source, command.review_id) not in known]
        messages = [self._message(command, entities[command.review_id]) for command in [*parked, *fresh]]
        await services.publisher.publish(messages)
        if parked:
            await services.parking.release(parked)

    async def _give_up(self, commands: Sequence[Moderation]) -> None:
        """Answer that there is no such review."""
        if not commands:
            return
        answers = [
            Answer(command.command_id, command.review_id, Outcome.NOT_FOUND, mark=command.mark)
            for command in commands
            if command.command_id
        ]
        await self.services.outcomes.remember(answers, datetime.now(UTC))
        await self.services.parking.release(commands)
        for command in commands:
            MODERATIONS.labels(command.action.value, Outcome.NOT_FOUND.value).inc()

    def _message(self, command: Moderation, entity: Entity) -> OutgoingMessage:
        value = moderation_of_review_value(command)
        message = self.services.message(
            Topic.REVIEW_CHANGES, entity_key(entity), "review.moderation", value, cause=command.trace
        )
        return of_command(message, command.command_id) if command.command_id else message

    def _overdue_message(self, command: Moderation) -> OutgoingMessage:
        return rebuilt_dead_letter(
            self.services.topics.name(Topic.MODERATION_COMMANDS),
            command.source,
            key=command.review_id,
            value=moderation_command_value(command),
            error=InvalidMessageError("review-not-found", "No review with this id was submitted within the hour"),
        )
