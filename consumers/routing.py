"""Moderation commands are routed to the consumer that owns the object of their review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from domain.delivery import OutgoingMessage
from domain.ratings import Entity
from domain.reviews import Moderation, Outcome
from messaging.dead_letters import dead_letter_message, rebuilt_dead_letter
from messaging.decoding import InvalidMessageError, RawRecord, decoded, position_of
from messaging.envelope import Envelope, of_command
from messaging.kafka.publisher import Publisher
from messaging.metrics import MODERATIONS
from messaging.moderation import MODERATION_COMMAND, moderation_command_value, moderation_of_review_value
from messaging.reviews import entity_key
from messaging.topics import Topic, TopicNames
from messaging.tracing import cause_of, is_on, step
from storage.outcomes import Answer, OutcomeRepository
from storage.parking import ParkingRepository
from storage.reviews import ReviewRepository
from storage.traces import TraceRepository


@dataclass(frozen=True, slots=True)
class CommandRouter:
    """Passes moderation commands on to `review-changes`, keyed by object, so that one consumer owns each object."""

    parking: ParkingRepository
    publisher: Publisher
    topics: TopicNames
    envelope: Envelope
    traces: TraceRepository

    async def release(self, entities: dict[str, Entity]) -> None:
        """Pass on the parked commands about these reviews."""
        await self.route((), entities)

    async def route(self, commands: Iterable[Moderation], entities: dict[str, Entity]) -> None:
        """Pass commands on, each behind what was parked about its review before it came.

        A repeat may pass a command on twice; its review knows it by its position.
        """
        parked = await self.parking.about(entities)
        known = {(command.source, command.review_id) for command in parked}
        fresh = [command for command in commands if (command.source, command.review_id) not in known]
        causes = await self.traces.of([_trace_id(c) for c in parked]) if is_on() else {}
        messages = [self._message(command, entities[command.review_id], causes) for command in [*parked, *fresh]]
        if messages:
            with step("route commands"):
                await self.publisher.publish(messages)
        if parked:
            await self.parking.release(parked)

    def overdue_message(self, command: Moderation) -> OutgoingMessage:
        """The dead letter of a command whose review never came."""
        return rebuilt_dead_letter(
            self.topics.name(Topic.MODERATION_COMMANDS),
            command.source,
            key=command.review_id,
            value=moderation_command_value(command),
            error=InvalidMessageError("review-not-found", "No review with this id was submitted within the hour"),
        )

    def _message(self, command: Moderation, entity: Entity, causes: Mapping[str, str]) -> OutgoingMessage:
        topic = self.topics.name(Topic.REVIEW_CHANGES)
        cause = causes.get(_trace_id(command)) or cause_of(command.source)
        message = self.envelope.wrap(
            topic, entity_key(entity), "review.moderation", moderation_of_review_value(command), cause=cause
        )
        return of_command(message, command.command_id) if command.command_id else message


class ModerationRouter:
    """Routes moderation commands to the owner of each object.

    Delivered at least once, passed on at least once, in the order of each source partition. A command about a
    review that nobody knows yet is parked; one about a review that is gone is answered "not-found".
    """

    def __init__(
        self,
        reviews: ReviewRepository,
        outcomes: OutcomeRepository,
        parking: ParkingRepository,
        router: CommandRouter,
    ) -> None:
        self._reviews = reviews
        self._outcomes = outcomes
        self._parking = parking
        self._router = router

    async def __call__(self, records: Sequence[RawRecord]) -> None:
        """Route a batch."""
        good, bad = decoded(records, MODERATION_COMMAND.validate_json)
        await self._router.publisher.publish([dead_letter_message(letter) for letter in bad])
        commands = [each for record, command in good for each in command.moderations(position_of(record))]
        if not commands:
            return
        places = await self._reviews.entities({command.review_id for command in commands})
        unknown = [command for command in commands if command.review_id not in places]
        if unknown:
            if is_on():
                await self._router.traces.remember(
                    {_trace_id(c): cause_of(c.source) for c in unknown}, datetime.now(UTC)
                )
            await self._parking.park(unknown, datetime.now(UTC))
            places |= await self._reviews.entities({command.review_id for command in unknown})
        known = {id: entity for id, entity in places.items() if entity is not None}
        await self._router.route((c for c in commands if c.review_id in known), known)
        gone = [command for command in commands if command.review_id in places and command.review_id not in known]
        await self.give_up(gone)

    async def give_up(self, commands: Sequence[Moderation]) -> None:
        """Answer that there is no such review."""
        answers = [Answer(c.command_id, c.review_id, Outcome.NOT_FOUND) for c in commands if c.command_id]
        await self._outcomes.remember(answers, datetime.now(UTC))
        if commands:
            await self._parking.release(commands)
        for command in commands:
            MODERATIONS.labels(command.action.value, Outcome.NOT_FOUND.value).inc()

    async def report_overdue(self, before: datetime) -> int:
        """Give up commands parked before that moment: dead-letter and answer them. Returns how many there were."""
        overdue = await self._parking.parked_before(before, limit=500)
        await self._router.publisher.publish([self._router.overdue_message(command) for command in overdue])
        await self.give_up(overdue)
        return len(overdue)


def _trace_id(command: Moderation) -> str:
    """Under what the trace of a parked command is kept."""
    return f"{command.source}/{command.review_id}"
