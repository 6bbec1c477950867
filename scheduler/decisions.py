"""Decisions on orders, with their stores, reviews and customers from the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from domain.reminders import Decided, ReviewableOrder, SentReminders, decide_in_turn
from domain.stores import ReminderSettings
from storage.database import Database, Session
from storage.reminders import ReminderRepository
from storage.reviews import ReviewRepository
from storage.stores import StoreRepository


class Decisions:
    """Decides on batches of orders, with one query each for their stores, reviews and customers."""

    def __init__(self, database: Database) -> None:
        self.reminders = ReminderRepository(database)
        self.stores = StoreRepository(database)
        self._reviews = ReviewRepository(database)

    async def open_stores(self) -> list[str | None]:
        """The stores for which reminders can be due: those that take reviews, and None for orders without a store."""
        return [None, *await self.stores.taking_reviews()]

    async def on(
        self,
        orders: Sequence[ReviewableOrder],
        settings: ReminderSettings,
        now: datetime,
        *,
        unwritten: Mapping[str, int] = MappingProxyType({}),
        session: Session | None = None,
    ) -> list[Decided]:
        """Decide on orders. `unwritten` are reminders by customer that count though they are not stored."""
        customers = {order.customer.id for order in orders if order.customer.id}
        sent = await self.reminders.sent_to(customers, session)
        for id in customers & unwritten.keys():
            for _ in range(unwritten[id]):
                sent[id] = sent.get(id, SentReminders()).after(now)
        stores = await self.stores.of_ids({order.store_id for order in orders if order.store_id})
        reviewed = await self._reviews.reviewed({product for order in orders for product in order.products()})
        return list(decide_in_turn(orders, settings, stores, reviewed, sent, now))
