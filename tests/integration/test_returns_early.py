"""Returns that arrive before their order, and the commands after them: they wait, and take effect in order."""

import json
import random
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import orjson
import pytest
from pymongo.read_concern import ReadConcern

from domain.commands import Outcome
from domain.orders import Order
from messaging.dead_letters_replays import replayed_message
from messaging.topics import DEAD_LETTER_SUFFIX, Topic
from storage.database import Session
from storage.outcomes import OutcomeRepository
from storage.returns.parking import COLLECTION as PARKED
from storage.returns.parking import MOST_OF_ORDER
from tests.support.consumers import LONG_AGO, Desk
from tests.support.facade import new_id
from tests.support.messages import Message
from tests.support.orders import Returns, an_order, lines_of, order_event, return_command, wanted_return
from tests.support.service import FLOW_OF_RETURNS, Json, Service
from tests.support.waiting import eventually

COMMANDS = "return-commands"


def creation(order: str, id: str, quantity: int = 1, **fields: Any) -> Message:
    return return_command("create", wanted_return(order, {"a": quantity}, id=id), order, **fields)


def change(order: str, id: str, *, user: str | None = None, command: str | None = None, **changes: Any) -> Message:
    optional = {"user": user, "commandId": command}
    return return_command("update", {"id": id, **changes}, order, **{n: v for n, v in optional.items() if v})


def deletion(order: str, id: str, **fields: Any) -> Message:
    return return_command("delete", {"id": id}, order, **fields)


async def parked(service: Service, count: int, **matching: Any) -> None:
    async with service.mongo() as database:
        # As the API reads, which sees a transaction a moment later otherwise.
        commands = database.get_collection(PARKED, read_concern=ReadConcern("majority"))
        await eventually(partial(commands.count_documents, matching), lambda found: found == count)


async def outcomes(service: Service, *keys: tuple[str, str]) -> list[Outcome]:
    async with service.mongo() as database:
        found = await OutcomeRepository(database).answers(keys)
        return [found[key].outcome for key in keys]


async def test_parked_commands_take_effect_in_order(returns: Returns, service: Service) -> None:
    order, canceled, deleted, resolved = new_id("order"), new_id("canceled"), new_id("deleted"), new_id("resolved")
    command = new_id("command")
    await service.publish(
        COMMANDS,
        creation(order, canceled, 2),
        change(order, canceled, status="Approved", command=f"{command}-approve"),
        change(order, canceled, status="Canceled", expectedStatus="Approved", command=f"{command}-cancel"),
        creation(order, deleted, 2),
        deletion(order, deleted, commandId=f"{command}-delete"),
        creation(order, resolved, 1),
        change(order, resolved, orderId=order, lineItems=lines_of({"a": 2}), resolution="Exchange"),
        change(order, resolved, lineItems=lines_of({"a": 3}), command=f"{command}-many"),
    )
    await parked(service, 8, orderId=order)
    state = (await returns.http.get(f"/api/commands/{command}-cancel")).json()
    assert state["results"] == [{"id": canceled, "outcome": "not-found"}]
    assert state["outcome"] == "accepted"
    await returns.ordered({"a": 2}, id=order)
    await parked(service, 0, orderId=order)
    assert (await returns.existing(canceled))["status"] == "Canceled"
    assert await returns.get(deleted) is None
    row = await returns.existing(resolved)
    assert (row["resolution"], row["lineItems"][0]["quantity"]) == ("Exchange", 2)
    assert await returns.available(order) == {"a": 0}
    await returns.wait_for_events(canceled, "ReturnCreated", "ReturnChanged", "ReturnChanged")
    await returns.wait_for_events(deleted, "ReturnCreated", "ReturnDeleted")
    await returns.wait_for_events(resolved, "ReturnCreated", "ReturnChanged", "ReturnRefused")
    keys = [(f"{command}-{name}", id) for name, id in (("approve", canceled), ("cancel", canceled))]
    assert await outcomes(service, *keys) == [Outcome.APPLIED] * 2
    assert await outcomes(service, (f"{command}-delete", deleted)) == [Outcome.APPLIED]
    assert await outcomes(service, (f"{command}-many", resolved)) == [Outcome.REFUSED]


async def test_change_of_unknown_return_is_refused_at_once(returns: Returns, service: Service) -> None:
    order, id, other = new_id("order"), new_id("return"), new_id("return")
    await service.publish(COMMANDS, change(order, id, orderId=order, status="Approved"), creation(order, id))
    await service.publish(COMMANDS, deletion(order, other))
    await returns.wait_for_events(id, "ReturnRefused")
    await returns.wait_for_events(other, "ReturnRefused")
    await parked(service, 1, orderId=order)
    await returns.ordered({"a": 2}, id=order)
    await returns.wait_for_events(id, "ReturnRefused", "ReturnCreated")


