"""Reminder decisions on orders with their stores, reviews and customers from the database, and a preview of a run."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from domain.objects import ObjectKey, is_closed
from domain.ratings import Entity
from domain.reminders import (
    PRODUCT,
    Decided,
    ProductInStore,
    Reminder,
    ReminderRun,
    ReviewableOrder,
    ReviewedProduct,
    SentReminders,
    decide_in_turn,
)
from domain.stores import ReminderSettings, Store
from storage.database import Database, Session
from storage.objects import ObjectRepository
from storage.reminders.repository import MOST_LINES, ReminderRepository
from storage.review_tokens import ReviewTokenRepository
from storage.reviews.repository import ReviewRepository
from storage.shapes import StoredDocumentError
from storage.stores import StoreRepository

_BATCH: Final = 200


class DecidedOrders(NamedTuple):
    """The decisions on orders; the others wait: a document that they need is damaged."""

    decided: list[Decided]
    damaged: dict[str, StoredDocumentError]
    """The errors of the damaged documents, by order id."""


class LookedUp(NamedTuple):
    """The data that decisions on some orders depend on, besides the orders and the reminders to their customers."""

    stores: dict[str, Store]
    reviewed: set[ReviewedProduct]
    closed: set[ProductInStore]
    damaged: dict[str, StoredDocumentError]
    """The errors of damaged stores, objects and used review tokens, by the id of an order that needs them."""


class ReminderDecisions:
    """Decides on batches of orders, with one query each for their stores, reviews and customers."""

    def __init__(self, database: Database, *, needs_email: bool = False) -> None:
        """`needs_email`: mails have no other sender than the address of their store."""
        self._needs_email = needs_email
        self.reminders = ReminderRepository(database)
        self.stores = StoreRepository(database)
        self._objects = ObjectRepository(database)
        self._reviews = ReviewRepository(database)
        self._tokens = ReviewTokenRepository(database)

    async def open_stores(self) -> list[str | None]:
        """The stores for which reminders can be due: those that take reviews, and None for orders without a store; only
        those whose mails have a sender."""
        if self._needs_email:
            return [*await self.stores.taking_reviews(with_email=True)]
        return [None, *await self.stores.taking_reviews()]

    async def look_up(self, orders: Sequence[ReviewableOrder]) -> LookedUp:
        """Look up what `on` needs for these orders. Takes time in proportion to the reviews of their customers."""
        try:
            return await self._look_up(orders)
        except StoredDocumentError as error:
            if len(orders) == 1:
                return LookedUp({}, set(), set(), {orders[0].id: error})
        # By halves, until each order that needs the damaged document is alone.
        middle = len(orders) // 2
        first, second = [await self.look_up(half) for half in (orders[:middle], orders[middle:])]
        return LookedUp(
            first.stores | second.stores,
            first.reviewed | second.reviewed,
            first.closed | second.closed,
            first.damaged | second.damaged,
        )

    async def _look_up(self, orders: Sequence[ReviewableOrder]) -> LookedUp:
        """Raises StoredDocumentError if a document that one of the orders needs is damaged."""
        stores = await self.stores.of_ids({order.store_id for order in orders if order.store_id})
        reviewed = await self._reviews.reviewed({product for order in orders for product in order.products()})
        reviewed |= await self._tokens.reviewed(orders)
        products = {product for order in orders for product in order.products_in_stores()}
        return LookedUp(stores, reviewed, await self._closed(products), {})

    async def on(
        self,
        orders: Sequence[ReviewableOrder],
        settings: ReminderSettings,
        now: datetime,
        *,
        unwritten: Mapping[str, int] = MappingProxyType({}),
        looked_up: LookedUp | None = None,
        session: Session | None = None,
    ) -> DecidedOrders:
        """Decide on orders. `unwritten` has reminders by customer that count although they aren't stored; `looked_up`
        is of at least these orders, None to look it up."""
        customers = {order.customer.id for order in orders if order.customer.id}
        sent, unknown = await self.reminders.sent_to(customers, session)
        looked_up = looked_up or await self.look_up(orders)
        damaged = {order.id: unknown[id] for order in orders if (id := order.customer.id or "") in unknown}
        damaged |= {order.id: looked_up.damaged[order.id] for order in orders if order.id in looked_up.damaged}
        orders = [order for order in orders if order.id not in damaged]
        for id in customers & unwritten.keys():
            for _ in range(unwritten[id]):
                sent[id] = sent.get(id, SentReminders()).after(now)
        stores, reviewed, closed, _ = looked_up
        run = ReminderRun(settings, now, stores, reviewed, closed, self._needs_email)
        return DecidedOrders(list(decide_in_turn(orders, sent, run)), damaged)

    async def on_some(
        self, settings: ReminderSettings, now: datetime, most: int, *, within: Collection[str] | None
    ) -> list[Decided]:
        """Decide on at most `most` due orders, and on as many others in the status, latest first; on fewer if they have
        more than MOST_LINES. Damaged ones are left out.

        `within`: only orders of these stores. Writes nothing.
        """
        stores = [id for id in await self.open_stores() if within is None or id in within]

        async def batches() -> AsyncIterator[Sequence[ReviewableOrder]]:
            for ids in (
                await self.reminders.due(settings, stores, now, most),
                await self.reminders.others(settings, stores, now, most, within=within),
            ):
                yield (await self.reminders.readable(ids)).orders

        return [decided async for decided in self.in_turn(batches(), settings, now)]

    async def in_turn(
        self, batches: AsyncIterator[Sequence[ReviewableOrder]], settings: ReminderSettings, now: datetime
    ) -> AsyncIterator[Decided]:
        """Decide on batches of orders, each as if the reminders of those before had been sent. Writes nothing."""
        reminded: Counter[str] = Counter()
        async for batch in batches:
            for decided in (await self.on(batch, settings, now, unwritten=reminded)).decided:
                if isinstance(decided.decision, Reminder):
                    reminded[decided.decision.customer_id] += 1
                yield decided

    async def _closed(self, products: Collection[ProductInStore]) -> set[ProductInStore]:
        """The products among these that take no reviews."""
        keys = {each: ObjectKey(Entity(PRODUCT, each.product_id), each.store_id) for each in products}
        objects = await self._objects.of_keys(set(keys.values()))
        return {each for each, key in keys.items() if is_closed(objects, key)}


async def preview(
    database: Database, settings: ReminderSettings, now: datetime, *, needs_email: bool = False
) -> AsyncIterator[Decided]:
    """The decision on each order in the status that reminders are for; due ones come first, damaged ones are left out.

    Writes and sends nothing. Takes time in proportion to the number of orders in the status.
    """
    decisions = ReminderDecisions(database, needs_email=needs_email)
    orders = decisions.reminders.in_status(settings, await decisions.open_stores(), now)
    async for decided in decisions.in_turn(_in_batches(orders), settings, now):
        yield decided


async def _in_batches(orders: AsyncIterator[ReviewableOrder]) -> AsyncIterator[Sequence[ReviewableOrder]]:
    """The orders in batches that can be decided on at once."""
    batch, products = list[ReviewableOrder](), 0
    async for order in orders:
        products += len(order.items)
        if batch and (len(batch) == _BATCH or products > MOST_LINES):
            yield batch
            batch, products = [], len(order.items)
        batch.append(order)
    if batch:
        yield batch
