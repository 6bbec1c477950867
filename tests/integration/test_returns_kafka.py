"""Returns by Kafka, and the events about them."""

from functools import partial
from typing import Any

from messaging.topics import Topic
from storage.returns.parking import ReturnParking
from tests.support.consumers import TOPICS, Desk
from tests.support.facade import new_id
from tests.support.messages import Message
from tests.support.orders import Returns, an_order, lines_of, order_event, return_command, wanted_return
from tests.support.service import Service
from tests.support.waiting import eventually


async def test_events_of_returns(returns: Returns) -> None:
    order = await returns.ordered({"a": 3})
    id = await returns.create(order, {"a": 1}, resolution="Refund")
    await returns.change(id, status="Approved", lineItems=lines_of({"a": 2}))
    too_many = return_command("update", {"id": id, "lineItems": lines_of({"a": 9, "z": 1})}, order)
    await returns.service.publish("return-commands", too_many)
    created, changed, refused = await returns.wait_for_events(id, "ReturnCreated", "ReturnChanged", "ReturnRefused")
    row = await returns.existing(id)
    (line,) = row["lineItems"]
    shown = {name: line[name] for name in ("id", "orderLineItemId", "quantity", "price", "reason")}
    of = {"returnId": id, "number": row["number"], "orderId": order, "resolution": "Refund"}
    assert changed == {**of, "status": "Approved", "lineItems": [shown], "at": row["modifiedDate"]}
    assert created == {**of, "status": "New", "lineItems": [{**shown, "quantity": 1}], "at": row["createdDate"]}
    reasons = [(reason["code"], reason["pointer"]) for reason in refused["reasons"]]
    assert reasons == [("quantity-not-available", "/lineItems/0"), ("unknown-line", "/lineItems/1")]
    assert "3 available" in refused["reasons"][0]["message"]


async def test_refused_by_kafka(returns: Returns) -> None:
    order = await returns.ordered({"a": 3})
    cases: dict[str, tuple[dict[str, int], list[str]]] = {
        "line": ({"z": 1}, ["unknown-line"]),
        "many": ({"a": 10**9}, ["quantity-not-available"]),
        "both": ({"a": 4, "z": 1}, ["quantity-not-available", "unknown-line"]),
        "first": ({"a": 2}, []),
        "second": ({"a": 2}, ["quantity-not-available"]),
    }
    ids = {name: new_id(name) for name in (*cases, "nothing")}
    commands = [
        return_command("create", wanted_return(order, quantities, id=ids[name]), user=name)
        for name, (quantities, _) in cases.items()
    ]
    unknown = return_command("update", {"id": ids["nothing"], "status": "Approved"}, order)
    await returns.service.publish("return-commands", *commands, unknown)
    await eventually(partial(returns.get, ids["first"]))
    row = await returns.existing(ids["first"])
    assert (row["createdBy"], row["lineItems"][0]["createdBy"], row["modifiedBy"]) == ("first", "first", "first")
    events = await eventually(partial(returns.events, *ids.values()), lambda events: len(events) == len(ids))
    codes = {data["returnId"]: [reason["code"] for reason in data.get("reasons", ())] for _, data in events}
    assert codes == {ids["nothing"]: ["unknown-return"], **{ids[name]: codes for name, (_, codes) in cases.items()}}
    assert await returns.found(orderId=order) == [ids["first"]]
    assert await returns.available(order) == {"a": 1}


async def test_invalid_returns_become_dead_letters(returns: Returns) -> None:
    order = await returns.ordered({"a": 3})
    good = new_id("return")
    lines: list[Any] = [{"orderLineItemId": "a", "quantity": quantity} for quantity in (0, -1, 1.5, "1", 2**31)]
    bad = [return_command("create", {"id": new_id("bad"), "orderId": order, "lineItems": [line]}) for line in lines]
    bad.append(return_command("remove", {"id": good}, order))
    bad.append(Message(order, b"{"))
    last = return_command("create", wanted_return(order, {"a": 1}, id=good))
    await returns.service.publish("return-commands", *bad, last)
    await eventually(partial(returns.get, good))
    await returns.service.until_dead("return-commands", *bad)
    assert await returns.found(orderId=order) == [good]