@pytest.mark.long
async def test_id_chosen_by_two_senders(returns: Returns, service: Service) -> None:
    """A parked command is decided when its order arrives, even if later commands about the id have been applied."""
    early, known, id = new_id("order"), await returns.ordered({"a": 3}), new_id("return")
    await service.publish(COMMANDS, creation(early, id, commandId=id))
    await parked(service, 1, orderId=early)
    # With the key of the first command, so that it follows it.
    await service.publish(COMMANDS, return_command("create", wanted_return(known, {"a": 2}, id=id), early))
    await service.publish(COMMANDS, change(early, id, resolution="Repair"))
    await eventually(partial(returns.get, id), lambda row: row is not None and row["resolution"] == "Repair")
    await returns.ordered({"a": 3}, id=early)
    await parked(service, 0, orderId=early)
    assert await returns.available(early) == {"a": 3}
    assert await outcomes(service, (id, id)) == [Outcome.REFUSED]
    assert (await returns.existing(id))["order"]["id"] == known


async def test_commands_parked_by_earlier_version(returns: Returns, service: Service) -> None:
    order, ids, command = new_id("order"), [new_id("old"), new_id("older")], new_id("command")
    values = [orjson.dumps({"action": "create", "return": wanted_return(order, {"a": 1}, id=id)}) for id in ids]
    kept = {"orderId": order, "parkedAt": datetime.now(UTC)}
    async with service.mongo() as database:
        place = {"_id": {"returnId": ids[0], "orderId": order}, "returnId": ids[0], "commandId": command}
        await database[PARKED].insert_many(
            [place | kept | {"value": values[0]}, {"_id": ids[1], "value": values[1], **kept}]
        )
    # Sent with its order, which makes the owner known.
    await service.publish(COMMANDS, change(order, ids[0], orderId=order, status="Approved"))
    await parked(service, 3, orderId=order)
    await returns.ordered({"a": 2}, id=order)
    await parked(service, 0, orderId=order)
    assert [(await returns.existing(id))["status"] for id in ids] == ["Approved", "New"]
    assert await outcomes(service, (command, ids[0])) == [Outcome.APPLIED]


@pytest.mark.long
@pytest.mark.kafka
async def test_redelivery_before_and_after_the_order(own_returns: Returns, own_service: Service) -> None:
    order, canceled, deleted, late = (new_id(name) for name in ("order", "canceled", "deleted", "late"))
    ids = (canceled, deleted, late)
    await own_service.publish(
        COMMANDS,
        *(creation(order, canceled, 2), creation(order, deleted, 1), creation(order, late, 1)),
        *(
            change(order, canceled, status="Canceled"),
            deletion(order, deleted),
            change(order, late, resolution="first"),
        ),
    )
    await parked(own_service, 6)
    await own_service.replay(topics=FLOW_OF_RETURNS)
    await parked(own_service, 6)
    await own_service.publish(COMMANDS, change(order, late, resolution="second"))
    await own_returns.ordered({"a": 4}, id=order)
    await own_service.publish(COMMANDS, change(order, late, resolution="third"))

    async def shown() -> list[Any]:
        rows = [await own_returns.get(id) for id in ids]
        return [row and (row["status"], row["resolution"]) for row in rows]

    expected = [("Canceled", None), None, ("New", "third")]
    await eventually(shown, lambda found: found == expected)
    await own_service.idle(topics=FLOW_OF_RETURNS)
    published = await eventually(partial(own_returns.events, *ids), lambda events: len(events) >= 8)
    assert len(published) == 8
    await own_service.replay(topics=FLOW_OF_RETURNS)
    await parked(own_service, 0)
    assert await shown() == expected
    assert await own_returns.events(*ids) == published
    assert await own_returns.available(order) == {"a": 3}


@pytest.mark.long
@pytest.mark.kafka
async def test_overdue_commands_are_refused_permanently(own_returns: Returns, own_service: Service) -> None:
    order, id, young = new_id("order"), new_id("return"), new_id("young")
    sent = [creation(order, id, commandId="create"), change(order, id, status="Approved"), deletion(order, id)]
    await own_service.publish(COMMANDS, *sent, creation(order, young))
    await parked(own_service, 4)
    async with own_service.mongo() as database:
        old = {"$set": {"parkedAt": datetime.now(UTC) - timedelta(hours=2)}}
        await database[PARKED].update_one({"commandId": "create"}, old)
    # The commands behind the create expire with it.
    await own_returns.wait_for_events(id, *["ReturnRefused"] * 3)
    await parked(own_service, 1)
    assert await outcomes(own_service, ("create", id)) == [Outcome.REFUSED]
    await own_service.replay(topics=FLOW_OF_RETURNS)
    await parked(own_service, 1)
    await own_returns.ordered({"a": 2}, id=order)
    await own_returns.wait_for_events(young, "ReturnCreated")
    await own_returns.wait_for_events(id, *["ReturnRefused"] * 3)
    assert await own_returns.found() == [young]


