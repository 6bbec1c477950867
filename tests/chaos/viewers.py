"""Customers who have seen the request for a review: they get no mail about that order."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from tests.chaos.actors import RETURNS, REVIEWS, SHOP_OPENED, Actor
from tests.chaos.check_mails import COMPLETE
from tests.chaos.model import MAX_MAILS, Json
from tests.chaos.outcomes import APPLIED, NOT_FOUND, UNCHANGED, Outcome

VIEWED = f"{REVIEWS}/viewedRequestReview"


class Viewer(Actor):
    """Sends `viewed` for new orders by both ways, some of it for other customers, and completes the orders afterwards.

    Each customer has one order, so that its mails show whether the command took effect.
    """

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        return [(self.view, 4), *([(self.redeliver_some, 1)] if self.redeliverable else [])]

    async def view(self) -> None:
        customer, id = self.new_id("viewer"), self.new_id("order")
        order: Json = {
            **{"id": id, "number": f"CO-{id}", "storeId": None, "note": self.name},
            **{"customerId": customer, "customerEmail": f"{customer}@example.com"},
            "items": [{"id": "line0", "productId": f"{id}-product", "name": f"Lens of {id}", "quantity": 1}],
        }
        await self.send_order(order, "Processing", minute=0)
        await self.until(lambda: self.world.http.send("GET", f"{RETURNS}/available-quantities/{id}"), 200)
        is_viewed = self.rng.random() < 0.6
        outcomes = [APPLIED, UNCHANGED][: self.rng.randint(1, 2)] if is_viewed else [NOT_FOUND]
        for outcome in outcomes:
            # Only Kafka can name the customer.
            if is_viewed and self.rng.random() < 0.5:
                await self.view_by_http(id, outcome)
            else:
                await self.view_by_kafka(id, customer if is_viewed else self.new_id("stranger"), outcome)
        if not is_viewed:
            self.world.model.mails[customer] = MAX_MAILS
        await self.send_order(order, COMPLETE, minute=1)

    async def view_by_http(self, order: str, outcome: Outcome) -> None:
        body, key = {"customerOrderId": order}, self.new_id("key")
        answer = await self.world.http.wait_for("POST", VIEWED, body, key=key)
        self.world.model.outcomes.expect(answer.command, order, outcome)
        self.acknowledge(f"viewed by HTTP: {outcome.outcome}", order)

    async def view_by_kafka(self, order: str, customer: str, outcome: Outcome) -> None:
        command_id = self.new_id("command")
        command = {"action": "viewed", "customerOrderId": order, "customerId": customer, "commandId": command_id}
        await self.publish("reminder-commands", order, command)
        self.world.model.outcomes.expect(command_id, order, outcome)
        self.acknowledge(f"viewed by Kafka: {outcome.outcome}", order)
        await self.until_answered(command_id, 1)

    async def send_order(self, order: Json, status: str, minute: int) -> None:
        at = (SHOP_OPENED + timedelta(minutes=minute)).isoformat()
        event = {**order, "status": status, "modifiedDate": at}
        await self.publish("order-events", order["id"], event)
        self.world.model.apply_order_event(event)
        self.acknowledge(f"order {status}", order["id"])
