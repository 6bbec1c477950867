"""A preview of the decisions of a run, which changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from domain.reminders import Decided, Reminder
from domain.stores import ReminderSettings
from scheduler.decisions import Decisions
from storage.database import Database, in_batches

_BATCH: Final = 200


async def preview(database: Database, settings: ReminderSettings, now: datetime) -> AsyncIterator[Decided]:
    """The decision on every order in the status that reminders are for; those that are due come first.

    Writes and sends nothing. Takes as long as there are orders in the status.
    """
    decisions = Decisions(database)
    reminded: Counter[str] = Counter()
    orders = decisions.reminders.in_status(settings, await decisions.open_stores(), now)
    async for batch in in_batches(orders, _BATCH):
        for decided in await decisions.on(batch, settings, now, unwritten=reminded):
            if isinstance(decided.decision, Reminder):
                reminded[decided.decision.customer_id] += 1
            yield decided
