"""Decisions on orders, with what the database knows of them."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from datetime import datetime

from domain.reminders import CompletedOrder, Decided, decided_in_turn
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
        """Where reminders can be due: the stores that take reviews, and no store at all."""
        return [None, *await self.stores.taking_reviews()]

    async def on(
        self,
        orders: Sequence[CompletedOrder],
        settings: ReminderSettings,
        sent: MutableMapping[str, int],
        now: datetime,
        session: Session | None = None,
    ) -> list[Decided]:
        """Decide. Customers that `sent` doesn't know yet are looked up, and added to it."""
        unknown = {order.customer.id for order in orders if order.customer.id} - sent.keys()
        sent.update(dict.fromkeys(unknown, 0) | await self.reminders.sent_to(unknown, session))
        stores = await self.stores.of_ids({order.store_id for order in orders if order.store_id})
        reviewed = await self._reviews.reviewed({product for order in orders for product in order.products()})
        return list(decided_in_turn(orders, settings, stores, reviewed, sent, now))
