"""Moderation takes effect, and the ratings follow: one transaction for both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from bson import ObjectId

from consumers.outbox import EventOutbox
from domain.delivery import OutgoingMessage, RecordPosition
from domain.ratings import Entity, RatingTally, TallyKey
from domain.reviews import Moderated, Moderation, Outcome, moderate
from domain.timestamps import from_milliseconds, timestamp
from messaging.dead_letters import dead_letter_message
from messaging.decoding import RawRecord, decoded
from messaging.envelope import Envelope
from messaging.events import EVENT_OF_ACTION, ReviewModerated, rating_changed
from messaging.metrics import MODERATIONS
from messaging.moderation import ModerationOfReview
from messaging.reviews import REVIEW_CHANGE, RecountOfEntity, RecountOfStore, entity_key
from messaging.topics import Topic, TopicNames
from messaging.tracing import cause_of, is_on, link_to, same_cause, step
from storage.audit import AuditEntry, AuditLog
from storage.database import Database, Session, in_transaction
from storage.outcomes import Answer, OutcomeRepository
from storage.ratings import RatingRepository
from storage.reviews import ReviewRepository
from storage.traces import TraceRepository

_FAN_OUT_BATCH: Final = 1_000


class ReviewChangeConsumer:
    """Applies moderation to reviews, keeps the ratings of their objects in step, and a log of who did what.

    Delivered at least once, effective once: each review knows the records it has taken into account. Statuses,
    tallies, audit entries, answers and owed events of a batch are one transaction, so the list and the rating never
    disagree, and a consumer that was believed dead can't undo what its successor did. The cost follows the number of
    commands, not of reviews.
    """

    def __init__(
        self,
        database: Database,
        reviews: ReviewRepository,
        ratings: RatingRepository,
        outcomes: OutcomeRepository,
        events: EventOutbox,
        topics: TopicNames,
        envelope: Envelope,
        traces: TraceRepository,
    ) -> None:
        self._database = database
        self._reviews = reviews
        self._ratings = ratings
        self._outcomes = outcomes
        self._events = events
        self._topics = topics
        self._envelope = envelope
        self._traces = traces
        self._audit = AuditLog(database)

    async def __call__(self, records: Sequence[RawRecord]) -> None:
        """Apply a batch."""
        good, bad = decoded(records, REVIEW_CHANGE.validate_json)
        await self._events.publisher.publish([dead_letter_message(letter) for letter in bad])
        for record, change in good:
            if isinstance(change, ModerationOfReview):
                same_cause(record, RecordPosition(*change.source))
        changes = [(change, from_milliseconds(record.timestamp)) for record, change in good]
        await self._moderate([c.moderation(at) for c, at in changes if isinstance(c, ModerationOfReview)])
        # A recount comes to the same wherever it stands between the changes of an object.
        entities = {Entity(c.entity_type, c.entity_id) for c, _ in changes if isinstance(c, RecountOfEntity)}
        for entity in sorted(entities):
            await self._recount(entity)
        for change, _ in changes:
            if isinstance(change, RecountOfStore):
                await self._fan_out(change)

    async def _moderate(self, commands: Sequence[Moderation]) -> None:
        if not commands:
            return

        async def work(session: Session) -> tuple[ObjectId | None, list[OutgoingMessage], Moderated]:
            ids = {command.review_id for command in commands}
            reviews = await self._reviews.moderated(ids, session)
            gone = await self._reviews.entities(ids - reviews.keys())
            keys = [command.answer_key for command in commands if command.answer_key]
            answered = await self._outcomes.answers(keys, session)
            moderated = moderate(commands, reviews, answered)
            await self._reviews.save_moderated(moderated.reviews, session)
            now = datetime.now(UTC)
            changes = {key: change for key, change in moderated.tallies.items() if change != RatingTally()}
            tallies = await self._ratings.add(changes, session)
            messages = [*self._review_events(commands, moderated), *self._rating_events(tallies)]
            # Nothing at the id, not even the trace of a deletion: the database is older than the topic, as after a
            # restore, and the review may still come. An answer would make the command that comes with it a repeat.
            known = reviews.keys() | gone.keys()
            answers = [answer for answer in _answers(commands, moderated) if answer.item_id in known]
            await self._outcomes.remember(answers, now, session)
            await self._audit.add(_audit_entries(commands, moderated), now, session)
            return await self._events.outbox.add(messages, now, session), messages, moderated

        # In the trace of the command, and in that of the review, which began when it was submitted.
        kept = await self._traces.of({c.review_id for c in commands}) if is_on() else {}
        with step("rate reviews", [(kept[c.review_id], link_to(c.source)) for c in commands if c.review_id in kept]):
            owed, messages, moderated = await in_transaction(self._database, work)
            await self._events.settle(owed, messages)
        for command, outcome in zip(commands, moderated.outcomes, strict=True):
            MODERATIONS.labels(command.action.value, outcome.value if outcome else "repeated").inc()

    async def _recount(self, entity: Entity) -> None:
        async def work(session: Session) -> tuple[ObjectId | None, list[OutgoingMessage]]:
            now = datetime.now(UTC)
            messages = list(self._rating_events(await self._ratings.recount(entity, now, session)))
            return await self._events.outbox.add(messages, now, session), messages

        await self._events.settle(*await in_transaction(self._database, work))

    async def _fan_out(self, command: RecountOfStore) -> None:
        async for entities in _batches(self._ratings.entities(command.store_id)):
            await self._events.publisher.publish([recount_message(self._topics, self._envelope, e) for e in entities])
        if command.command_id:
            answer = Answer(command.command_id, command.store_id or "", Outcome.APPLIED)
            await self._outcomes.remember([answer], datetime.now(UTC))

    def _review_events(self, commands: Sequence[Moderation], moderated: Moderated) -> list[OutgoingMessage]:
        messages = []
        for command, outcome in zip(commands, moderated.outcomes, strict=True):
            if outcome is not Outcome.APPLIED:
                continue
            review = moderated.reviews[command.review_id]
            event: ReviewModerated = {
                "reviewId": command.review_id,
                "entityType": review.entity.type,
                "entityId": review.entity.id,
                "storeId": review.store_id,
                "moderator": command.moderator,
                "reason": command.reason,
                "at": timestamp(command.at),
            }
            kind, cause = EVENT_OF_ACTION[command.action], cause_of(command.source)
            messages.append(self._event(review.entity, kind, event, cause))
        return messages

    def _rating_events(self, tallies: dict[TallyKey, RatingTally]) -> Iterable[OutgoingMessage]:
        return [self._event(key.entity, "RatingChanged", rating_changed(key, t)) for key, t in tallies.items()]

    def _event(self, entity: Entity, kind: str, data: object, cause: str = "") -> OutgoingMessage:
        return self._envelope.wrap(self._topics.name(Topic.EVENTS), entity_key(entity), kind, data, cause=cause)


def recount_message(topics: TopicNames, envelope: Envelope, entity: Entity) -> OutgoingMessage:
    """The order to count the ratings of one object anew."""
    change = {"kind": "recount", "entityType": entity.type, "entityId": entity.id}
    return envelope.wrap(topics.name(Topic.REVIEW_CHANGES), entity_key(entity), "rating.recount", change)


def _answers(commands: Sequence[Moderation], moderated: Moderated) -> list[Answer]:
    return [
        Answer(command.command_id, command.review_id, outcome)
        for command, outcome in zip(commands, moderated.outcomes, strict=True)
        if command.command_id and outcome
    ]


def _audit_entries(commands: Sequence[Moderation], moderated: Moderated) -> Iterable[AuditEntry]:
    for command, outcome in zip(commands, moderated.outcomes, strict=True):
        if outcome is Outcome.APPLIED:
            review = moderated.reviews[command.review_id]
            yield AuditEntry(
                at=command.at,
                subject=command.moderator,
                action=command.action,
                review_id=command.review_id,
                entity=review.entity,
                store_id=review.store_id,
                reason=command.reason,
                command_id=command.command_id,
            )


async def _batches(entities: AsyncIterator[Entity]) -> AsyncIterator[list[Entity]]:
    batch: list[Entity] = []
    async for entity in entities:
        batch.append(entity)
        if len(batch) == _FAN_OUT_BATCH:
            yield batch
            batch = []
            await asyncio.sleep(0)
    if batch:
        yield batch
