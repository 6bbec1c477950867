"""Damaged orders, and orders that fail by an internal error: they don't block others."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

import scheduler.reminders
from domain.reminders import Reminder
from domain.templates import template_id
from messaging.events import reminder_requested
from storage.mending import Mender
from storage.reminders.decisions import ReminderDecisions
from storage.templates import TemplateRepository, TemplateSearch
from tests.support.facade import new_id
from tests.support.reminders import DAY, NOON, Shop

DAMAGE: Mapping[str, Mapping[str, Any]] = {
    "status null": {"$set": {"status": None}},
    "no status": {"$unset": {"status": ""}},
    "language": {"$set": {"languageCode": 5}},
    "address": {"$set": {"customerEmail": 5}},
    "name": {"$set": {"lines.0.name": 5}},
    "no lines": {"$unset": {"lines": ""}},
    "lines": {"$set": {"lines": "camera"}},
    "time": {"$set": {"statusSince": 2**62}},
    "reminders": {"$set": {"reminder.sent": "x"}},
}


async def test_damaged_orders_wait_without_blocking_others(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler.reminders, "BATCH", 2)
    orders = shop.database["orders"]
    damaged = {}
    for days, (name, change) in enumerate(DAMAGE.items(), start=1):
        damaged[name] = await shop.bought(f"anna-{days}", "camera", at=NOON - days * DAY)
        await orders.update_one({"_id": damaged[name]}, change)
    whole = await shop.bought("bert", "camera")
    decisions, settings = ReminderDecisions(shop.database), (await shop.job._decisions.stores.general()).reminder
    previewed = await decisions.on_some(settings, NOON + 10 * DAY, 100, within=[shop.id])
    assert [(each.order.id, isinstance(each.decision, Reminder)) for each in previewed] == [(whole, True)]
    preview = await shop.service.run("reminders", "preview", "--now", (NOON + 10 * DAY).isoformat())
    assert f"remind  order {whole} (CO1)" in preview.stdout
    assert not [id for id in damaged.values() if id in preview.stdout]
    with capture_logs() as logs:
        report = await shop.report(10)
    assert (report.reminders, dict(report.skipped), report.damaged) == (1, {}, len(damaged))
    assert not report.is_failure
    assert len(await shop.mails(whole)) == 1
    logged = [entry["order"] for entry in logs if entry["event"] == "damaged order; no reminder until it is repaired"]
    assert sorted(logged) == sorted(damaged.values())
    # Once repaired, they are due as before.
    await orders.update_one({"_id": damaged["status null"]}, {"$set": {"status": shop.status}})
    assert await shop.run(10) == 1
    assert len(await shop.mails(damaged["status null"])) == 1


@pytest.mark.parametrize("damage", [{"$unset": {"sent": ""}}, {"$set": {"sent": "x"}}, {"$set": {"times": ["now"]}}])
async def test_damaged_customer_counter_does_not_block_others(shop: Shop, damage: Mapping[str, Any]) -> None:
    customers = shop.database["reminderCustomers"]
    anna, bert = new_id("anna"), new_id("bert")
    first = await shop.bought(anna, "camera", at=NOON - DAY)
    assert await shop.run(10) == 1
    await customers.update_one({"_id": anna}, damage)
    second, whole = [await shop.bought(customer, "lens") for customer in (anna, bert)]
    decisions, settings = ReminderDecisions(shop.database), (await shop.job._decisions.stores.general()).reminder
    previewed = await decisions.on_some(settings, NOON + 10 * DAY, 100, within=[shop.id])
    assert [each.order.id for each in previewed if isinstance(each.decision, Reminder)] == [whole]
    with capture_logs() as logs:
        report = await shop.report(10)
    assert (report.reminders, report.damaged, report.is_failure) == (1, 1, False)
    assert (len(await shop.mails(first)), len(await shop.mails(second)), len(await shop.mails(whole))) == (1, 0, 1)
    event = "damaged customer of an order; no reminder until it is repaired"
    (logged,) = [entry for entry in logs if entry["event"] == event]
    assert (logged["order"], logged["collection"]) == (second, "reminderCustomers")
    await customers.update_one({"_id": anna}, {"$set": {"sent": 1}, "$unset": {"times": ""}})
    assert await shop.run(10) == 1
    assert len(await shop.mails(second)) == 1


async def test_orders_that_need_damaged_documents_wait_without_blocking_others(shop: Shop) -> None:
    store, lens, database = new_id("shop"), new_id("lens"), shop.database
    damaged = {
        "stores": await shop.bought(new_id("anna"), at=NOON - 3 * DAY, storeId=store),
        "objects": await shop.bought(new_id("bert"), lens, at=NOON - 2 * DAY),
        "usedReviewTokens": await shop.bought(new_id("cleo"), at=NOON - DAY),
    }
    whole = [await shop.bought(new_id("dora")) for _ in range(2)]
    documents: dict[str, Any] = {
        "stores": {"_id": store, "settings": {"reviewsEnabled": True}, "languages": 5},
        "objects": {"_id": {"entityType": "Product", "entityId": lens, "storeId": shop.id}, "told": {}},
        "usedReviewTokens": {"_id": {"orderId": damaged["usedReviewTokens"], "lineId": "0"}, "reviewId": "r-1"},
    }
    for collection, document in documents.items():
        await database[collection].insert_one(document)
    decisions, settings = ReminderDecisions(database), (await shop.job._decisions.stores.general()).reminder
    previewed = await decisions.on_some(settings, NOON + 10 * DAY, 100, within=[shop.id, store])
    assert sorted(each.order.id for each in previewed) == sorted(whole)
    with capture_logs() as logs:
        report = await shop.report(10)
    assert (report.reminders, report.damaged, report.failed, report.is_failure) == (2, 3, 0, False)
    logged = {each["collection"]: (each["order"], each["document"]) for each in logs if "no reminder" in each["event"]}
    assert logged == {name: (order, documents[name]["_id"]) for name, order in damaged.items()}
    # Once repaired, they are due as before.
    await database["stores"].update_one({"_id": store}, {"$set": {"languages": []}})
    for name in ("objects", "usedReviewTokens"):
        await database[name].delete_one({"_id": documents[name]["_id"]})
    assert await shop.run(10) == 3
    assert len(await shop.mails(*damaged.values())) == 3


async def test_damaged_template_is_logged_and_can_be_saved_again(shop: Shop) -> None:
    order = await shop.bought(new_id("cleo"), "camera")
    await shop.templates({"storeId": shop.id, "languageCode": None, "subject": "x"})
    repository, id = TemplateRepository(shop.database), template_id("OrderReviewRequest", shop.id, None)
    for damage in ({"$unset": {"html": ""}}, {"$set": {"html": 5}}):
        await shop.database["notificationTemplates"].update_one({"_id": id}, damage)
        with capture_logs() as logs:
            assert (await shop.report(10)).failed == 1
        (logged,) = [entry for entry in logs if entry["event"] == "reminder failed; its order waits for the next run"]
        assert (logged["order"], logged["document"], logged["collection"]) == (order, id, "notificationTemplates")
        assert "html" in logged["reason"]
        (shown,) = [each for each in await repository.page(TemplateSearch()) if each.store_id == shop.id]
        assert (shown.template.subject, shown.template.html) == ("x", "")
        assert await repository.whole("OrderReviewRequest", shop.id, None) == {}
        assert await Mender(shop.database, "notificationTemplates").count(most=10, patience_ms=60_000) == 1
    # Its other lost fields are contained in its id.
    lost = {"$unset": dict.fromkeys(("name", "storeId", "languageCode"), ""), "$set": {"html": "<p>x</p>"}}
    await shop.database["notificationTemplates"].update_one({"_id": id}, lost)
    assert [each.store_id for each in await repository.page(TemplateSearch())] == [shop.id]
    assert await shop.run(10) == 1


async def test_internal_error_does_not_block_others_or_count_as_sent(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, other = [
        await shop.bought(customer, "camera", at=NOON + days * DAY)
        for days, customer in enumerate(("cleo", "cleo", "dora"))
    ]

    def failing(reminder: Reminder, order: Any, now: Any) -> Any:
        if order.id == first:
            raise RuntimeError("a mistake of ours")
        return reminder_requested(reminder, order, now)

    with monkeypatch.context() as patch:
        patch.setattr(scheduler.reminders, "reminder_requested", failing)
        assert await shop.run(12) == 2
    assert {mail["orderId"] for mail in await shop.mails(first, second, other)} == {second, other}
    assert await shop.run(12) == 1
    assert len(await shop.mails(first)) == 1


async def test_run_that_sends_nothing_because_of_errors_fails(shop: Shop) -> None:
    order = await shop.bought("emil", "camera")
    await shop.templates({"storeId": shop.id, "languageCode": None, "subject": "x"})
    template = {"storeId": shop.id}
    await shop.database["notificationTemplates"].update_one(template, {"$unset": {"html": ""}})
    before = await shop.database["leases"].find_one({"_id": "reminders"})
    now = (NOON + 10 * DAY).isoformat()
    run = await shop.service.run("reminders", "run", "--now", now, code=1)
    assert "Sent 0 reminders; skipped 1 failed. The run failed" in run.stderr
    assert await shop.database["leases"].find_one({"_id": "reminders"}) == before
    await shop.database["notificationTemplates"].update_one(template, {"$set": {"html": "x"}})
    run = await shop.service.run("reminders", "run", "--now", now, "--json")
    assert json.loads(run.stdout) == {"enabled": True, "sent": 1, "skipped": {}, "failed": 0, "damaged": 0}
    assert len(await shop.mails(order)) == 1


async def test_run_cut_short_by_damaged_orders_fails(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler.reminders, "BATCH", 1)
    monkeypatch.setattr(scheduler.reminders, "_MOST_UNCHANGED", 1)
    for days in (1, 2):
        damaged = await shop.bought(f"finn-{days}", "camera", at=NOON - days * DAY)
        await shop.database["orders"].update_one({"_id": damaged}, {"$set": {"status": None}})
    whole = await shop.bought("gina", "camera")
    report = await shop.report(10)
    assert (report.reminders, report.damaged, report.is_cut, report.is_failure) == (0, 2, True, True)
    assert await shop.mails(whole) == []


async def test_damaged_template_of_a_store_cuts_no_run_short(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its orders are due."""
    monkeypatch.setattr(scheduler.reminders, "BATCH", 1)
    monkeypatch.setattr(scheduler.reminders, "_MOST_UNCHANGED", 2)
    monkeypatch.setattr(scheduler.reminders, "_MOST_UNWRITTEN", 1)
    stores = [new_id("shop") for _ in range(2)]
    settings = {"settings": {"reviewsEnabled": True}}
    await shop.database["stores"].insert_many([{"_id": store, **settings} for store in stores])
    templates = [{"storeId": store, "languageCode": None, "subject": "x", "html": 5} for store in stores]
    await shop.templates(*templates)
    for number, days in enumerate((1, 2, 3)):
        for store in stores:
            await shop.bought(f"hal-{number}", "camera", at=NOON - days * DAY, storeId=store)
    whole = await shop.bought("gina", "camera")
    with capture_logs() as logs:
        report = await shop.report(10)
    await shop.database["stores"].delete_many({"_id": {"$in": stores}})
    await shop.database["notificationTemplates"].delete_many({"storeId": {"$in": stores}})
    assert (report.reminders, report.failed, report.is_failure) == (1, 4, False)
    assert len(await shop.mails(whole)) == 1
    left = [entry["store"] for entry in logs if entry["event"].startswith("too many reminders of a store failed")]
    assert sorted(left) == sorted(stores)


async def test_orders_of_a_damaged_store_cut_no_run_short(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them are due."""
    monkeypatch.setattr(scheduler.reminders, "BATCH", 1)
    monkeypatch.setattr(scheduler.reminders, "_MOST_UNCHANGED", 1)
    store = {"_id": new_id("shop"), "settings": {"reviewsEnabled": True}, "languages": 5}
    await shop.database["stores"].insert_one(store)
    for days in (1, 2, 3):
        await shop.bought(f"finn-{days}", "camera", at=NOON - days * DAY, storeId=store["_id"])
    whole = await shop.bought("gina", "camera")
    report = await shop.report(10)
    await shop.database["stores"].delete_one({"_id": store["_id"]})
    assert (report.reminders, report.damaged, report.is_failure) == (1, 1, False)
    assert len(await shop.mails(whole)) == 1
