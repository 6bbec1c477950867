"""Consume updates of stores, of the general settings and of notification templates."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from consumers.services import Services
from consumers.templates import apply_template
from domain.commands import Outcome
from domain.stores import GENERAL
from messaging.decoding import Received
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
            if isinstance(update := received.message, NotificationTemplateUpdate):
                apply = partial(apply_template, Received(received.record, update))
            else:
                apply = partial(_merge, Received(received.record, update))
            await self.services.transactions.run(apply)


async def _merge(received: Received[StoreUpdate | GeneralSettingsUpdate], work: UnitOfWork) -> None:
    update = received.message
    stores = work.repositories.stores
    store_id = update.id if isinstance(update, StoreUpdate) else None
    seen = await stores.seen(store_id, work.session)
    if seen.covers(received.position):
        return
    repeated = await work.is_answered(update.command_id, store_id or GENERAL)
    seen = seen.after(received.position)
    merged = await stores.merge(store_id, {} if repeated else update.changes(), seen, work.session)
    if repeated:
        return
    is_registered = merged.is_new and store_id is not None
    is_applied = is_registered or bool(merged.changed)
    outcome = Outcome.APPLIED if is_applied else Outcome.UNCHANGED
    work.answer(update.command_id, store_id or GENERAL, outcome, mark=received.mark)
    if is_applied:
        entry = AuditEntry(
            at=received.at,
            subject=update.user,
            action=AuditAction.REGISTER if is_registered else AuditAction.CHANGE,
            store_id=store_id,
            command_id=update.command_id,
            fields=tuple(merged.changed),
        )
        work.audit([entry])
