"""Notification templates are saved and deleted."""

from __future__ import annotations

from datetime import UTC, datetime

from domain.delivery import RecordPosition
from domain.reviews import Outcome
from domain.templates import best, template_id
from messaging.templates.messages import NamedTemplate, NotificationTemplateUpdate
from messaging.templates.rendering import BUILT_IN
from storage.database import Database, Session, in_transaction
from storage.outcomes import Answer, OutcomeRepository
from storage.templates import SavedTemplate, TemplateRepository


class TemplateChanges:
    """Saves and deletes templates.

    A message that a template has taken into account, or that repeats a command, changes nothing; a replay of the
    topic brings no deleted template back.
    """

    def __init__(self, database: Database, templates: TemplateRepository, outcomes: OutcomeRepository) -> None:
        self._database = database
        self._templates = templates
        self._outcomes = outcomes

    async def apply(self, update: NotificationTemplateUpdate, position: RecordPosition) -> None:
        """Apply one message in one transaction."""
        named, command_id = update.notification_template, update.command_id
        place = named.name, named.store_id, named.language_code
        key = (command_id or "", template_id(*place))

        async def work(session: Session) -> None:
            seen = await self._templates.seen(*place, session)
            if seen.covers(position):
                return
            seen = seen.after(position)
            if command_id and key in await self._outcomes.answers([key], session):
                await self._templates.mark(*place, seen, session)
                return
            now, outcome = datetime.now(UTC), Outcome.APPLIED
            if not named.deleted:
                await self._templates.save(await self._merged(named, session), seen, session)
            elif await self._templates.get(*place, session):
                await self._templates.delete(*place, seen, now, session)
            else:
                outcome = Outcome.UNCHANGED
                await self._templates.mark(*place, seen, session)
            if command_id:
                await self._outcomes.remember([Answer(*key, outcome)], now, session)

        await in_transaction(self._database, work)

    async def _merged(self, named: NamedTemplate, session: Session) -> SavedTemplate:
        """What the message leaves out is taken from the template that was in effect there until now."""
        saved = await self._templates.all_of(named.name, session)
        current = best(saved, named.store_id, named.language_code) or BUILT_IN[named.name]
        return SavedTemplate(named.name, named.store_id, named.language_code, named.merged_into(current))
