"""Orders and returns."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from tests.chaos.actors import COMPLETE, RETURNS, SHOP_OPENED, Actor, World
from tests.chaos.model import CLOSED_STORE, MAX_MAILS, OPEN_STORE, Json
from tests.chaos.model_returns import NOT_AVAILABLE


class Buyer(Actor):
    """Places orders and returns some of each: those of one order always by HTTP or always by Kafka.

    By HTTP it waits until each command is applied, because the facade decides by stored data.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.orders: list[str] = []
        self.by_http: set[str] = set()
        self.returns: list[str] = []
        self.customer = ""

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        always = [(self.place_order, 3), (self.return_early, 1), (self.rush, 1)]
        more = [(self.create_one, 5), (self.redeliver_some, 1)] if self.orders else []
        changes = [(self.change_one, 5), (self.create_again, 1), (self.delete_one, 1)] if self.returns else []
        return [*always, *more, *changes]

    def events(self, quantities: dict[str, int]) -> list[Json]:
        """The events of a new order: late, duplicated and out of order."""
        rng, id = self.rng, self.new_id("order")
        if not self.customer or rng.random() < 0.4:
            self.customer = self.new_id("customer")
        is_complete, has_address = rng.random() < 0.5, rng.random() < 0.9
        store = rng.choice([None, OPEN_STORE, OPEN_STORE, CLOSED_STORE])
        statuses = ["New", "Processing", COMPLETE if is_complete else "Cancelled"][: rng.randint(2, 3)]
        # A closed store asks nobody for a review.
        if statuses[-1] == COMPLETE and has_address and store != CLOSED_STORE:
            self.world.model.mails[self.customer] = MAX_MAILS
        events = [
            {
                "id": id,
                "number": f"CO-{id}",
                "storeId": store,
                "status": status,
                "customerId": self.customer,
                "customerEmail": f"{self.customer}@example.com" if has_address else None,
                "modifiedDate": (SHOP_OPENED + timedelta(minutes=minute)).isoformat(),
                "items": [
                    {
                        "id": line,
                        "productId": f"{id}-{line}",
                        "name": f"Lens {line} of {id}",
                        "quantity": q,
                        "price": 9.5,
                    }
                    for line, q in quantities.items()
                ],
                "note": f"{self.name} says {minute}",
            }
            for minute, status in enumerate(statuses)
        ]
        events += rng.choices(events, k=rng.randint(0, 2))
        rng.shuffle(events)
        return events

    async def publish_order(self, events: Sequence[Json]) -> str:
        id: str = events[0]["id"]
        for event in events:
            await self.publish("order-events", id, event)
            self.world.model.apply_order_event(event)
            self.acknowledge(f"order {event['status']}", id)
        return id

    async def place_order(self) -> None:
        lines = {f"line{n}": self.rng.randint(1, 6) for n in range(self.rng.randint(1, 3))}
        id = await self.publish_order(self.events(lines))
        self.orders.append(id)
        del self.orders[:-50]
        # By Kafka the next commands may come before the order is known: they are parked, and applied in their order.
        is_by_http = self.rng.random() < 0.3
        if is_by_http or self.world.is_mixed:
            await self.until(lambda: self.world.http.send("GET", f"{RETURNS}/available-quantities/{id}"), 200)
        if is_by_http:
            self.by_http.add(id)

    def requested_lines(self, order: str) -> list[Json]:
        lines = list(self.world.model.orders[order].lines)
        chosen = self.rng.sample(lines, self.rng.randint(1, len(lines)))
        return [{"orderLineItemId": line, "quantity": self.rng.randint(1, 4)} for line in chosen]

    async def return_early(self) -> None:
        """Create returns before their order, which has enough for all of them, with changes behind them.

        More changes follow once the order is published, whether it is stored or not.
        """
        events = self.events({"line0": 6})
        order, early = events[0]["id"], []
        for _ in range(self.rng.randint(1, 3)):
            early.append(await self.create(order, [{"orderLineItemId": "line0", "quantity": self.rng.randint(1, 2)}]))
            while self.rng.random() < 0.6 and not self.world.is_mixed:
                await self.change_early(order, early)
        await self.publish_order(events)
        self.returns += () if self.world.is_mixed else early

    async def change_early(self, order: str, early: list[str]) -> None:
        """Change or delete a return that waits for its order; if none is left, create another."""
        id = self.rng.choice(early)
        if self.rng.random() < 0.2:
            early.remove(id)
            await self.send_return("delete", order, {"id": id})
        else:
            lines = [{"orderLineItemId": "line0", "quantity": self.rng.randint(1, 2)}]
            status, resolution = self.rng.choice(["New", "Approved", "Canceled"]), self.new_id("early")
            possible: list[Json] = [{"status": status}, {"lineItems": lines}, {"resolution": resolution}]
            changes = {"id": id, **self.rng.choice(possible)}
            await self.send_return("update", order, changes)
        if not early:
            early.append(await self.create(order, [{"orderLineItemId": "line0", "quantity": 1}]))

    async def rush(self) -> None:
        """Create more returns at once than the order has pieces: which are granted is open, how many is not."""
        quantity = self.rng.randint(1, 5)
        order = await self.publish_order(self.events({"line0": quantity}))
        await self.until(lambda: self.world.http.send("GET", f"{RETURNS}/available-quantities/{order}"), 200)
        ids = [self.new_id("rush") for _ in range(quantity + self.rng.randint(0, 4))]
        wanted = [{"orderId": order, "lineItems": [{"orderLineItemId": "line0", "quantity": 1}]} for _ in ids]
        by_kafka = [{"action": "create", "return": {"id": id, **w}} for id, w in zip(ids, wanted, strict=True)]
        by_http = [self.world.http.send("POST", RETURNS, w, key=self.new_id("key")) for w in wanted[:2]]
        answers = await asyncio.gather(self.world.upstream.publish("return-commands", order, *by_kafka), *by_http)
        taken = [answer for answer in answers[1:] if answer.status in (200, 202)]
        for answer in taken:
            self.world.model.outcomes.compete(answer.body["commandId"], answer.body["id"], NOT_AVAILABLE)
        ids += [answer.body["id"] for answer in taken]
        self.world.model.rushes[order] = quantity, ids
        self.acknowledge("rush", *ids)

    async def create_one(self) -> None:
        order = self.rng.choice(self.orders)
        self.returns.append(await self.create(order, self.requested_lines(order)))
        del self.returns[:-50]

    async def create(self, order: str, lines: list[Json]) -> str:
        id = self.new_id("return")
        wanted = {"id": id, "orderId": order, "lineItems": lines, "resolution": "Repair"}
        await self.send_return("create", order, wanted)
        return id

    async def create_again(self) -> None:
        """Repeat the request that created a return in any state, or send another one with its id."""
        id = self.rng.choice(self.returns)
        asked = self.world.model.return_requests.get(id)
        if asked is not None:
            # The version before has no other outcome.
            is_same = self.world.is_mixed or self.rng.random() < 0.5
            wanted = asked if is_same else {**asked, "resolution": self.new_id("other")}
            await self.send_return("create", asked["orderId"], wanted)

    async def change_one(self) -> None:
        id = self.rng.choice(self.returns)
        known = self.world.model.returns.get(id)
        # The version before lets canceled returns exceed the ordered quantity.
        if known is not None and not (self.world.is_mixed and known.status == "Canceled"):
            await self.send_return("update", known.order, self.changes(id, known.order))

    async def delete_one(self) -> None:
        id = self.returns.pop(self.rng.randrange(len(self.returns)))
        known = self.world.model.returns.get(id)
        if known is not None:
            await self.send_return("delete", known.order, {"id": id})

    def changes(self, id: str, order: str) -> Json:
        return {"id": id} | self.rng.choice(
            [
                {"status": self.rng.choice(["New", "Approved", "Processing", "Completed", "Canceled"])},
                {"status": "Canceled"},
                {"lineItems": self.requested_lines(order)},
                {"resolution": self.new_id("resolution")},
            ]
        )

    async def send_return(self, action: str, order: str, wanted: Json) -> None:
        """Send a command on a return, after the model has applied it."""
        model, command = self.world.model, self.new_id("command")
        outcome = model.command_return(action, wanted["id"], wanted, command)
        if order not in self.by_http:
            await self.publish("return-commands", order, {"action": action, "return": wanted, "commandId": command})
        else:
            method, key = {"create": "POST", "update": "PUT", "delete": "DELETE"}[action], self.new_id("key")
            path = f"{RETURNS}?ids={wanted['id']}" if action == "delete" else RETURNS
            # Just after a change of the primary, the facade may read stale data.
            expected = (422, 409) if outcome == "refused" else (200,)
            answer = await self.until(lambda: self.world.http.wait_for(method, path, wanted, key=key), *expected)
            model.outcomes.rename(command, answer.command)
            # The version before reports "applied" for an update without a change.
            if outcome != "unchanged":
                self.expect(answer, [wanted["id"]], [outcome])
        self.acknowledge(f"{action} {wanted}: {outcome}", wanted["id"], order)
