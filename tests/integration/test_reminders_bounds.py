"""Bounds of reminders: old orders get none, and limits apply within their period."""

import json
import os
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

import scheduler.reminders
import storage.reminders.decisions
import storage.reminders.repository
from domain.orders import Order, after_event
from domain.reminders import ReviewableOrder, ReviewedProduct, Skip
from domain.templates import template_id
from messaging.orders import order_event
from storage.database import Session, in_transaction
from storage.orders.repository import OrderRepository
from storage.reminders.decisions import ReminderDecisions, preview
from storage.reminders.repository import ReminderRepository
from storage.reminders.states import INDEX_KEYS
from storage.reviews.repository import ReviewRepository
from storage.stores import StoreRepository
from tests.support.facade import new_id
from tests.support.reminders import DAY, NOON, Shop
from tests.support.waiting import eventually

HISTORY = int(os.environ.get("PLAUDIT_TEST_HISTORY", "5000"))
"""Historic orders; 100,000 to verify the project's promise."""

OLDEST = 1_000
"""Days covered by the history."""


async def history(shop: Shop, until: datetime) -> dict[str, int]:
    """Store completed orders, the same number for each day; returns their ages in days by id."""
    ages: dict[str, int] = {}
    orders: list[Order] = []
    for number in range(HISTORY):
        age = number % OLDEST
        given = shop.order(f"{shop.id}-{number}", at=until - age * DAY)
        ages[given["id"]] = age
        body = json.dumps(given).encode()
        event, digest = order_event(body)
        orders.append(after_event(None, event.order(body, until), digest))
    for start in range(0, HISTORY, 1_000):
        save = partial(OrderRepository(shop.database).save, orders[start : start + 1_000])
        await in_transaction(shop.database, save)
    return ages


async def examined(shop: Shop, now: datetime) -> int:
    """Return the number of index entries and documents examined by a run without due orders."""
    await shop.database.command("profile", 2)
    try:
        assert (await shop.job.run(now)).orders == 0
    finally:
        await shop.database.command("profile", 0)
    looks = shop.database["system.profile"].find({"command.hint": dict(INDEX_KEYS)})
    return sum([each["keysExamined"] + each["docsExamined"] async for each in looks])


@pytest.mark.long
async def test_enabling_reminders_skips_old_orders(shop: Shop) -> None:
    await shop.open(enabled=False)
    now = NOON + 20 * DAY
    ages = await history(shop, now)
    assert await shop.job.run(now)
    await shop.open(maxAgeDays=30)
    report = await shop.job.run(now)
    expected = {id for id, age in ages.items() if 10 <= age <= 40}
    assert (report.reminders, report.orders) == (len(expected), len(expected))
    mails = await shop.service.values("mail-commands")
    assert {mail["orderId"] for mail in mails if mail["orderId"] in ages} == expected
    assert len(mails) == len(expected)
    # Nor later: orders that were too old stay so, and cost nothing.
    assert await examined(shop, now) < 20
    later = await shop.job.run(now + DAY)
    assert later.reminders == HISTORY // OLDEST
    assert await shop.database["orders"].count_documents({"statusKey": shop.status.lower(), "reminder.sent": 0}) == (
        HISTORY - len(expected) - HISTORY // OLDEST
    )


