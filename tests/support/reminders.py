"""A shop whose customers are reminded, with its own clock."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from domain.templates import template_id
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.topics import TopicNames
from scheduler.reminders import ReminderJob, RunReport
from storage.database import Database, connect

from .facade import EVERYONE, new_id
from .messages import message
from .orders import an_order, order_event
from .service import Json, Service
from .waiting import eventually

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SENDER = "no-reply@shop.example"


def order_with_products(
    status: str, customer: str, store: str | None, at: datetime, *products: str, **fields: Any
) -> Json:
    """An order event with one piece of each product and the customer's address."""
    lines = [
        {"id": str(number), "productId": product, "name": product.title(), "quantity": 1, "price": 1}
        for number, product in enumerate(products)
    ]
    person = {"customerId": customer, "customerName": customer.title(), "customerEmail": f"{customer}@example.com"}
    order = {"number": "CO1", "status": status, "storeId": store, "modifiedDate": at.isoformat(), "items": lines}
    return an_order(new_id("order"), {}, **{**person, **order, **fields})


@dataclass
class Shop:
    """Orders in a status of their own, so that shops in one database don't affect each other."""

    service: Service
    database: Database
    job: ReminderJob
    id: str = field(default_factory=lambda: new_id("shop"))
    status: str = field(default_factory=lambda: f"Complete-{uuid4().hex[:8]}")

    async def open(self, **settings: Any) -> None:
        """Enable reminders for this shop with these settings."""
        limits = {"daysInStatus": 10, "maxEmailsPerCustomer": 2}
        reminder = {"enabled": True, "cron": "0 0 1 1 *", "orderStatus": self.status.upper(), **limits, **settings}
        await self.send("store-updates", self.id, {"id": self.id, "settings": EVERYONE})
        await self.send("store-updates", "general", {"generalSettings": {"reminder": reminder}})

        async def applied() -> bool:
            stored = await self.database["settings"].find_one({"_id": "general"}) or {}
            store = await self.database["stores"].find_one({"_id": self.id})
            return store is not None and reminder.items() <= stored.get("reminder", {}).items()

        await eventually(applied)

    async def send(self, topic: str, key: str, *values: Json) -> None:
        await self.service.publish(topic, *(message(value, key) for value in values))

    async def orders(self, *orders: Json) -> list[str]:
        """Publish orders. They are stored in this state when this returns their ids."""
        await self.service.publish("order-events", *map(order_event, orders))

        async def known() -> bool:
            states = [{"_id": o["id"], "status": o["status"], "body": json.dumps(o).encode()} for o in orders]
            return await self.database["orders"].count_documents({"$or": states}) == len(orders)

        await eventually(known)
        return [order["id"] for order in orders]

    def order(self, customer: str, *products: str, at: datetime = NOON, **fields: Any) -> Json:
        """An event of an order, by default of a camera, in the status that reminders look for."""
        products = products or ("camera",)
        return order_with_products(self.status.lower(), customer, self.id, at, *products, **fields)

    async def templates(self, *templates: Json) -> None:
        """Store mail templates; missing texts are "x"."""
        written = {"name": "OrderReviewRequest", "text": "x", "html": "x"}
        for each in templates:
            id = template_id(written["name"], each["storeId"], each["languageCode"])
            await self.database["notificationTemplates"].insert_one({"_id": id, **written, **each})

    async def bought(self, customer: str, *products: str, at: datetime = NOON, **fields: Any) -> str:
        """An order that is complete since `at`. Returns its id."""
        (id,) = await self.orders(self.order(customer, *products, at=at, **fields))
        return id

    async def reviewed(self, customer: str, product: str, kind: str = "Product") -> None:
        """Publish a review. It is stored when this returns."""
        review = {"storeId": self.id, "userId": customer, "EntityId": product, "EntityType": kind}
        await self.send("review-submissions", f"{kind}:{product}", {**review, "review": "Good", "rating": 5})

        async def stored() -> bool:
            found = {"userId": customer, "entityId": product, "storeId": self.id}
            return await self.database["reviews"].find_one(found) is not None

        await eventually(stored)

    async def run(self, days: float, times: int = 1) -> int:
        """Run the job `times` times, `days` after noon. Returns the number of reminders sent."""
        reports = [await self.job.run(NOON + days * DAY) for _ in range(times)]
        return sum(report.reminders for report in reports)

    async def report(self, days: float) -> RunReport:
        """Run the job once. Returns its report."""
        return await self.job.run(NOON + days * DAY)

    async def mails(self, *orders: str) -> list[Json]:
        """The published mail commands about these orders, including repeats."""
        return [mail for mail in await self.service.values("mail-commands") if mail["orderId"] in orders]


def connection(service: Service) -> KafkaConnection:
    """The connection settings of its Kafka."""
    return KafkaConnection(service.servers.kafka, idempotence=not service.servers.is_tansu)


@asynccontextmanager
async def connected_job(
    service: Service, token_keys: Sequence[bytes] = ()
) -> AsyncIterator[tuple[Database, ReminderJob]]:
    """The job on the topics and database of a service, with these review token keys."""
    client, database = connect(service.servers.mongo, service.database)
    publisher = Publisher(connection(service))
    try:
        topics = TopicNames(service.prefix)
        yield database, ReminderJob(database, publisher, topics, sender=SENDER, token_keys=token_keys)
    finally:
        await publisher.stop()
        await client.close()


def named(mails: Sequence[Json]) -> list[list[str]]:
    """The products in each mail."""
    return [[item["productId"] for item in mail["items"]] for mail in mails]