@pytest.mark.kafka
@pytest.mark.slow
async def test_killed_workers_lose_nothing(own_returns: Returns, own_service: Service) -> None:
    chance, service = random.Random(38), own_service
    service.start("worker", "worker-2")
    await service.until_ready()
    orders = [new_id("order") for _ in range(60)]
    ends = {order: chance.choice(["Canceled", "Completed", "deleted"]) for order in orders}
    for part in range(3):
        some = orders[part * 20 :][:20]
        events = [order_event(an_order(order, {"a": 1})) for order in some]
        first = [m for o in some for m in (creation(o, o), change(o, o, status="Approved", expectedStatus="New"))]
        last = [
            deletion(o, o) if ends[o] == "deleted" else change(o, o, status=ends[o], expectedStatus="Approved")
            for o in some
        ]
        chance.shuffle(events)
        await service.publish(COMMANDS, *first)
        await service.publish("order-events", *events[:10])
        await service.publish(COMMANDS, *last[:15])
        name = ("worker", "worker-2", "worker-3")[part]
        service.processes.pop(name).kill()
        service.start("worker", f"worker-{part + 3}")
        await service.publish("order-events", *events[10:])
        await service.publish(COMMANDS, *last[15:])
    for topic in ("order-events", COMMANDS):
        await eventually(partial(service.lag, topic), lambda lag: lag == 0, deadline_s=180)
    await parked(service, 0)
    shown = {o: row["status"] if (row := await own_returns.get(o)) else "deleted" for o in orders}
    assert shown == ends

    async def unpublished() -> list[str]:
        """Return the orders whose events are still unpublished: those of a killed worker come late."""
        kinds_by_order = {o: {kind for kind, _ in await own_returns.events(o)} for o in orders}
        return [o for o, kinds in kinds_by_order.items() if not {"ReturnCreated", "ReturnChanged"} <= kinds]

    await eventually(unpublished, lambda found: not found)