async def test_orders_with_many_lines_are_decided_in_batches(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their conditions in one query would be too large for MongoDB."""
    for module in (storage.reminders.repository, storage.reminders.decisions):
        monkeypatch.setattr(module, "MOST_LINES", 3)
    decisions, products = ReminderDecisions(shop.database), ("camera", "tripod", "lens", "bag")
    large, *small = [
        await shop.bought(f"anna-{count}", *products[:count], at=NOON - count * DAY) for count in (4, 2, 1)
    ]
    young = [await shop.bought(customer, "camera", "tripod", at=NOON + 9 * DAY) for customer in ("bert", "cleo")]
    settings, now = (await StoreRepository(shop.database).general()).reminder, NOON + 10 * DAY

    async def due(*without: str) -> list[str]:
        return await decisions.reminders.due(settings, [shop.id], now, 100, without=without)

    assert (await due(), await due(large), await due(large, small[0])) == ([large], small, small[1:])
    decided = await decisions.on_some(settings, now, 100, within=[shop.id])
    assert [each.order.id for each in decided] == [large, young[1]]

    sizes, decide = list[int](), ReminderDecisions.on

    async def recorded(self: ReminderDecisions, orders: Sequence[ReviewableOrder], *args: Any, **more: Any) -> Any:
        sizes.append(sum(len(order.items) for order in orders))
        return await decide(self, orders, *args, **more)

    monkeypatch.setattr(ReminderDecisions, "on", recorded)
    previewed = [each.order.id async for each in preview(shop.database, settings, now)]
    assert (previewed[:3], set(previewed[3:]), sizes) == ([large, *small], set(young), [4, 3, 2, 2])
    assert await shop.run(10) == 3
    assert sizes[4:] == [4, 3]
    named = {mail["orderId"]: len(mail["items"]) for mail in await shop.mails(large, *small)}
    assert named == {large: 4, small[0]: 2, small[1]: 1}


async def test_large_mails_are_written_in_several_transactions(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler.reminders, "_WRITTEN_BYTES", 10_000)
    await shop.templates({"storeId": shop.id, "languageCode": None, "subject": "x", "text": "x" * 6_000})
    orders = [await shop.bought(f"emma-{number}", "camera") for number in range(5)]
    saved, save = list[int](), ReminderRepository.save

    async def recorded(self: ReminderRepository, completed: Sequence[ReviewableOrder], session: Session) -> None:
        saved.append(len(completed))
        await save(self, completed, session)

    monkeypatch.setattr(ReminderRepository, "save", recorded)
    assert await shop.run(10) == 5
    assert saved == [2, 2, 1]
    assert sorted(mail["orderId"] for mail in await shop.mails(*orders)) == sorted(orders)


async def test_corrected_template_reaches_a_run_in_progress(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch reads the templates; a failing one is logged once in a run."""
    monkeypatch.setattr(scheduler.reminders, "BATCH", 1)
    await shop.templates(
        {"storeId": shop.id, "languageCode": "de", "subject": "{{"},
        {"storeId": shop.id, "languageCode": None, "subject": "wrong"},
    )
    for age in (3, 2, 1):
        await shop.bought(f"ida-{age}", at=NOON - age * DAY, languageCode="de")
    save = ReminderRepository.save

    async def corrected(self: ReminderRepository, completed: Sequence[ReviewableOrder], session: Session) -> None:
        await save(self, completed, session)
        scope = {"storeId": shop.id, "languageCode": None}
        await shop.database["notificationTemplates"].update_one(scope, {"$set": {"subject": "corrected"}})

    monkeypatch.setattr(ReminderRepository, "save", corrected)
    with capture_logs() as logs:
        assert await shop.run(10) == 3
    mails = {
        m["customerId"]: m["subject"] for m in await shop.service.values("mail-commands") if m["storeId"] == shop.id
    }
    assert mails == {"ida-3": "wrong", "ida-2": "corrected", "ida-1": "corrected"}
    failures = [entry["template"] for entry in logs if entry["event"] == "template failed; using the next best one"]
    assert failures == [template_id("OrderReviewRequest", shop.id, "de")]


async def test_slow_look_up_of_reviews_leaves_time_to_write_mails(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time doesn't count as writing."""
    orders = [await shop.bought(f"fred-{number}", "camera") for number in range(3)]
    looked_up, saved, time = list[int](), list[int](), [0.0]
    reviewed, save = ReviewRepository.reviewed, ReminderRepository.save

    async def slow(self: ReviewRepository, wanted: Collection[ReviewedProduct]) -> set[ReviewedProduct]:
        looked_up.append(len(wanted))
        time[0] += 60
        return await reviewed(self, wanted)

    async def recorded(self: ReminderRepository, completed: Sequence[ReviewableOrder], session: Session) -> None:
        saved.append(len(completed))
        await save(self, completed, session)

    monkeypatch.setattr(scheduler.reminders, "monotonic", lambda: time[0])
    monkeypatch.setattr(ReviewRepository, "reviewed", slow)
    monkeypatch.setattr(ReminderRepository, "save", recorded)
    assert await shop.run(10) == 3
    assert (looked_up, saved) == ([3], [3])
    assert sorted(mail["orderId"] for mail in await shop.mails(*orders)) == sorted(orders)


async def test_order_that_changes_during_the_look_up_is_looked_up_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has looked up the reviews of its new product."""
    await shop.reviewed("gina", "tripod")
    changing, other = await shop.bought("gina", "camera"), await shop.bought("hans", "camera")
    reviewed, changes = ReviewRepository.reviewed, list[str]()

    async def changed(self: ReviewRepository, wanted: Collection[ReviewedProduct]) -> set[ReviewedProduct]:
        found = await reviewed(self, wanted)
        if not changes:
            changes.append(changing)
            tripod = {"lines.0.productId": "tripod"}
            await shop.database["orders"].update_one({"_id": changing}, {"$set": tripod})
        return found

    monkeypatch.setattr(ReviewRepository, "reviewed", changed)
    report = await shop.report(10)
    assert (report.reminders, dict(report.skipped)) == (1, {Skip.EVERYTHING_REVIEWED: 1})
    assert [mail["orderId"] for mail in await shop.mails(changing, other)] == [other]


@pytest.mark.long
async def test_maximum_age_of_an_order(shop: Shop) -> None:
    await shop.open(maxAgeDays=5, maxEmailsPerCustomer=9)
    order = await shop.bought("anna", "camera")
    assert await shop.run(15.001) == 0
    preview = await shop.service.run("reminders", "preview", "--now", (NOON + 15.001 * DAY).isoformat())
    assert f"skip    order {order} (CO1), customer anna: too-old" in preview.stdout
    assert "for 10 days, and for at most 15; at most 9 reminders for each customer." in preview.stdout
    assert await shop.run(15) == 1
    # The second one would be sent when the order is too old; it is considered once, and never again.
    report = await shop.report(25)
    assert (report.reminders, dict(report.skipped)) == (0, {Skip.TOO_OLD: 1})
    await shop.open(maxAgeDays=15, maxEmailsPerCustomer=9)
    assert (await shop.report(25)).orders == 0
    # An order without a decision follows the current setting.
    await shop.bought("berta", "camera", at=NOON - 3 * DAY)
    assert await shop.run(22) == 1


@pytest.mark.long
async def test_limit_within_a_period(shop: Shop) -> None:
    limits: dict[str, Any] = {"maxEmailsPerCustomer": 1, "maxAgeDays": 300}
    await shop.open(**limits, limitPeriodDays=30)
    customer = new_id("anna")
    for day in range(3):
        await shop.bought(customer, f"camera-{day}", at=NOON + day * DAY)
    assert [await shop.run(day) for day in (12, 13, 41.9, 42, 43, 71.9, 72, 72)] == [1, 0, 0, 1, 0, 0, 1, 0]
    # Each change of the limit takes effect in the next run.
    await shop.open(**limits, limitPeriodDays=5)
    assert [await shop.run(day) for day in (76.9, 77, 77)] == [0, 1, 0]
    await shop.open(**limits, limitPeriodDays=None)
    assert await shop.run(200) == 0
    await shop.open(**{**limits, "maxEmailsPerCustomer": 5}, limitPeriodDays=None)
    assert [await shop.run(200), await shop.run(240)] == [1, 0]
    await shop.open(**{**limits, "maxEmailsPerCustomer": 0}, limitPeriodDays=1)
    assert await shop.run(240) == 0
    stored = await shop.database["reminderCustomers"].find_one({"_id": customer})
    assert stored is not None
    assert (stored["sent"], len(stored["times"])) == (5, 5)


@pytest.mark.long
async def test_viewed_request_ends_reminders(shop: Shop) -> None:
    seen, other = await shop.bought("emil", "camera"), await shop.bought("fritz", "camera")
    assert await shop.run(10) == 2
    command = {"action": "viewed", "customerOrderId": seen}
    for fields in ({"stores": ["another"]}, {"storeId": "another"}, {"customerOrderId": "unknown"}, {}, {}):
        await shop.send("reminder-commands", seen, {**command, **fields})

    async def is_recorded() -> bool:
        return await shop.database["orders"].find_one({"_id": seen, "reminder.viewed": True}) is not None

    await eventually(is_recorded)
    await shop.orders({**shop.order("emil"), "id": seen, "modifiedDate": (NOON + DAY).isoformat()})
    preview = await shop.service.run("reminders", "preview", "--now", (NOON + 20 * DAY).isoformat())
    assert f"skip    order {seen} (CO1), customer emil: request-viewed" in preview.stdout
    report = await shop.report(20)
    assert (report.reminders, dict(report.skipped)) == (1, {})
    assert sorted(mail["orderId"] for mail in await shop.mails(seen, other)) == sorted([seen, other, other])
