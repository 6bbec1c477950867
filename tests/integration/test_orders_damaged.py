"""Stored orders that have lost fields, as after a failed restore."""

from functools import partial

from storage.database import in_transaction
from storage.mending import Mender
from tests.support.consumers import Desk, opened_desk
from tests.support.facade import new_id
from tests.support.orders import an_order, wanted_return
from tests.support.service import Json, Servers


async def available(desk: Desk, order: str) -> dict[str, int]:
    found = await desk.services.orders.get(order)
    assert found is not None
    return found.available()


async def create(desk: Desk, order: str, quantity: int) -> None:
    wanted = wanted_return(order, {"a": quantity}, id=new_id("return"))
    await desk.command_returns(desk.records({"action": "create", "return": wanted}))


async def test_null_for_returned_quantities_is_no_quantity(servers: Servers) -> None:
    async with opened_desk(servers) as desk:
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
