"""Stored orders that have lost fields, as after a failed restore."""

from functools import partial

import pytest

from storage.database import in_transaction
from storage.mending import Mender
from tests.support.consumers import Desk
from tests.support.facade import new_id
from tests.support.orders import an_order, wanted_return
from tests.support.service import Json


async def available(desk: Desk, order: str) -> dict[str, int]:
    found = await desk.services.orders.get(order)
    assert found is not None
    return found.available()


async def create(desk: Desk, order: str, quantity: int) -> None:
    wanted = wanted_return(order, {"a": quantity}, id=new_id("return"))
    await desk.command_returns(desk.records({"action": "create", "return": wanted}))


async def test_null_for_returned_quantities_is_no_quantity(desk: Desk) -> None:
    order, orders = new_id("order"), desk.database["orders"]
    lose: Json = {"$set": {"returned": None}}
    await desk.order(an_order(order, {"a": 3}))
    await create(desk, order, 3)
    await orders.update_one({"_id": order}, lose)
    assert await available(desk, order) == {"a": 0}
    await create(desk, order, 1)
    assert [kind for kind, _ in desk.events()] == ["ReturnCreated", "ReturnRefused"]
    await orders.update_one({"_id": order}, lose)
    mended = await in_transaction(desk.database, partial(Mender(desk.database, "orders").mend, [order], {}))
    assert (mended.restored, mended.lost) == (1, {})
    assert (await orders.find_one({"_id": order}) or {})["returned"] == [["a", 3]]


@pytest.mark.parametrize(
    "lost", ["lines", "body", "status", "modified", "returned", "digests", "customerName", "number"]
)
@pytest.mark.parametrize("damage", ["$unset", "$set"])
async def test_same_event_restores_order(desk: Desk, lost: str, damage: str) -> None:
    order, orders = new_id("order"), desk.database["orders"]
    event = an_order(order, {"a": 3}, customerName="Anna")
    await desk.order(event)
    await create(desk, order, 2)
    whole = await orders.find_one({"_id": order})
    # 7 has the wrong type for each of these fields but one, in which it is a time long ago.
    await orders.update_one({"_id": order}, {damage: {lost: 7}})
    await desk.order(event)
    assert await orders.find_one({"_id": order}) == whole
    assert [message.topic for message in desk.kafka.published if message.topic.endswith(".dlq")] == []


@pytest.mark.parametrize("lost", ["lines", "status"])
@pytest.mark.parametrize("day", ["2022-03-13", "2022-03-15"])
async def test_any_event_restores_unusable_order(desk: Desk, lost: str, day: str) -> None:
    order, orders = new_id("order"), desk.database["orders"]
    await desk.order(an_order(order, {"a": 3}))
    await create(desk, order, 2)
    await orders.update_one({"_id": order}, {"$unset": {lost: ""}})
    await desk.order(an_order(order, {"a": 5}, status="Complete", modifiedDate=f"{day}T10:00:00Z"))
    restored = await orders.find_one({"_id": order}) or {}
    assert (restored["status"], restored["returned"]) == ("Complete", [["a", 2]])
    assert await available(desk, order) == {"a": 3}


async def test_old_event_brings_no_older_state_to_an_order_without_body(desk: Desk) -> None:
    order, orders = new_id("order"), desk.database["orders"]
    old = an_order(order, {"a": 9}, status="Complete", modifiedDate="2022-03-13T10:00:00Z")
    new = an_order(order, {"a": 2}, status="Cancelled", modifiedDate="2022-03-15T10:00:00Z")
    for event in (old, new):
        await desk.order(event)
    whole = await orders.find_one({"_id": order}) or {}
    await orders.update_one({"_id": order}, {"$unset": {"body": ""}})
    await desk.order(old)
    kept = await orders.find_one({"_id": order}) or {}
    assert (kept["status"], kept["lines"]) == (whole["status"], whole["lines"])
    await desk.order(new)
    assert (await orders.find_one({"_id": order}) or {})["body"] == whole["body"]


async def test_same_event_brings_what_a_migration_left_empty(desk: Desk) -> None:
    order, orders = new_id("order"), desk.database["orders"]
    event = an_order(order, {"a": 3}, customerName="Anna")
    await desk.order(event)
    whole = await orders.find_one({"_id": order})
    await orders.update_one({"_id": order}, {"$unset": {"customerName": ""}})
    mended = await in_transaction(desk.database, partial(Mender(desk.database, "orders").mend, [order], {}))
    assert mended.filled == 1
    await desk.order(event)
    assert await orders.find_one({"_id": order}) == whole
