"""Reminders, with a clock controlled by the tests."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from domain.delivery import OutgoingMessage
from domain.reminders import Skip
from messaging.kafka.connection import BrokerAwayError, KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.metrics import REMINDERS
from messaging.templates.order_review_request import LONGEST_NAME
from messaging.topics import TopicNames
from scheduler.reminders import ReminderJob
from tests.support.facade import new_id
from tests.support.hostile_templates import HOSTILE
from tests.support.reminders import DAY, NOON, SENDER, Shop, connection, named
from tests.support.service import Json, Service
from tests.support.waiting import eventually, free_port

SECOND = timedelta(seconds=1) / DAY


def at(day: float, order: Json, **changes: Any) -> Json:
    """Return an update of an order, this number of days after noon."""
    return {**order, **changes, "modifiedDate": (NOON + day * DAY).isoformat()}


@pytest.mark.long
async def test_first_reminder_after_ten_days_and_second_ten_days_later(shop: Shop) -> None:
    order = await shop.bought("anna", "camera", "tripod")
    assert await shop.run(10 - SECOND) == 0
    assert await shop.run(10) == 1
    assert await shop.run(10, times=100) == 0
    assert await shop.run(20 - SECOND, times=2) == 0
    assert await shop.run(20, times=100) == 1
    for day in (30, 40, 4_000):
        assert await shop.run(day) == 0
    first, second = await shop.mails(order)
    assert first["id"] != second["id"]
    expected = {
        **{"template": "OrderReviewRequest", "to": "anna@example.com", "from": SENDER, "languageCode": None},
        **{"storeId": shop.id, "orderId": order, "orderNumber": "CO1", "customerId": "anna"},
        "items": [{"productId": "camera", "name": "Camera"}, {"productId": "tripod", "name": "Tripod"}],
    }
    for mail in (first, second):
        assert expected.items() <= mail.items()
        assert set(mail) == {*expected, "id", "subject", "text", "html"}
        assert "- Tripod" in mail["text"]
        assert "<li>Camera</li>" in mail["html"]
        assert shop.id in mail["subject"]


async def test_messages_carry_their_id_and_events_report_them(shop: Shop) -> None:
    order = await shop.bought("bert", "camera")
    await shop.run(10)
    (record,) = [r for r in await shop.service.records("mail-commands") if json.loads(r.value)["orderId"] == order]
    headers = dict(record.headers)
    assert record.key == b"bert"
    assert headers["ce_id"].decode() == json.loads(record.value)["id"]
    assert headers["ce_type"] == b"plaudit.mail.send"
    (event,) = [event for event in await shop.service.values("events") if event.get("orderId") == order]
    fields = (event["reminderId"], event["customerId"], event["productIds"])
    assert fields == (headers["ce_id"].decode(), "bert", ["camera"])


async def test_review_between_two_reminders(shop: Shop) -> None:
    only, two = await shop.bought("emma", "camera"), await shop.bought("finn", "camera", "tripod")
    assert await shop.run(10) == 2
    await shop.reviewed("emma", "camera")
    await shop.reviewed("finn", "tripod")
    assert await shop.run(20) == 1
    assert named(await shop.mails(only)) == [["camera"]]
    assert sorted(named(await shop.mails(two))) == [["camera"], ["camera", "tripod"]]


async def test_orders_without_reminder(shop: Shop) -> None:
    bought = shop.bought
    await shop.reviewed("gina", "camera")
    await bought("gina", "camera")
    await bought("hugo", "camera", customerEmail=None)
    await bought("ines", "camera", customerId=None)
    await bought("jens", "camera", items=[{"id": "1", "name": "Gift card", "quantity": 1}])
    await bought("nils", "camera", items=[{"id": "1", "productId": "camera", "quantity": 0}])
    await bought("kate", "camera", isCancelled=True)
    await bought("lars", "camera", storeId="unknown-store")
    await shop.orders(left := shop.order("mona"))
    await shop.orders(at(1, left, status="Returned"))
    report = await shop.report(30)
    assert report.reminders == 0
    once = (Skip.EVERYTHING_REVIEWED, Skip.NO_ADDRESS, Skip.NO_CUSTOMER, Skip.CANCELLED)
    assert report.skipped == {**dict.fromkeys(once, 1), Skip.NOTHING_TO_REVIEW: 2}
    # They are not considered again.
    assert (await shop.report(60)).orders == 0


async def test_review_of_another_entity_type_with_same_id_does_not_count(shop: Shop) -> None:
    order = await shop.bought("lena", "camera")
    await shop.reviewed("lena", "camera", "Vendor")
    assert await shop.run(10) == 1
    assert named(await shop.mails(order)) == [["camera"]]


async def test_order_returning_to_status_starts_again(shop: Shop) -> None:
    order = shop.order("olaf")
    for day, status in ((0, shop.status), (4, "Processing"), (5, shop.status)):
        await shop.orders(at(day, order, status=status))
    assert await shop.run(15 - SECOND) == 0
    assert await shop.run(15) == 1
    for later, status in ((16, "Processing"), (16.5, shop.status)):
        await shop.orders(at(later, order, status=status))
    assert await shop.run(26.5 - SECOND) == 0
    assert await shop.run(26.5) == 1


async def test_updated_order_is_considered_again(shop: Shop) -> None:
    order = shop.order("pete", customerEmail=None)
    await shop.orders(order)
    assert await shop.run(10) == 0
    await shop.orders(at(1, order, customerEmail="pete@example.com"))
    assert await shop.run(10) == 1


@pytest.mark.long
async def test_settings_take_effect_at_the_next_run(shop: Shop) -> None:
    order = await shop.bought("rosa", "camera")
    await shop.open(enabled=False)
    assert await shop.run(10) == 0
    await shop.open(daysInStatus=12)
    assert await shop.run(10) == 0
    await shop.open(daysInStatus=9, maxEmailsPerCustomer=0)
    assert await shop.run(9) == 0
    await shop.open(daysInStatus=9, maxEmailsPerCustomer=1)
    assert await shop.run(9) == 1
    assert await shop.run(18) == 0
    await shop.open(daysInStatus=9, maxEmailsPerCustomer=2)
    assert await shop.run(18 - SECOND) == 0
    assert await shop.run(18) == 1
    assert len(await shop.mails(order)) == 2


async def test_store_that_enables_reviews(shop: Shop) -> None:
    await shop.bought("sven", "camera")
    for is_open in (False, True):
        await shop.database["stores"].update_one({"_id": shop.id}, {"$set": {"settings.reviewsEnabled": is_open}})
        assert await shop.run(10, times=2) == is_open


async def test_template_of_the_store(shop: Shop) -> None:
    template = {"text": "{{ items[0].name }}", "html": "<p>{{ customer.name }}</p>"}
    places = [(shop.id, None, "any"), (shop.id, "de", "de"), (None, "de", "all stores")]
    await shop.templates(
        *({"storeId": store, "languageCode": code, "subject": text, **template} for store, code, text in places)
    )
    await shop.database["stores"].update_one({"_id": shop.id}, {"$set": {"email": "shop@example.com"}})
    script = "<script>alert(1)</script>"
    tina = await shop.bought("tina", "camera", languageCode="de-AT", customerName=script)
    orders = [tina, await shop.bought("uwe", "camera", languageCode="fr")]
    assert await shop.run(10) == 2
    german, other = sorted(await shop.mails(*orders), key=lambda mail: mail["customerId"])
    assert (german["subject"], german["languageCode"], german["from"]) == ("de", "de-AT", "shop@example.com")
    assert (german["text"], german["html"]) == ("Camera", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>")
    assert (other["subject"], other["languageCode"]) == ("any", "fr")
    await shop.database["stores"].update_one({"_id": shop.id}, {"$set": {"languages": ["DE_at", "en"]}})
    without = await shop.bought("vera", "camera")
    assert await shop.run(10) == 1
    (mail,) = await shop.mails(without)
    assert (mail["subject"], mail["languageCode"]) == ("de", "de-AT")


async def test_failing_template_falls_back_to_default(shop: Shop) -> None:
    await shop.templates({"storeId": shop.id, "languageCode": None, "subject": "{{"})
    order = await shop.bought("vera", "camera")
    assert await shop.run(10) == 1
    (mail,) = await shop.mails(order)
    assert "- Camera" in mail["text"]


async def test_templates_of_other_stores_are_not_read(shop: Shop) -> None:
    """Regardless of their number: reading this one would fail."""
    templates = shop.database["notificationTemplates"]
    await templates.insert_one({"_id": (other := new_id("template")), "name": "OrderReviewRequest", "storeId": "other"})
    try:
        await shop.bought("vito", "camera")
        assert await shop.run(10) == 1
    finally:
        await templates.delete_one({"_id": other})


@pytest.mark.long
async def test_next_best_template_is_used_and_doctor_reports_it(shop: Shop) -> None:
    """One template is outdated and in Jinja2, and one takes too much work for this order."""
    await shop.templates(
        {"storeId": shop.id, "languageCode": "de", "subject": "{{ items|map(attribute='name')|join }}"},
        {"storeId": shop.id, "languageCode": None, "subject": HOSTILE["doubling by append"]},
        {"storeId": None, "languageCode": "de-AT", "subject": "Better, {{ customer.name }}"},
    )
    try:
        order = await shop.bought("willi", "camera", languageCode="de-AT")
        assert await shop.run(10) == 1
        (mail,) = await shop.mails(order)
        assert (mail["subject"], mail["text"]) == ("Better, Willi", "x")

        async def findings() -> list[Json]:
            found: list[Json] = json.loads((await shop.service.run("doctor", "--json", code=None)).stdout)
            return [finding for finding in found if finding["check"] == "templates"]

        # Empty if MongoDB is slow for seconds.
        (warning,) = await eventually(findings)
        assert warning["level"] == "warn"
        assert f"OrderReviewRequest?storeId={shop.id}&languageCode=de (subject, line 1: " in warning["text"]
        assert f"OrderReviewRequest?storeId={shop.id} (subject, line 1: it takes more than" in warning["text"]
    finally:
        await shop.database["notificationTemplates"].delete_many({"storeId": {"$in": [shop.id, None]}})


@pytest.mark.long
async def test_hundred_long_names_fit_into_a_mail(shop: Shop) -> None:
    names = {"id": "1", "quantity": 1, "name": "<" * 1_024}
    items = [{**names, "id": str(number), "productId": f"product-{number}"} for number in range(100)]
    large = await shop.bought("xaver", items=items, customerName="&" * 1_024)
    other = await shop.bought("yara", "camera")
    assert await shop.run(10) == 2
    (mail,) = await shop.mails(large)
    assert len(mail["items"]) == mail["text"].count("\n- ") == 100
    assert {len(item["name"]) for item in mail["items"]} == {LONGEST_NAME}
    assert len(await shop.mails(other)) == 1


@pytest.mark.long
async def test_order_with_failing_mail_fails_alone(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    broken = Shop(shop.service, shop.database, shop.job, status=shop.status)
    await broken.open(orderStatus=shop.status)
    # No interface accepts such an address.
    await shop.database["stores"].update_one({"_id": broken.id}, {"$set": {"email": " "}})
    event = broken.order("zita")
    await broken.orders(event)
    order = await shop.bought("zoran", "camera")
    failed_before = REMINDERS.labels("mail-failed")._value.get()
    report = await shop.report(10)
    assert (report.reminders, report.skipped) == (1, {Skip.MAIL_FAILED: 1})
    assert REMINDERS.labels("mail-failed")._value.get() == failed_before + 1
    assert len(await shop.mails(order)) == 1
    # It is not retried until the order changes, and nothing counts as sent.
    assert (await shop.report(10)).orders == 0
    await shop.database["stores"].update_one({"_id": broken.id}, {"$set": {"email": "shop@example.com"}})
    assert await shop.database["reminderCustomers"].find_one({"_id": "zita"}) is None
    await broken.orders(at(1, event))
    assert (await shop.report(10)).reminders == 1
    assert len(await shop.mails(event["id"])) == 1


async def test_failed_mail_does_not_count_towards_limit(shop: Shop) -> None:
    await shop.open(maxEmailsPerCustomer=1)
    broken = Shop(shop.service, shop.database, shop.job, status=shop.status)
    await broken.open(orderStatus=shop.status, maxEmailsPerCustomer=1)
    await shop.database["stores"].update_one({"_id": broken.id}, {"$set": {"email": " "}})
    await broken.bought("yann")
    others = [await shop.bought("yann", f"camera-{day}", at=NOON + day * DAY) for day in (1, 2)]
    report = await shop.report(20)
    assert (report.reminders, report.skipped) == (1, {Skip.MAIL_FAILED: 1, Skip.CUSTOMER_LIMIT: 1})
    assert [mail["orderId"] for mail in await shop.mails(*others)] == others[:1]


async def test_order_without_sender_stays_due_until_there_is_one(shop: Shop, tmp_path: Path) -> None:
    """With a mail server and no sender, mails come only from stores with an address."""
    service, now = shop.service, (NOON + 10 * DAY).isoformat()
    scheduler = Service(service.servers, tmp_path, prefix=service.prefix, environment={"PLAUDIT_SMTP__HOST": "mail"})
    anonymous = shop.order("jana", storeId=None)
    orders = [*await shop.orders(anonymous), await shop.bought("jana", "tripod")]
    preview = (await scheduler.run("reminders", "preview", "--now", now)).stdout.splitlines()
    assert [line for line in preview if "customer jana" in line and line.endswith(": no-sender")] == [
        line for line in preview if any(id in line for id in orders)
    ]
    assert "0 would be reminded. 2 would not: 2 no-sender." in preview
    untouched = await shop.database["orders"].find({"_id": {"$in": orders}}).sort("_id").to_list()

    async def sent() -> str:
        return (await scheduler.run("reminders", "run", "--now", now)).stdout.strip()

    assert await sent() == "Sent 0 reminders."
    assert await shop.database["orders"].find({"_id": {"$in": orders}}).sort("_id").to_list() == untouched
    assert await shop.database["reminderCustomers"].find_one({"_id": "jana"}) is None
    await shop.database["stores"].update_one({"_id": shop.id}, {"$set": {"email": "shop@example.com"}})
    assert await sent() == "Sent 1 reminder."
    scheduler.environment["PLAUDIT_SMTP__SENDER"] = SENDER
    assert await sent() == "Sent 1 reminder."
    mails = {mail["orderId"]: mail["from"] for mail in await shop.mails(*orders)}
    assert mails == {orders[0]: SENDER, orders[1]: "shop@example.com"}


async def test_outbox_of_dead_process_is_published(shop: Shop) -> None:
    order = await shop.bought("wim", "camera")
    without_kafka = Publisher(KafkaConnection(f"127.0.0.1:{free_port()}"), timeout=0.2)
    job = ReminderJob(shop.database, without_kafka, TopicNames(shop.service.prefix), sender=SENDER)
    with pytest.raises(BrokerAwayError):
        await job.run(NOON + 10 * DAY)
    assert await shop.mails(order) == []
    await shop.database["outbox"].update_many({}, {"$set": {"at": NOON}})
    assert await shop.run(10) == 0
    # A process of the service may publish the same messages at the same time: the mailer sends each mail id once.
    assert len({mail["id"] for mail in await shop.mails(order)}) == 1
    assert await shop.database["outbox"].count_documents({}) == 0


class WithoutOneTopic(Publisher):
    """A publisher that isn't allowed to write to one topic."""

    async def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        if any(message.topic == "unwritable" for message in messages):
            raise BrokerAwayError
        await super().publish(messages)


