"""Route moderation commands to the consumer that owns the object of their review."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from consumers.parking import MOST_OVERDUE, Overdue, entities_or_parked, give_up
from consumers.routing_handover import Handover
from consumers.services import Services
from domain.commands import Outcome
from domain.delivery import OutgoingMessage
from domain.moderation import Moderation
from domain.places import bucket_in, entity_key
from domain.ratings import Entity
from messaging.decoding import Received
from messaging.envelope import mark_in, of_command
from messaging.metrics import MODERATIONS
from messaging.moderation import (
    ModerationCommand,
    moderation_command_value,
    moderation_fields,
    moderation_of_review_value,
    straight_position,
    straight_value,
)
from messaging.topics import Topic
from messaging.tracing import cause_of
from storage.outcomes import Answer


@dataclass(frozen=True, slots=True)
class CommandRouter:
    """Passes moderation commands on to `review-changes`, by the place of their review, so that one consumer owns each
    object.

    Delivered at least once, passed on at least once, in the order of each source partition; a review knows a repeat
    by the position of its command. An id that tells its place goes there without a look-up, and the owner knows if
    there is such a review. Of the others, a command about a review that is unknown is parked, one about a review that
    is gone is answered "not-found".
    """

    services: Services
    handover: Handover

    async def __call__(self, batch: Sequence[Received[ModerationCommand]]) -> None:
        """Route a batch."""
        await self.handover.wait()
        commands = [
            command
            for each in batch
            for command in each.message.moderations(
                each.position, cause_of(each.position), mark_in(each.record.headers)
            )
        ]
        placeless = [command for command in commands if bucket_in(command.review_id) is None]
        entities = await entities_or_parked(self.services, self.services.parked_moderation, placeless)
        await self._pass_on([*await self.services.parked_moderation.about(entities.keys()), *commands], entities)
        await self._refuse([c for c in placeless if c.review_id in entities and entities[c.review_id] is None])

    async def release(self, entities: Mapping[str, Entity]) -> None:
        """Tell the owners of these reviews, which are stored by now, of the parked commands about them."""
        await self._pass_on(await self.services.parked_moderation.about(entities.keys()), entities)

    async def report_overdue(self, before: datetime) -> int:
        """Give up commands parked before that moment: dead-letter and answer them. Returns how many there were.

        Those whose review has come are passed on once more, and wait anew: for as long as their owner stands behind a
        backlog, or can't use the review, each is passed on once in a parking time. Passed on first: a worker that dies
        in between, or one of two at a time, does so at once again.
        """
        services = self.services
        waiting = await services.parked_moderation.parked_before(before, MOST_OVERDUE)
        entities = await services.reviews.entities({command.review_id for command in waiting})
        come = {id: entity for id, entity in entities.items() if entity is not None}
        late = [command for command in waiting if command.review_id in come]
        await self._pass_on(late, come)
        await services.parked_moderation.wait_anew(late)
        overdue = [command for command in waiting if command.review_id not in come]
        given_up = await give_up(services, services.parked_moderation, overdue, _overdue)
        _count(given_up)
        return len(given_up)

    async def _pass_on(self, commands: Iterable[Moderation], entities: Mapping[str, Entity | None]) -> None:
        """Pass on the commands whose place is known: the owner takes them behind those that are parked.

        Raises BrokerAwayError while the topic of changes grows.
        """
        messages = []
        for command in commands:
            entity = entities.get(command.review_id)
            if entity is not None:
                messages.append(self._message(command, entity_key(entity)))
            elif bucket_in(command.review_id) is not None:
                messages.append(self._message(command, command.review_id))
        if messages:
            await self.services.publisher.division.check()
        await self.services.publisher.publish(messages)

    async def _refuse(self, commands: Sequence[Moderation]) -> None:
        """Answer that there is no such review."""
        if not commands:
            return
        answers = [
            Answer(command.command_id, command.review_id, Outcome.NOT_FOUND, mark=command.mark)
            for command in commands
            if command.command_id
        ]
        await self.services.outcomes.remember(answers, datetime.now(UTC))
        await self.services.parked_moderation.release(commands)
        _count(commands)

    def _message(self, command: Moderation, key: str) -> OutgoingMessage:
        value = moderation_of_review_value(command)
        message = self.services.message(Topic.REVIEW_CHANGES, key, "review.moderation", value, cause=command.trace)
        return of_command(message, command.command_id) if command.command_id else message


def _overdue(command: Moderation) -> Overdue:
    topic, position, id = Topic.MODERATION_COMMANDS, command.position, command.review_id
    value = moderation_command_value(command)
    if straight := straight_position(position):
        value = straight_value(moderation_fields(command), id, command.text_hash)
        topic, position = Topic.REVIEW_CHANGES, straight
    return Overdue(topic, position, id, value, command.command_id, command.mark)


def _count(commands: Iterable[Moderation]) -> None:
    for command in commands:
        MODERATIONS.labels(command.action.value, Outcome.NOT_FOUND.value).inc()
