"""Reviews and returns without ids: a message is recognised by the id of its CloudEvent."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.chaos.actors import RETURNS, REVIEWS, SHOP_OPENED, Actor, World
from tests.chaos.clients import TIMEOUT_S
from tests.chaos.model import OPEN_STORE, Json

PIECES = 6
"""Quantity of an order."""
KEPT = 40
"""Number of own reviews that are edited."""


class CloudEventSender(Actor):
    """Publishes equal reviews and returns without ids under several CloudEvents ids, and each of these several times.

    Each CloudEvents id is one object, whose id the service chooses; the client looks it up. Edits bring old texts back
    under new CloudEvents ids.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.own_ids: list[str] = []
        self.texts: dict[str, list[Json]] = {}

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        more = [(self.edit, 4)] if self.own_ids else []
        return [(self.submit, 2), (self.return_goods, 1), (self.redeliver_some, 3), *more]

    async def publish_events(self, topic: str, key: str, value: Json) -> int:
        """Publish equal messages under one to three CloudEvents ids, each of them up to three times. Returns the number
        of ids."""
        count = self.rng.randint(1, 3)
        events = [self.new_id("event") for _ in range(count)]
        for event_id in events:
            for _ in range(self.rng.randint(1, 3)):
                await self.publish(topic, key, value, event_id=event_id)
        return count

    async def submit(self) -> None:
        entity, store = self.new_id("unnamed"), self.rng.choice([None, OPEN_STORE])
        review = self.review(EntityId=entity, storeId=store)
        count = await self.publish_events("review-submissions", f"Product:{entity}", review)
        ids = await self.until_found(f"{REVIEWS}/search", {"entityIds": [entity], "entityType": "Product"}, count)
        for id in ids:
            self.world.model.submit(id, review)
            self.own_ids.append(id)
            self.texts[id] = [review]
        self.acknowledge(f"unnamed under {count} CloudEvents ids", *ids)
        del self.own_ids[:-KEPT]

    async def edit(self) -> None:
        """Give a review a new or an old text."""
        id = self.rng.choice(self.own_ids)
        known, texts = self.world.model.reviews[id], self.texts[id]
        about = {"id": id, "EntityId": known.entity, "storeId": known.store}
        if len(texts) > 1 and self.rng.random() < 0.6:
            review = {**self.rng.choice(texts), "id": id}
        else:
            review = self.review(**about, review=self.new_id("text"))
            texts.append(review)
        await self.publish("review-submissions", f"Product:{known.entity}", review, event_id=self.new_id("event"))
        # Nobody moderates it, so that it stays New anyway.
        self.world.model.edit(id, review, is_reset=False)
        self.acknowledge(f"retold as {review['title']}", id)

    async def return_goods(self) -> None:
        order = self.new_id("order")
        at = SHOP_OPENED.isoformat()
        line = {"id": "line0", "productId": f"{order}-product", "quantity": PIECES}
        event = {"id": order, "status": "Processing", "modifiedDate": at, "items": [line], "note": self.name}
        await self.publish("order-events", order, event)
        self.world.model.apply_order_event(event)
        wanted = {"orderId": order, "lineItems": [{"orderLineItemId": "line0", "quantity": 1}]}
        command = {"action": "create", "return": wanted}
        count = await self.publish_events("return-commands", order, command)
        ids = await self.until_found(f"{RETURNS}/search", {"orderId": order}, count)
        for id in ids:
            self.world.model.create_return(id, {"id": id, **wanted})
        self.acknowledge(f"returned under {count} CloudEvents ids", *ids)

    async def until_found(self, path: str, search: Json, count: int) -> list[str]:
        """The ids of the objects that a search finds, once there are this many.

        Of more than that it returns the first ones, and of fewer, after `TIMEOUT_S`, ids that don't exist as well: the
        final comparison finds the difference.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + TIMEOUT_S
        ids: list[str] = []
        while len(ids) < count and loop.time() < end:
            answer = await self.world.http.send("POST", path, {**search, "take": 20})
            ids = [row["id"] for row in answer.body["results"]]
            await asyncio.sleep(0.1)  # until it is asked again
        return (ids + [self.new_id("missing") for _ in range(count)])[:count]
