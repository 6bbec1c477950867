"""Reviews and the orders that verify them, sent concurrently."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial

from tests.chaos.generator import LATE_S, REVIEWS, SHOP_OPENED, Actor
from tests.chaos.model import OPEN_STORE, Json


class Shopper(Actor):
    """Orders a product, cancels or changes the order, and reviews the product, by both ways, in any order, concurrently
    or not.

    Orders never reach the status that reminders look for, so nobody is sent a reminder.
    """

    def deeds(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        return [(self.shop, 4), *([(self.repeat_some, 1)] if self.told else [])]

    async def shop(self) -> None:
        chance, customer, product = self.chance, self.new_id("customer"), self.new_id("product")
        store = chance.choice([OPEN_STORE, OPEN_STORE, None])
        fields = {"userId": customer, "EntityId": product, "storeId": store}
        reviews = [self.review(id=self.review_id(), **fields) for _ in range(chance.randint(1, 3))]
        events = [event for _ in range(chance.randint(0, 2)) for event in self.events(customer, product, store)]
        told = [partial(self.send_review, review) for review in reviews]
        bought = [partial(self.send_order, event) for event in events]
        at_once = [*told, *bought]
        chance.shuffle(at_once)
        first, later = chance.choice([(at_once, []), (told, bought), (bought, told)])
        await asyncio.gather(*(deed() for deed in first))
        if later:
            await asyncio.sleep(LATE_S)  # normally the first ones are stored by then
            await asyncio.gather(*(deed() for deed in later))

    def events(self, customer: str, product: str, store: str | None) -> list[Json]:
        """The events of an order, out of order and some duplicated."""
        chance, id = self.chance, self.new_id("order")
        order: Json = {
            **{"id": id, "storeId": store, "items": [{"id": "line", "productId": product, "quantity": 1}]},
            **{"status": "New", "customerId": customer},
        }
        changes: list[Json] = [
            {},
            {"items": [{"id": "line", "productId": chance.choice([product, self.new_id("other")]), "quantity": 1}]},
            {"customerId": chance.choice([customer, self.new_id("another")])},
            {"status": chance.choice(["Cancelled", "Processing"])},
            {"status": "Processing"},
        ]
        news = changes[: chance.randint(1, 5)]
        events = []
        for minute, fields in enumerate(news):
            order = {**order, **fields, "modifiedDate": (SHOP_OPENED + timedelta(minutes=minute)).isoformat()}
            events.append({**order, "note": f"{self.name} says {minute}"})
        events += chance.choices(events, k=chance.randint(0, 2))
        chance.shuffle(events)
        return events

    async def send_order(self, event: Json) -> None:
        await self.tell("order-events", event["id"], event)
        self.world.model.tell_order(event)
        self.world.ledger.acknowledge(f"order {event['status']} of {event['customerId']}", event["id"])

    async def send_review(self, review: Json) -> None:
        id = review["id"]
        if self.chance.random() < 0.5:
            await self.tell("review-submissions", id, review)
        else:
            await self.world.http.send("POST", REVIEWS, [review], key=self.new_id("key"))
        self.world.model.submit(id, review)
        self.world.ledger.acknowledge("submitted by a shopper", id)