async def test_run_is_reported_although_others_owe_what_cannot_be_published(shop: Shop) -> None:
    order = await shop.bought("ute", "camera")
    outbox = shop.database["outbox"]
    await outbox.insert_one({"_id": ObjectId(), "at": NOON, "messages": [["unwritable", None, b"x", []]]})
    publisher = WithoutOneTopic(connection(shop.service))
    try:
        job = ReminderJob(shop.database, publisher, TopicNames(shop.service.prefix), sender=SENDER)
        assert (await job.run(NOON + 10 * DAY)).reminders == 1
    finally:
        await publisher.stop()
        await outbox.delete_many({"messages.0.0": "unwritable"})
    assert len(await shop.mails(order)) == 1


async def test_preview_escapes_control_characters_and_markup(reminders: Shop) -> None:
    shop = Shop(reminders.service, reminders.database, reminders.job, status=f"done \x1b[31m[red] {new_id('status')}")
    await shop.open()
    order = await shop.bought("\x1b]0;title\x07[bold]anna", "\x1b[2J[link=x]camera\u202e", customerEmail="a@b.example")
    preview = await shop.service.run("reminders", "preview", "--now", (NOON + 10 * DAY).isoformat())
    assert "".join(c for c in preview.stdout if not c.isprintable()).strip("\n") == ""
    assert f"orders in status {shop.status.upper()} for".replace("\x1b", "�") in preview.stdout
    assert f"order {order} (CO1), customer �]0;title�[bold]anna, a@b.example: �[2J[Link=X]Camera�" in preview.stdout


async def test_commands(shop: Shop) -> None:
    orders = [
        await shop.bought("xena", "camera", "tripod"),
        await shop.bought("yves", "camera", at=NOON + DAY),
        await shop.bought("zoe", "camera", customerEmail=None),
    ]
    now = (NOON + 10 * DAY).isoformat()
    preview = await shop.service.run("reminders", "preview", "--now", now)
    lines = preview.stdout.splitlines()
    assert f"remind  order {orders[0]} (CO1), customer xena, xena@example.com: Camera, Tripod" in lines
    assert f"skip    order {orders[1]} (CO1), customer yves: not-yet" in lines
    assert f"skip    order {orders[2]} (CO1), customer zoe: no-address" in lines
    assert "1 would be reminded. 2 would not: 1 no-address, 1 not-yet." in lines
    assert await shop.mails(*orders) == []
    run = await shop.service.run("reminders", "run", "--now", now)
    assert run.stdout.strip() == "Sent 1 reminder; skipped 1 no-address."
    assert named(await shop.mails(*orders)) == [["camera", "tripod"]]
    assert await shop.run(10) == 0
