"""Reviews and the orders that verify them, sent concurrently."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial

from tests.chaos.actors import LATE_S, REVIEWS, SHOP_OPENED, Actor
from tests.chaos.model import OPEN_STORE, Json


class Shopper(Actor):
    """Orders a product, cancels or changes the order, and reviews the product, by both ways, in any order, concurrently
    or not.

    Orders never reach the status that reminders look for, so nobody is sent a reminder.
    """

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        return [(self.shop, 4), *([(self.redeliver_some, 1)] if self.redeliverable else [])]

    async def shop(self) -> None:
        rng, customer, product = self.rng, self.new_id("customer"), self.new_id("product")
        store = rng.choice([OPEN_STORE, OPEN_STORE, None])
        fields = {"userId": customer, "EntityId": product, "storeId": store}
        reviews = [self.review(id=self.review_id(), **fields) for _ in range(rng.randint(1, 3))]
        events = [event for _ in range(rng.randint(0, 2)) for event in self.events(customer, product, store)]
        submissions = [partial(self.send_review, review) for review in reviews]
        orders = [partial(self.send_order, event) for event in events]
        at_once = [*submissions, *orders]
        rng.shuffle(at_once)
        first, later = rng.choice([(at_once, []), (submissions, orders), (orders, submissions)])
        await asyncio.gather(*(send() for send in first))
        if later:
            await asyncio.sleep(LATE_S)  # normally the first ones are stored by then
            await asyncio.gather(*(send() for send in later))

    def events(self, customer: str, product: str, store: str | None) -> list[Json]:
        """The events of an order, out of order and some duplicated."""
        rng, id = self.rng, self.new_id("order")
        order: Json = {
            **{"id": id, "storeId": store, "items": [{"id": "line", "productId": product, "quantity": 1}]},
            **{"status": "New", "customerId": customer},
        }
        changes: list[Json] = [
            {},
            {"items": [{"id": "line", "productId": rng.choice([product, self.new_id("other")]), "quantity": 1}]},
            {"customerId": rng.choice([customer, self.new_id("another")])},
            {"status": rng.choice(["Cancelled", "Processing"])},
            {"status": "Processing"},
        ]
        news = changes[: rng.randint(1, 5)]
        events = []
        for minute, fields in enumerate(news):
            order = {**order, **fields, "modifiedDate": (SHOP_OPENED + timedelta(minutes=minute)).isoformat()}
            events.append({**order, "note": f"{self.name} says {minute}"})
        events += rng.choices(events, k=rng.randint(0, 2))
        rng.shuffle(events)
        return events

    async def send_order(self, event: Json) -> None:
        await self.publish("order-events", event["id"], event)
        self.world.model.apply_order_event(event)
        self.acknowledge(f"order {event['status']} of {event['customerId']}", event["id"])

    async def send_review(self, review: Json) -> None:
        id = review["id"]
        if self.rng.random() < 0.5:
            await self.publish("review-submissions", id, review)
            self.world.model.submit(id, review)
        else:
            answer = await self.world.http.send("POST", REVIEWS, [review], key=self.new_id("key"))
            self.world.model.submit(id, review, answer.command)
        self.acknowledge("submitted by a shopper", id)