async def test_order_that_arrives_during_transaction_is_seen(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that found no order is informed of one that arrived, and parks nothing of it."""
    order, id, looks = new_id("order"), new_id("return"), 0
    orders = desk.services.orders
    look = orders.of_ids

    async def find_then_add_order(ids: Collection[str], session: Session, **options: Any) -> dict[str, Order]:
        nonlocal looks
        looks += 1
        found = await look(ids, session, **options)
        if looks == 1:
            monkeypatch.setattr(orders, "of_ids", look)
            await desk.order(an_order(order, {"a": 2}))
            monkeypatch.setattr(orders, "of_ids", find_then_add_order)
        return found

    monkeypatch.setattr(orders, "of_ids", find_then_add_order)
    wanted = {"action": "create", "return": wanted_return(order, {"a": 2}, id=id)}
    await desk.command_returns(desk.records(wanted))
    assert looks == 2
    assert [kind for kind, _ in desk.events()] == ["ReturnCreated"]
    assert await desk.database[PARKED].count_documents({}) == 0
    # Placeholders of missing orders are removed again.
    others = [{"action": "create", "return": wanted_return(new_id("order"), {"a": 1})} for _ in range(2)]
    await desk.command_returns(desk.records(*others))
    assert await desk.database[PARKED].count_documents({}) == 2
    assert [each["_id"] async for each in desk.database["orders"].find()] == [order]


async def test_redelivered_refusal_stays_refused_after_parked_command(desk: Desk) -> None:
    """The clock of the sender of the parked command is ahead of that of the next one."""
    early, known, id = new_id("order"), new_id("order"), new_id("return")
    await desk.order(an_order(known, {"a": 1}))
    parked = desk.records({"action": "create", "return": wanted_return(early, {"a": 2}, id=id)}, at=LONG_AGO + 5)
    refused = desk.records({"action": "create", "return": wanted_return(known, {"a": 2}, id=id)}, at=LONG_AGO)
    await desk.command_returns([*parked, *refused])
    await desk.order(an_order(early, {"a": 1}))
    assert await desk.database[PARKED].count_documents({}) == 0
    # By now, the order would allow it.
    await desk.order(an_order(known, {"a": 2}, modifiedDate="2023-01-01T00:00:00Z"))
    for records in (refused, [*parked, *refused]):
        await desk.command_returns(records)
    events = [(kind, data["orderId"]) for kind, data in desk.events()]
    assert events == [("ReturnRefused", known), ("ReturnRefused", early)]


@pytest.mark.long
async def test_parked_commands_of_one_order_are_limited(desk: Desk) -> None:
    order, other, small, large = new_id("order"), new_id("order"), "Small", "x" * 1_000
    for start in range(0, MOST_OF_ORDER, 500):
        few = [wanted_return(order, {"a": 1}, id=f"r-{start + n}", resolution=small) for n in range(500)]
        await desk.command_returns(desk.records(*({"action": "create", "return": each} for each in few)))
    last, late = f"r-{MOST_OF_ORDER - 1}", "r-late"
    too_many = desk.records(
        {"action": "create", "return": wanted_return(order, {"a": 1}, id=late), "commandId": "late"},
        {"action": "update", "return": {"id": last, "status": "Approved"}},
        {"action": "create", "return": wanted_return(other, {"a": 1}, id="r-other")},
    )
    for _ in range(2):
        await desk.command_returns(too_many)
    assert await desk.database[PARKED].count_documents({"orderId": order}) == MOST_OF_ORDER
    assert await desk.database[PARKED].count_documents({"orderId": other}) == 1
    reasons = [(kind, data["returnId"], data["reasons"][0]) for kind, data in desk.events()]
    refusals = [(kind, id, reason["code"], reason["pointer"]) for kind, id, reason in reasons]
    places = {late: "/orderId", last: "/id"}  # The change names no order.
    assert refusals == [("ReturnRefused", id, "unknown-order", place) for id, place in places.items()]
    assert await desk.outcomes(late, "late") == [Outcome.REFUSED]
    await desk.order(an_order(order, {"a": MOST_OF_ORDER}))
    created = {data["returnId"] for kind, data in desk.events() if kind == "ReturnCreated"}
    assert created == {f"r-{number}" for number in range(MOST_OF_ORDER)}
    assert await desk.database[PARKED].count_documents({"orderId": order}) == 0
    # Room that becomes free is used.
    lines = [{"orderLineItemId": "a", "quantity": 1, "reason": large}] * 900
    wide = [{"action": "create", "return": {"id": f"w-{n}", "orderId": other, "lineItems": lines}} for n in range(3)]
    await desk.command_returns(desk.records(*wide))
    waiting = [each["return"] async for each in desk.database[PARKED].find().sort("_id")]
    assert sorted(waiting) == ["r-other", "w-0", "w-1"]


async def test_redelivered_parked_commands_need_no_more_room(desk: Desk) -> None:
    order, ids = new_id("order"), ["w-0", "w-1"]
    lines = [{"orderLineItemId": "a", "quantity": 1, "reason": "x" * 1_000}] * 900
    records = desk.records(
        *(
            {"action": "create", "return": {"id": id, "orderId": order, "lineItems": lines}, "commandId": f"c-{id}"}
            for id in ids
        )
    )
    for _ in range(2):
        await desk.command_returns(records)
    await desk.order(an_order(order, {"a": 1_800}))
    assert [(kind, data["returnId"]) for kind, data in desk.events()] == [("ReturnCreated", id) for id in ids]
    assert [await desk.outcomes(id, f"c-{id}") for id in ids] == [[Outcome.APPLIED]] * 2


async def test_return_has_number_of_its_own_store(desk: Desk) -> None:
    """Another command wants to create a return with the same id for another store's order."""
    orders = []
    for name in ("A", "B"):
        store = await desk.open_store(returnNumberTemplate=name + "{date:%y}-{sequence:d}")
        orders.append(new_id("order"))
        await desk.order(an_order(orders[-1], {"a": 1}, storeId=store))
    rivals = [wanted_return(order, {"a": 1}, id="r") for order in orders]
    await desk.command_returns(desk.records(*({"action": "create", "return": each} for each in rivals)))
    assert [kind for kind, _ in desk.events()] == ["ReturnCreated", "ReturnRefused"]
    stored = await desk.database["returns"].find_one({"_id": "r"}) or {}
    assert (stored["orderId"], stored["number"][0]) == (orders[0], "A")


async def test_replayed_change_takes_effect_once(desk: Desk) -> None:
    """A replay that was interrupted is published again, after others have changed the return."""
    order = new_id("order")
    await desk.order(an_order(order, {"a": 1}))
    change: Json = {"action": "update", "return": {"id": "r", "status": "Approved"}}
    (letter,) = desk.records(change)
    letter.topic = f"{Topic.RETURN_COMMANDS}{DEAD_LETTER_SUFFIX}"
    replayed = json.loads(replayed_message(letter).value or b"")
    created = {"action": "create", "return": wanted_return(order, {"a": 1}, id="r")}
    canceled = {"action": "update", "return": {"id": "r", "status": "Canceled"}}
    for each in (created, replayed, canceled, replayed):
        await desk.command_returns(desk.records(each))
    assert (await desk.database["returns"].find_one({"_id": "r"}) or {})["status"] == "Canceled"
