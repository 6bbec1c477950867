"""Stores, settings and notification templates change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from consumers.templates import TemplateChanges
from domain.delivery import RecordPosition
from domain.reviews import Outcome
from messaging.dead_letters import dead_letter_message
from messaging.decoding import RawRecord, decoded, position_of
from messaging.kafka.publisher import Publisher
from messaging.stores import STORE_UPDATE, GeneralSettingsUpdate, StoreUpdate
from messaging.templates.messages import NotificationTemplateUpdate
from messaging.templates.rendering import worked
from storage.database import Database, Session, in_transaction
from storage.outcomes import Answer, OutcomeRepository
from storage.stores import StoreRepository
from storage.templates import TemplateRepository

GENERAL = "general"


class StoreConsumer:
    """Merges updates into stores, the general settings and notification templates.

    Delivered at least once, in the order of each store; an update that a store has taken into account, or that
    repeats a command, changes nothing.
    """

    def __init__(
        self, database: Database, stores: StoreRepository, outcomes: OutcomeRepository, publisher: Publisher
    ) -> None:
        self._database = database
        self._stores = stores
        self._outcomes = outcomes
        self._publisher = publisher
        self._templates = TemplateChanges(database, TemplateRepository(database), outcomes)

    async def __call__(self, records: Sequence[RawRecord]) -> None:
        """Merge a batch, one transaction for each update: they are few."""
        good, bad = await worked(decoded, records, STORE_UPDATE.validate_json)
        await self._publisher.publish([dead_letter_message(letter) for letter in bad])
        for record, update in good:
            if isinstance(update, NotificationTemplateUpdate):
                await self._templates.apply(update, position_of(record))
            else:
                await self._merge(update, position_of(record))

    async def _merge(self, update: StoreUpdate | GeneralSettingsUpdate, position: RecordPosition) -> None:
        store_id = update.id if isinstance(update, StoreUpdate) else None
        key = (update.command_id or "", store_id or GENERAL)

        async def work(session: Session) -> None:
            seen = await self._stores.seen(store_id, session)
            if seen.covers(position):
                return
            repeated = bool(update.command_id) and key in await self._outcomes.answers([key], session)
            changes = {} if repeated else update.changes()
            await self._stores.merge(store_id, changes, seen.after(position), session)
            if update.command_id and not repeated:
                await self._outcomes.remember([Answer(*key, Outcome.APPLIED)], datetime.now(UTC), session)

        await in_transaction(self._database, work)
