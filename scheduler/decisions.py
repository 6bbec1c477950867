"""Decisions on orders, with their stores, reviews and customers from the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from domain.objects import ObjectPlace, is_closed
from domain.ratings import Entity
from domain.reminders import PRODUCT, Decided, PlacedProduct, ReviewableOrder, SentReminders, decide_in_turn
from domain.stores import ReminderSettings
from storage.database import Database, Session
from storage.objects import ObjectRepository
from storage.reminders import ReminderRepository
from storage.review_tokens import ReviewTokenRepository
from storage.reviews import ReviewRepository
from storage.stores import StoreRepository


class Decisions:
    """Decides on batches of orders, with one query each for their stores, reviews and customers."""

    def __init__(self, database: Database) -> None:
        self.reminders = ReminderRepository(database)
        self.stores = StoreRepository(database)
        self._objects = ObjectRepository(database)
        self._reviews = ReviewRepository(database)
        self._tokens = ReviewTokenRepository(database)

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
        reviewed |= await self._tokens.reviewed({order.id for order in orders})
        products = {product for order in orders for product in order.placed_products()}
        return list(decide_in_turn(orders, settings, stores, reviewed, sent, now, await self._closed(products)))

    async def _closed(self, products: Collection[PlacedProduct]) -> set[PlacedProduct]:
        """Those of these products that take no reviews."""
        places = {each: ObjectPlace(Entity(PRODUCT, each.product_id), each.store_id) for each in products}
        objects = await self._objects.of_places(set(places.values()))
        return {each for each, place in places.items() if is_closed(objects, place)}
