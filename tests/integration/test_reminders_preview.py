"""The preview of reminders over HTTP, by the clock of the machine."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from api.app import create_app
from domain.orders import after_event
from messaging.cron import next_times
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.orders import order_event as order_event_in
from storage.database import in_transaction
from storage.orders.repository import OrderRepository
from tests.support.app import NOWHERE, client_of, facade_services
from tests.support.facade import Facade, body_of, new_id, submission
from tests.support.orders import order_event
from tests.support.reminders import DAY, Shop, connected_job, order_with_products
from tests.support.service import Json, Service
from tests.support.waiting import eventually

CRON = "0 9 * * 1-5"
END_OF_TIME = "9999-12-31T23:59:59Z"
"""Written by systems for "no end": the latest time of .NET. Earlier versions stored it."""


@pytest.mark.long
async def test_preview_shows_due_orders_and_reasons_for_others(own_service: Service, own_facade: Facade) -> None:
    store, other, now = new_id("store"), new_id("store"), datetime.now(UTC)
    everyone = {"reviewsEnabled": True, "purchaseRequired": False}
    for id in (store, other):
        await own_facade.command("PUT", f"/api/stores/{id}", {"name": f"Shop {id}", "settings": everyone})
    await own_facade.command("PUT", "/api/settings", {"reminder": {"cron": CRON, "daysInStatus": 10}})

    def order(customer: str, days: float, shop: str = store, **fields: Any) -> Json:
        return order_with_products("Complete", customer, shop, now - timedelta(days=days), "camera", **fields)

    due, young = order("anna", 11), order("bert", 3)
    silent, elsewhere = order("cleo", 12, customerEmail=None), order("dora", 13, other)
    far = order("emil", 0, modifiedDate=END_OF_TIME)
    orders = [due, young, silent, elsewhere, far]
    await own_service.publish("order-events", *map(order_event, orders[:-1]))
    event, digest = order_event_in(order_event(far).value or b"")
    async with connected_job(own_service) as (database, _):
        await in_transaction(
            database, partial(OrderRepository(database).save, [after_event(None, event.order(b"{}", now), digest)])
        )

    async def seen(**query: str) -> dict[str, str]:
        rows = (await own_facade.get("/api/reminders/preview", **query))["results"]
        return {row["orderId"]: row["decision"] for row in rows}

    await eventually(seen, lambda found: len(found) == len(orders))
    expected = {due["id"]: "remind", young["id"]: "not-yet", silent["id"]: "no-address", far["id"]: "not-yet"}
    assert await seen(storeId=store) == expected
    assert await seen() == {**expected, elsewhere["id"]: "remind"}
    assert await seen(orderId=silent["id"]) == {silent["id"]: "no-address"}
    assert await seen(orderId=due["id"], storeId=other) == {}
    assert await seen(take="1", storeId=store) != expected
    preview = await own_facade.get("/api/reminders/preview", storeId=store)
    assert preview["enabled"] is False
    assert (preview["cron"], preview["cronInWords"]) == (CRON, "At 09:00 on Monday through Friday")
    runs = [datetime.fromisoformat(run) for run in preview["nextRuns"]]
    assert runs == next_times(CRON, datetime.fromisoformat(preview["at"]), 5)
    first, *_ = preview["results"]
    assert (first["orderId"], first["remindersSent"], first["products"]) == (due["id"], 0, ["Camera"])
    assert (first["storeId"], first["storeName"]) == (store, f"Shop {store}")
    dates = {row["orderId"]: row["dueDate"] for row in preview["results"] if row["decision"] == "not-yet"}
    assert dates.pop(far["id"]) is None, "expected no date beyond the end of time"
    left = datetime.fromisoformat(dates.pop(young["id"])) - now
    assert timedelta(days=6.9) < left < timedelta(days=7.1)


@pytest.mark.long
async def test_preview_shows_orders_that_runs_no_longer_consider(own_service: Service, own_facade: Facade) -> None:
    now = datetime.now(UTC)
    async with connected_job(own_service) as (database, job):
        shop = Shop(own_service, database, job)
        await shop.open()
        (review,) = await own_facade.submit(submission("camera", storeId=shop.id, userId="anna"))
        order = await shop.bought("anna", "camera", at=now - 11 * DAY)

        async def decision() -> Any:
            (row,) = (await own_facade.get("/api/reminders/preview", orderId=order))["results"]
            return row["decision"]

        assert await decision() == "everything-reviewed"
        assert (await job.run(now)).reminders == 0
        await own_facade.moderate("delete", review)
        assert (await job.run(now + DAY)).orders == 0
        assert await decision() == "over"
        await shop.orders({**shop.order("anna", at=now - 11 * DAY), "id": order, "note": "News"})
        assert await decision() == "remind"


async def test_preview_names_missing_sender(shop: Shop) -> None:
    order = await shop.bought("kim", at=datetime.now(UTC) - 11 * DAY)

    async def decisions(**options: Any) -> list[str]:
        services = facade_services(shop.database, Publisher(KafkaConnection(NOWHERE)), **options)
        async with client_of(create_app(services)) as http:
            found = body_of(await http.get("/api/reminders/preview", params={"orderId": order}), dict)
        return [row["decision"] for row in found["results"]]

    assert await decisions() == ["remind"]
    assert await decisions(reminders_need_email=True) == ["no-sender"]
