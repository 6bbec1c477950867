"""Save and delete notification templates."""

from dataclasses import fields
from datetime import UTC, datetime

from domain.commands import Outcome
from domain.reviews_refusals import Refusal
from domain.templates import by_preference, template_id
from messaging.decoding import Received
from messaging.templates.messages import NamedTemplate, NotificationTemplateUpdate
from messaging.templates.rendering import BUILT_IN
from storage.audit import AuditAction, AuditEntry
from storage.templates import SavedTemplate
from storage.unit_of_work import UnitOfWork


async def apply_template(received: Received[NotificationTemplateUpdate], work: UnitOfWork) -> None:
    """Save or delete a template, and enter the change into the audit log.

    A message that has been applied to the template, or that repeats a command, changes nothing; a replay of the topic
    doesn't restore a deleted template. A command of the API about a store that isn't registered is refused. Of a record
    from upstream nobody would learn that, also if a replay has given it a command id: its template waits for its store.
    """
    update = received.message
    templates = work.repositories.templates
    named = update.notification_template
    id = template_id(named.name, named.store_id, named.language_code)
    seen = await templates.seen(id, work.session)
    if seen.covers(received.position):
        return
    seen = seen.after(received.position)
    if await work.is_answered(update.command_id, id):
        await templates.mark(id, seen, work.session)
        return
    entry = AuditEntry(
        at=received.at,
        subject=update.user,
        action=AuditAction.CHANGE,
        command_id=update.command_id,
        store_id=named.store_id,
        template=named.name,
        language=named.language_code,
    )
    outcome, refusal = Outcome.APPLIED, None
    if named.deleted and await templates.get(id, work.session):
        await templates.delete(id, named.name, seen, datetime.now(UTC), work.session)
        work.audit([entry._replace(action=AuditAction.DELETE)])
    elif received.mark and not await _is_known(named.store_id, work):
        outcome, refusal = Outcome.REFUSED, Refusal.UNKNOWN_STORE
        await templates.mark(id, seen, work.session)
    elif not named.deleted and (merged := await _merged(named, work)):
        saved, changed = merged
        await templates.save(saved, seen, work.session)
        work.audit([entry._replace(fields=changed)])
    else:
        outcome = Outcome.UNCHANGED
        await templates.mark(id, seen, work.session)
    work.answer(update.command_id, id, outcome, refusal, mark=received.mark)


async def _is_known(store_id: str | None, work: UnitOfWork) -> bool:
    """True for a registered store, and for all stores (None). Stores and their templates are read in one order, so a
    store whose registration was sent first is known."""
    return store_id is None or await work.repositories.stores.is_registered(store_id, work.session)


async def _merged(named: NamedTemplate, work: UnitOfWork) -> tuple[SavedTemplate, tuple[str, ...]] | None:
    """The template, with the parts that the message leaves out taken from the one in effect, and the names of the
    changed parts. None if the same is saved, and undamaged."""
    scope = named.store_id, named.language_code
    saved = await work.repositories.templates.whole(named.name, *scope, work.session)
    found, current = next(by_preference(saved, *scope), (None, BUILT_IN[named.name]))
    merged = named.merged_into(current)
    changed = tuple(part.name for part in fields(merged) if getattr(merged, part.name) != getattr(current, part.name))
    if found == scope and not changed:
        return None
    return SavedTemplate(named.name, *scope, merged), changed
