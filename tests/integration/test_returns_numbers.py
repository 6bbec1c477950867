"""Numbers of returns: unique within their store under every template, and independent of other stores."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from pymongo import ASCENDING, IndexModel

from tests.support.doctor import examined
from tests.support.facade import Facade, new_id, problem_of
from tests.support.messages import message
from tests.support.orders import Returns, return_command, wanted_return
from tests.support.service import Servers, Service
from tests.support.waiting import eventually

MANY = 45
"""More returns than the attempts of a consumer that tries numbers one after the other."""


def two_templates() -> tuple[str, str]:
    """Return templates that no other test uses: the same numbers for one sequence of a year, but two series."""
    prefix = new_id("x")
    return prefix + "{date:%Y}-{sequence:05d}", prefix + "{date:%Y}-0{sequence:04d}"


async def create_many(returns: Returns, store: str, count: int) -> list[str]:
    """Create returns of one order by Kafka, and wait for all; returns their numbers."""
    order = await returns.ordered({"a": count}, storeId=store)
    wanted = [wanted_return(order, {"a": 1}, id=new_id("return")) for _ in range(count)]
    await returns.service.publish("return-commands", *(return_command("create", each) for each in wanted))
    page = await eventually(partial(returns.search, orderId=order, take=1_000), lambda p: p["totalCount"] == count)
    return [row["number"] for row in page["results"]]


@pytest.mark.long
async def test_stores_do_not_share_numbers(returns: Returns, facade: Facade) -> None:
    mine, other = [await facade.open_store(returnNumberTemplate=template) for template in two_templates()]
    taken = await create_many(returns, other, MANY)
    order = await returns.ordered({"a": 2}, storeId=mine)
    for _ in range(2):
        await returns.create(order, {"a": 1})
    numbers = await returns.found("number", orderId=order)
    assert len(set(numbers)) == 2
    # The text is the same, each in its own store, unless a new year has begun in between.
    years = {number[-9:-5] for number in (*numbers, *taken)}
    assert len(years) == 2 or set(numbers) < set(taken)


async def test_free_numbers_are_found_after_template_change(returns: Returns, facade: Facade) -> None:
    before, after = two_templates()
    store = await facade.open_store(returnNumberTemplate=before)
    taken = await create_many(returns, store, MANY)
    await facade.open_store(store, returnNumberTemplate=after)
    order = await returns.ordered({"a": 1}, storeId=store)
    await returns.create(order, {"a": 1})
    (number,) = await returns.found("number", orderId=order)
    assert number not in taken


@pytest.mark.slow
async def test_concurrent_returns_by_several_workers_get_unique_numbers(
    own_service: Service, own_facade: Facade, own_returns: Returns
) -> None:
    own_service.start("worker", "worker2")
    await own_service.until_ready()
    templates = two_templates()
    store = await own_facade.open_store(returnNumberTemplate=templates[0])
    orders = [await own_returns.ordered({"a": 20}, storeId=store) for _ in range(10)]

    async def create(order: str) -> None:
        for _ in range(20):
            await own_returns.create(order, {"a": 1})

    async def change_the_template() -> None:
        for turn in range(1, 7):
            await own_facade.open_store(store, returnNumberTemplate=templates[turn % 2])

    await asyncio.gather(change_the_template(), *(create(order) for order in orders))
    page = await own_returns.search(take=1_000)
    assert len({row["number"] for row in page["results"]}) == page["totalCount"] == 200
    assert await own_service.records("return-commands.dlq") == []


@pytest.mark.long
async def test_index_of_earlier_version_is_replaced(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    async with service.mongo() as database:
        unique = IndexModel(
            [("number", ASCENDING)], name="number", unique=True, partialFilterExpression={"number": {"$type": "string"}}
        )
        await database["returns"].create_indexes([unique])
        assert "obsolete, from an earlier version: returns.number" in await examined(service, code=1)
        async with service.running(), service.client() as http:
            assert "number" not in await database["returns"].index_information()
            returns, facade = Returns(service, http), Facade(http)
            for template in two_templates():
                store = await facade.open_store(returnNumberTemplate=template)
                await returns.create(await returns.ordered({"a": 1}, storeId=store), {"a": 1})
            assert len(set(await returns.found("number"))) == 1


@pytest.mark.parametrize(
    ("template", "hint"),
    [
        ("RET{date:%y%m%d}{sequence:05d}", "not a digit"),
        ("RET{sequence:05d}7{date:%y%m%d}", "not a digit"),
        ("RET{date:%y%m%d}", "needs both"),
        ("RET{sequence:05d}", "needs both"),
        ("RET{date:-}{sequence:05d}", "has no date"),
    ],
)
async def test_ambiguous_template_is_refused_by_http_and_kafka(
    facade: Facade, service: Service, template: str, hint: str
) -> None:
    store, change = await facade.open_store(), {"settings": {"returnNumberTemplate": template}}
    (error,) = problem_of(await facade.http.put(f"/api/stores/{store}", json=change), 422)["errors"]
    assert (error["pointer"], error["code"]) == ("/settings/returnNumberTemplate", "invalid-template")
    assert hint in error["message"]
    await service.publish("store-updates", message({"id": store, **change}, store))
    (letter,) = await service.letters("store-updates", store, 1)
    assert hint in dict(letter.headers)["x-error-message"].decode()
