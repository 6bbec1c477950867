"""Damaged documents of waiting commands stop neither other commands nor an export or erasure of a person."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import pytest
from bson import ObjectId
from structlog.testing import capture_logs

from consumers.images.commands import ImageCommandConsumer
from consumers.returns import ReturnConsumer
from domain.findings import Level
from storage.checks import check_parked
from storage.privacy.repository import PersonalData
from tests.support.consumers import Desk
from tests.support.facade import new_id
from tests.support.orders import an_order, wanted_return
from tests.support.service import Json

LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
ANNA: Final = "Anna@example.com"


@pytest.mark.parametrize(
    "change",
    [
        {"$unset": {"source": ""}},
        {"$set": {"source": 5}},
        {"$set": {"source": ["a", "b", "c"]}},
        {"$set": {"commandMark": 5}},
        {"$unset": {"command": ""}},
        {"$set": {"command": [{"email": ANNA}, 5]}},
        {"$set": {"command.reason": "gossip"}},
        {"$set": {"command.email": 5}},
    ],
    ids=str,
)
async def test_damaged_waiting_report_stops_nothing(desk: Desk, change: Json) -> None:
    parked, review = desk.database["parkedCommands"], desk.review()
    report = {"action": "report", "reviewId": review["id"], "reason": "spam", "explanation": "No", "goodFaith": True}
    await desk.give_feedback(desk.records(*({**report, "email": email} for email in (ANNA, ANNA, "berta@example.com"))))
    damaged = (await parked.find().to_list())[0]["_id"]
    await parked.update_one({"_id": damaged}, change)
    await parked.update_many({}, {"$set": {"parkedAt": LONG_AGO}})
    anna = PersonalData(desk.database, ANNA.casefold())
    assert len(await anna.parked_feedback()) == 1
    assert len(await desk.services.parked_feedback.overdue(NOW, 10)) == 2
    named = 1 if change in ({"$unset": {"command": ""}}, {"$set": {"command.email": 5}}) else 2
    assert await anna.remove_parked_feedback() == named
    await desk.submit(desk.records(review))
    assert (await desk.stored(review["id"]))["reports"] == 1
    assert not [message for message in desk.kafka.published if message.topic.endswith(".dlq")]
    assert await parked.count_documents({}) == 2 - named


async def test_copy_of_waiting_command_about_an_image_stops_no_giving_up(desk: Desk) -> None:
    parked = desk.database["parkedCommands"]
    await desk.command_images(desk.records({"action": "hide", "reviewId": "r", "imageId": str(uuid4())}))
    await parked.insert_one({**(await parked.find_one({}) or {}), "_id": ObjectId()})
    await parked.update_many({}, {"$set": {"parkedAt": LONG_AGO}})
    async with asyncio.timeout(30):  # it wouldn't end
        assert await ImageCommandConsumer(desk.services).give_up_overdue(NOW) == 1


async def test_commands_that_cannot_be_read_hide_none_behind_them(desk: Desk) -> None:
    parked, parking = desk.database["parkedCommands"], desk.services.parked_feedback
    report = {"action": "report", "reason": "spam", "explanation": "No", "goodFaith": True}
    await desk.give_feedback(desk.records(*({**report, "reviewId": f"r{n}", "email": ANNA} for n in range(6))))
    await parked.update_many({"reviewId": {"$lt": "r3"}}, {"$set": {"parkedAt": LONG_AGO, "source": 5}})
    await parked.update_many({"reviewId": {"$gte": "r3"}}, {"$set": {"parkedAt": LONG_AGO + timedelta(days=1)}})
    assert [command.review_id for command in await parking.overdue(NOW, 2)] == ["r3", "r4"]


@pytest.mark.parametrize(
    "change",
    [
        {"$unset": {"value": ""}},
        {"$set": {"value": 5}},
        {"$set": {"value": b"{"}},
        {"$set": {"value": b"{}"}},
        {"$set": {"source": 5}},
        {"$unset": {"orderId": ""}},
    ],
    ids=str,
)
async def test_damaged_waiting_return_stops_no_other(desk: Desk, change: Json) -> None:
    parked, consumer = desk.database["parkedReturns"], ReturnConsumer(desk.services)
    order = new_id("order")
    damaged, whole, late = (
        wanted_return(id, {"a": 1}, id=new_id("return")) for id in (order, order, new_id("late-order"))
    )
    await desk.command_returns(desk.records(*({"action": "create", "return": each} for each in (damaged, whole, late))))
    await parked.update_one({"return": damaged["id"]}, {**change, "$min": {"parkedAt": LONG_AGO}})
    await parked.update_one({"return": late["id"]}, {"$set": {"parkedAt": LONG_AGO}})
    assert await consumer.give_up_overdue(NOW) == 1
    # A command about the damaged return itself.
    await desk.command_returns(desk.records({"action": "delete", "return": {"id": damaged["id"]}}))
    await desk.order(an_order(order, {"a": 3}))
    kinds = [(kind, data["returnId"]) for kind, data in desk.events()]
    assert ("ReturnRefused", late["id"]) in kinds
    assert ("ReturnCreated", whole["id"]) in kinds
    assert [each["return"] async for each in parked.find()] == [damaged["id"]]
    assert not [message for message in desk.kafka.published if message.topic.endswith(".dlq")]


async def test_waiting_return_whose_value_is_no_command_is_logged_once(desk: Desk) -> None:
    parked, order = desk.database["parkedReturns"], new_id("order")
    wanted = wanted_return(order, {"a": 1}, id=new_id("return"))
    await desk.command_returns(desk.records({"action": "create", "return": wanted}))
    await parked.update_one({}, {"$set": {"value": b"{"}})
    (document,) = await parked.find().to_list()
    with capture_logs() as lines:
        for _ in range(2):
            await ReturnConsumer(desk.services).release([order])
    assert [line["id"] for line in lines] == [document["_id"]]


async def test_damaged_order_that_keeps_its_returns_waiting_is_logged_once(desk: Desk) -> None:
    order, consumer = new_id("order"), ReturnConsumer(desk.services)
    await desk.command_returns(desk.records({"action": "create", "return": wanted_return(order, {"a": 1})}))
    await desk.database["orders"].insert_one({"_id": order})
    with capture_logs() as lines:
        for _ in range(2):
            assert await consumer.give_up_overdue(datetime.now(UTC)) == 0
    (line,) = lines
    assert line["id"] == order
    assert await desk.database["parkedReturns"].count_documents({"orderId": order}) == 1


async def test_waiting_return_without_time_is_created_with_its_order(desk: Desk) -> None:
    parked, order = desk.database["parkedReturns"], new_id("order")
    wanted = wanted_return(order, {"a": 1}, id=new_id("return"))
    await desk.command_returns(desk.records({"action": "create", "return": wanted}))
    await parked.update_one({}, {"$unset": {"parkedAt": ""}})
    await desk.order(an_order(order, {"a": 3}))
    assert [(kind, data["returnId"]) for kind, data in desk.events()] == [("ReturnCreated", wanted["id"])]


async def test_damaged_waiting_returns_hide_none_behind_them(desk: Desk) -> None:
    parked = desk.database["parkedReturns"]
    await parked.insert_many({"_id": f"damaged-{n}", "parkedAt": LONG_AGO} for n in range(501))
    wanted = wanted_return(new_id("late-order"), {"a": 1}, id=new_id("return"))
    await desk.command_returns(desk.records({"action": "create", "return": wanted}))
    await parked.update_one({"return": wanted["id"]}, {"$set": {"parkedAt": LONG_AGO + timedelta(days=1)}})
    assert await ReturnConsumer(desk.services).give_up_overdue(NOW) == 1


async def test_waiting_return_with_an_id_of_earlier_versions_is_created(desk: Desk) -> None:
    parked, order = desk.database["parkedReturns"], new_id("order")
    wanted = wanted_return(order, {"a": 1}, id=new_id("return"))
    await desk.command_returns(desk.records({"action": "create", "return": wanted}))
    (document,) = await parked.find().to_list()
    value = document["value"].replace(wanted["id"].encode(), b"..")
    await parked.update_one({}, {"$set": {"value": value, "return": ".."}})
    assert await check_parked(desk.database) is None
    await desk.order(an_order(order, {"a": 3}))
    assert [(kind, data["returnId"]) for kind, data in desk.events()] == [("ReturnCreated", "..")]


async def test_doctor_names_damaged_waiting_commands(desk: Desk) -> None:
    report = {"action": "report", "reviewId": "r", "reason": "spam", "explanation": "No", "goodFaith": True}
    await desk.give_feedback(desk.records(report, {**report, "explanation": "Never"}))
    order = new_id("order")
    first, second = (wanted_return(order, {"a": 1}, id=new_id("return")) for _ in range(2))
    await desk.command_returns(desk.records(*({"action": "create", "return": each} for each in (first, second))))
    assert await check_parked(desk.database) is None
    damaged = list[str]()
    changes: Json = {"parkedCommands": {"$unset": {"command": ""}}, "parkedReturns": {"$set": {"value": b"{}"}}}
    for name, change in changes.items():
        found = await desk.database[name].find_one_and_update({}, change)
        assert found
        damaged.append(f"{name} {found['_id']}")
    finding = await check_parked(desk.database)
    assert finding is not None
    assert (finding.check, finding.level) == ("parked commands", Level.FAIL)
    assert finding.text == f"2 documents can't be read: {', '.join(damaged)}"
    # One of a kind that nobody looks for.
    await desk.database["parkedCommands"].update_one({"command": {"$exists": True}}, {"$set": {"kind": "unknown"}})
    finding = await check_parked(desk.database)
    assert finding is not None
    assert finding.text.startswith("3 documents")
