"""Returns by Kafka, and the events that tell of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx

from storage.returns import ReturnRepository
from tests.support.facade import new_id
from tests.support.messages import Message
from tests.support.orders import Returns, an_order, lines_of, order_event, return_command
from tests.support.service import Json, Service
from tests.support.waiting import eventually


async def test_events(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 3})
    id = await returns.create(order, {"a": 1}, resolution="Refund")
    await returns.change(id, status="Approved", lineItems=lines_of({"a": 2}))
    await returns.service.publish(
        "return-commands", return_command("update", {"id": id, "lineItems": lines_of({"a": 9, "z": 1})}, order)
    )
    created, changed, refused = await returns.told(id, "ReturnCreated", "ReturnChanged", "ReturnRefused")
    row = await returns.get(id)
    assert row is not None
    (line,) = row["lineItems"]
    shown = {name: line[name] for name in ("id", "orderLineItemId", "quantity", "price", "reason")}
    assert changed == {
        "returnId": id,
        "number": row["number"],
        "orderId": order,
        "status": "Approved",
        "resolution": "Refund",
        "lineItems": [shown],
        "at": row["modifiedDate"],
    }
    assert created == {
        **changed,
        "status": "New",
        "lineItems": [{**shown, "quantity": 1}],
        "at": row["createdDate"],
    }
    reasons = [(reason["code"], reason["pointer"]) for reason in refused["reasons"]]
    assert reasons == [("quantity-not-available", "/lineItems/0"), ("unknown-line", "/lineItems/1")]
    assert "3 available" in refused["reasons"][0]["message"]


async def test_refused_by_kafka(returns: Returns) -> None:
    order = await returns.ordered({"a": 3})
    ids = {name: new_id(name) for name in ("line", "many", "both", "nothing", "first", "second")}

    def wanted(name: str, quantities: dict[str, int]) -> Json:
        return {"id": ids[name], "orderId": order, "lineItems": lines_of(quantities)}

    await returns.service.publish(
        "return-commands",
        return_command("create", wanted("line", {"z": 1})),
        return_command("create", wanted("many", {"a": 10**9})),
        return_command("create", wanted("both", {"a": 4, "z": 1})),
        return_command("update", {"id": ids["nothing"], "status": "Approved"}, order),
        return_command("create", wanted("first", {"a": 2}), user="ben"),
        return_command("create", wanted("second", {"a": 2})),
    )
    row = await eventually(partial(returns.get, ids["first"]))
    assert row is not None
    assert (row["createdBy"], row["lineItems"][0]["createdBy"], row["modifiedBy"]) == ("ben", "ben", "ben")
    told = await eventually(partial(returns.events, *ids.values()), lambda told: len(told) == len(ids))
    codes = {data["returnId"]: [reason["code"] for reason in data.get("reasons", ())] for _, data in told}
    assert codes == {
        ids["line"]: ["unknown-line"],
        ids["many"]: ["quantity-not-available"],
        ids["both"]: ["quantity-not-available", "unknown-line"],
        ids["nothing"]: ["unknown-return"],
        ids["first"]: [],
        ids["second"]: ["quantity-not-available"],
    }
    assert await returns.found(orderId=order) == [ids["first"]]
    assert await returns.available(order) == {"a": 1}


async def test_what_is_no_return_is_a_dead_letter(returns: Returns) -> None:
    order = await returns.ordered({"a": 3})
    good = new_id("return")
    lines: list[Any] = [{"orderLineItemId": "a", "quantity": quantity} for quantity in (0, -1, 1.5, "1", 2**31)]
    bad = [return_command("create", {"id": new_id("bad"), "orderId": order, "lineItems": [line]}) for line in lines]
    bad.append(return_command("remove", {"id": good}, order))
    bad.append(Message(order, b"{"))
    last = return_command("create", {"id": good, "orderId": order, "lineItems": lines_of({"a": 1})})
    await returns.service.publish("return-commands", *bad, last)
    await eventually(partial(returns.get, good))
    letters = {letter.value for letter in await returns.service.records("return-commands.dlq")}
    assert letters >= {message.value for message in bad}
    assert await returns.found(orderId=order) == [good]


async def test_a_return_before_its_order(returns: Returns, service: Service) -> None:
    order, id, command = new_id("order"), new_id("return"), new_id("command")
    wanted = {"id": id, "orderId": order, "resolution": "Exchange", "lineItems": lines_of({"a": 2})}
    await service.publish("return-commands", return_command("create", wanted, commandId=command))
    async with service.mongo() as database:
        parked = ReturnRepository(database)
        assert await eventually(partial(parked.waiting_for, command)) == {id}
        assert await returns.get(id) is None
        await returns.ordered({"a": 2}, id=order)
        row = await eventually(partial(returns.get, id))
        await eventually(partial(parked.waiting_for, command), lambda waiting: not waiting)
    assert row is not None
    assert (row["resolution"], row["order"]["id"]) == ("Exchange", order)
    assert await returns.available(order) == {"a": 0}
    await returns.told(id, "ReturnCreated")


async def test_a_smaller_order_takes_nothing_back(returns: Returns) -> None:
    order = await returns.ordered({"a": 3, "b": 1})
    id = await returns.create(order, {"a": 2, "b": 1})
    smaller = an_order(order, {"a": 1}, modifiedDate="2022-03-15T10:00:00Z")
    await returns.service.publish("order-events", order_event(smaller))
    await eventually(partial(returns.available, order), lambda available: available == {"a": 0})
    row = await returns.get(id)
    assert row is not None
    assert row["order"] == smaller
    assert [line["availableQuantity"] for line in row["lineItems"]] == [0, 0]
    await returns.change(id, status="Canceled")
    assert await returns.available(order) == {"a": 1}