async def test_return_before_its_order(returns: Returns, service: Service) -> None:
    order, id, command = new_id("order"), new_id("return"), new_id("command")
    wanted = wanted_return(order, {"a": 2}, id=id, resolution="Exchange")
    await service.publish("return-commands", return_command("create", wanted, commandId=command))
    async with service.mongo() as database:
        parked = ReturnParking(database)
        assert await eventually(partial(parked.waiting_for, command)) == {id: None}
        assert await returns.get(id) is None
        await returns.ordered({"a": 2}, id=order)
        await eventually(partial(returns.get, id))
        await eventually(partial(parked.waiting_for, command), lambda waiting: not waiting)
    row = await returns.existing(id)
    assert (row["resolution"], row["order"]["id"]) == ("Exchange", order)
    assert await returns.available(order) == {"a": 0}
    await returns.wait_for_events(id, "ReturnCreated")


async def test_return_is_readable_by_any_valid_id(returns: Returns) -> None:
    order, name = await returns.ordered({"a": 3}), new_id("rma")
    ids = {f"{name}/2026": f"{name}%2F2026", f"{name}?#ä ": f"{name}%3F%23%C3%A4%20", f"{name}//x": f"{name}%2F%2Fx"}
    for id in ids:
        await returns.create(order, {"a": 1}, id=id)
    assert [(await returns.existing(escaped))["id"] for escaped in ids.values()] == list(ids)


async def test_smaller_order_does_not_reduce_returns(returns: Returns) -> None:
    order = await returns.ordered({"a": 3, "b": 1})
    id = await returns.create(order, {"a": 2, "b": 1})
    smaller = an_order(order, {"a": 1}, modifiedDate="2022-03-15T10:00:00Z")
    await returns.service.publish("order-events", order_event(smaller))
    await eventually(partial(returns.available, order), lambda available: available == {"a": 0})
    row = await returns.existing(id)
    assert row["order"] == smaller
    assert [line["availableQuantity"] for line in row["lineItems"]] == [2, 1]
    await returns.change(id, status="Canceled")
    assert await returns.available(order) == {"a": 1}


async def test_refusal_points_to_a_field_of_its_command(desk: Desk) -> None:
    order, canceled, gone = new_id("order"), new_id("return"), new_id("return")
    await desk.order(an_order(order, {"a": 1}))
    for id in (canceled, new_id("return")):
        wanted = wanted_return(order, {"a": 1}, id=id)
        await desk.command_returns(desk.records({"action": "create", "return": wanted}))
        if id == canceled:
            change = {"action": "update", "return": {"id": id, "status": "Canceled"}}
            await desk.command_returns(desk.records(change))
    reopened = {"id": canceled, "status": "New"}
    lines = {**reopened, "lineItems": lines_of({"a": 1})}
    commands = [{"action": "update", "return": each} for each in (reopened, lines, {"id": gone, "status": "New"})]
    await desk.command_returns(desk.records(*commands, {"action": "delete", "return": {"id": gone}}))
    refusals = [data for kind, data in desk.events() if kind == "ReturnRefused"]
    assert [(each["code"], each["pointer"]) for data in refusals for each in data["reasons"]] == [
        ("quantity-not-available", "/status"),
        ("quantity-not-available", "/lineItems/0"),
        ("unknown-return", "/id"),
        ("unknown-return", "/id"),
    ]
    # An unknown return without an order: its own id is the key.
    topic = TOPICS.name(Topic.EVENTS)
    keys = [(each.key or b"").decode() for each in desk.kafka.published if each.topic == topic]
    assert (keys[-4:], [data["orderId"] for data in refusals]) == ([order] * 2 + [gone] * 2, [order, order, "", ""])
