"""Consume updates of stores, of the general settings and of notification templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from consumers.services import Services
from consumers.templates import apply_template
from domain.delivery import RecordPosition
from domain.reviews import Outcome
from messaging.dead_letters import dead_letter_message
from messaging.decoding import RawRecord, decoded, position_of
from messaging.stores import STORE_UPDATE, GeneralSettingsUpdate, StoreUpdate
from messaging.templates.messages import NotificationTemplateUpdate
from messaging.templates.rendering import worked
from storage.unit_of_work import UnitOfWork

GENERAL: Final = "general"


@dataclass(frozen=True, slots=True)
class StoreConsumer:
    """Merges updates into stores, the general settings and notification templates.

    Delivered at least once, in the order of each store; an update that a store has taken into account, or that
    repeats a command, changes nothing.
    """

    services: Services

    async def __call__(self, records: Sequence[RawRecord]) -> None:
        """Merge a batch, one transaction for each update: they are few."""
        good, bad = await worked(decoded, records, STORE_UPDATE.validate_json)
        await self.services.publisher.publish([dead_letter_message(letter) for letter in bad])
        for record, update in good:
            position = position_of(record)
            if isinstance(update, NotificationTemplateUpdate):
                await self.services.transactions.run(partial(apply_template, update, position))
            else:
                await self.services.transactions.run(partial(_merge, update, position))


async def _merge(update: StoreUpdate | GeneralSettingsUpdate, position: RecordPosition, work: UnitOfWork) -> None:
    stores, store_id = work.repositories.stores, update.id if isinstance(update, StoreUpdate) else None
    seen = await stores.seen(store_id, work.session)
    if seen.covers(position):
        return
    repeated = await work.is_answered(update.command_id, store_id or GENERAL)
    await stores.merge(store_id, {} if repeated else update.changes(), seen.after(position), work.session)
    if not repeated:
        work.answer(update.command_id, store_id or GENERAL, Outcome.APPLIED)
