"""Consume updates of stores, of the general settings and of notification templates."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from consumers.services import Services
from consumers.templates import apply_template
from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition
from domain.stores import GENERAL
from messaging.decoding import Received
from messaging.envelope import mark_in
from messaging.stores import AnyStoreUpdate, GeneralSettingsUpdate, StoreUpdate
from messaging.templates.messages import NotificationTemplateUpdate
from storage.audit import AuditAction, AuditEntry
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class StoreConsumer:
    """Merges updates into stores, the general settings and notification templates.

    Delivered at least once, in order per store; an update that has been applied to its store, or that repeats a
    command, changes nothing. Changes are entered into the audit log.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[AnyStoreUpdate]]) -> None:
        """Merge a batch, with one transaction for each update: updates are few."""
        for received in batch:
            sent = received.position, received.at, mark_in(received.record.headers)
            if isinstance(update := received.message, NotificationTemplateUpdate):
                await self.services.transactions.run(partial(apply_template, update, *sent))
            else:
                await self.services.transactions.run(partial(_merge, update, *sent))


async def _merge(
    update: StoreUpdate | GeneralSettingsUpdate,
    position: RecordPosition,
    at: datetime,
    mark: CommandMark | None,
    work: UnitOfWork,
) -> None:
    stores = work.repositories.stores
    store_id = update.id if isinstance(update, StoreUpdate) else None
    seen = await stores.seen(store_id, work.session)
    if seen.covers(position):
        return
    repeated = await work.is_answered(update.command_id, store_id or GENERAL)
    merged = await stores.merge(store_id, {} if repeated else update.changes(), seen.after(position), work.session)
    if repeated:
        return
    work.answer(update.command_id, store_id or GENERAL, Outcome.APPLIED, mark=mark)
    is_registered = merged.is_new and store_id is not None
    if is_registered or merged.changed:
        entry = AuditEntry(
            at=at,
            subject=update.user,
            action=AuditAction.REGISTER if is_registered else AuditAction.CHANGE,
            store_id=store_id,
            command_id=update.command_id,
            fields=tuple(merged.changed),
        )
        work.audit([entry])
