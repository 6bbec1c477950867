"""What a run would do now, without doing it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from domain.reminders import CompletedOrder, Decided
from domain.stores import ReminderSettings
from scheduler.decisions import Decisions
from storage.database import Database

_BATCH: Final = 200


async def preview(database: Database, settings: ReminderSettings, now: datetime) -> AsyncIterator[Decided]:
    """The decision on every order in the status that reminders are for; those that are due come first.

    Writes and sends nothing. Takes as long as there are orders in the status.
    """
    decisions = Decisions(database)
    sent: dict[str, int] = {}
    batch: list[CompletedOrder] = []
    async for order in decisions.reminders.in_status(settings, await decisions.open_stores(), now):
        batch.append(order)
        if len(batch) == _BATCH:
            for decided in await decisions.on(batch, settings, sent, now):
                yield decided
            batch = []
    for decided in await decisions.on(batch, settings, sent, now):
        yield decided
