"""Lists of returns for a service desk: by status, customer, store and age, page by page."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from domain.sorting import Direction
from storage.database import Database
from storage.indexes import ensure_indexes
from storage.returns.repository import ReturnRepository
from storage.returns.search import ReturnSearch, ReturnSortField
from tests.support.facade import Facade, body_of, errors_of, new_id
from tests.support.orders import RETURNS, Returns
from tests.support.service import Json, Servers, own_database


@pytest.mark.long
async def test_filters(returns: Returns) -> None:
    customer, store = new_id("customer"), new_id("store")
    order, elsewhere = await asyncio.gather(
        returns.ordered({"a": 9}, customerId=customer), returns.ordered({"a": 9}, customerId=customer, storeId=store)
    )
    ids = [await returns.create(each, {"a": 1}) for each in (order, elsewhere, order)]
    await returns.change(ids[2], status="Completed")
    # As a form sends fields that were left empty.
    await returns.change(ids[1], status="", resolution="Refund")
    oldest = {"customerId": customer, "sort": "createdDate:asc"}

    assert await returns.found(**oldest) == ids
    assert await returns.found(**oldest, status="new") == ids[:2]
    assert await returns.found(**oldest, status=["COMPLETED", "New"]) == ids
    assert await returns.found(**oldest, status=["Approved", "a status that is no more"]) == []
    assert await returns.found(**oldest, storeId=store) == [ids[1]]
    assert await returns.found(**oldest, orderId=order, status="New") == [ids[0]]
    assert await returns.found(customerId=new_id("customer")) == []
    created = await returns.found("createdDate", **oldest)
    assert await returns.found(**oldest, startDate=created[1]) == ids[1:]
    assert await returns.found(**oldest, endDate=created[1]) == ids[:2]
    assert await returns.found(**oldest, startDate="", endDate="", status="New") == ids[:2]


async def test_counts_by_status(returns: Returns, http: httpx.AsyncClient) -> None:
    order = await returns.ordered({"a": 9})
    first, *_ = [await returns.create(order, {"a": 1}) for _ in range(3)]
    await returns.change(first, status="Canceled")
    search = {"orderId": order, "status": "Completed", "take": 1}
    counts = body_of(await http.post(f"{RETURNS}/counts", json=search), dict)
    assert {status: count for status, count in counts.items() if count} == {"New": 2, "Canceled": 1}
    assert {"New", "Canceled"} <= counts.keys()


@pytest.mark.long
async def test_pages_follow_one_another(returns: Returns, http: httpx.AsyncClient, facade: Facade) -> None:
    order = await returns.ordered({"a": 9})
    ids = [await returns.create(order, {"a": 1}) for _ in range(5)]
    for sort, expected in (("createdDate:asc", ids), ("Descending", ids[::-1]), ("createdBy;number", ids)):
        search: Json = {"orderId": order, "sort": sort, "take": 2}
        seen = []
        for count in (2, 2, 1):
            page = await returns.search(**search)
            assert (len(page["results"]), page["totalCount"]) == (count, 5)
            seen += [row["id"] for row in page["results"]]
            search["after"] = page.get("next")
        assert (seen, search["after"]) == (expected, None)
    first = body_of(await http.post(f"{RETURNS}/search", json={"orderId": order, "take": 1, "withTotal": False}), dict)
    assert list(first) == ["next", "results"]
    other = {"orderId": order, "status": "New", "after": first["next"]}
    assert errors_of(await http.post(f"{RETURNS}/search", json=other)) == [("/after", "unknown-page")]


@pytest.fixture
async def database(servers: Servers) -> AsyncIterator[Database]:
    """A database with 1,000 returns of two stores, each newer than those before, and a refused one."""
    async with own_database(servers) as database:
        await ensure_indexes(database, remember_days=7)
        begun, kept = datetime.now(UTC), {"orderId": "o", "status": "New", "lines": []}
        own: list[Json] = [
            {"_id": f"{n}", "number": f"RET{n:04}", "storeId": f"s{n % 2}", "createdDate": begun + timedelta(seconds=n)}
            for n in range(1_000)
        ]
        rows = [{**kept, **each} for each in own]
        await database["returns"].insert_many([*rows, {"_id": "refused", "refusedAt": begun}])
        yield database


async def documents_read(database: Database, look: Callable[[], Awaitable[Any]]) -> tuple[Any, int]:
    """The result of `look`, and the number of returns that MongoDB read for it."""
    await database.command("profile", 2)
    found = await look()
    await database.command("profile", 0)
    looks = await database["system.profile"].find({"ns": f"{database.name}.returns"}).to_list()
    await database["system.profile"].drop()
    return found, sum(each["docsExamined"] for each in looks)


@pytest.mark.parametrize("keyword", ["RET0123", " ret0123\t"])
async def test_number_is_found_by_an_index(database: Database, keyword: str) -> None:
    returns = ReturnRepository(database)
    for stores, found in ((None, ["123"]), (["s1"], ["123"]), (["s0"], [])):
        search = ReturnSearch(keyword=keyword, stores=stores, sort=[(ReturnSortField.CREATED_DATE, Direction.ASC)])
        page, _ = await documents_read(database, partial(returns.page, search))
        assert [each.id for each in page.found] == found
    search = ReturnSearch(keyword=keyword)
    for look in (returns.page, returns.count, partial(returns.count, most=9)):
        assert (await documents_read(database, partial(look, search)))[1] <= 3
    new = replace(search, statuses=["New"])
    count = partial(returns.count_at_bounded_cost, new, 1_000, among=10)
    assert await count() == 1
    assert (await documents_read(database, count))[1] <= 3


async def test_number_with_which_others_begin_finds_them_too(database: Database) -> None:
    returns = ReturnRepository(database)
    await database["returns"].update_one({"number": "RET0124"}, {"$set": {"number": "RET01230"}})

    async def found(**criteria: Any) -> list[str]:
        return [each.id for each in (await returns.page(ReturnSearch(keyword="ret0123", **criteria))).found]

    assert await found() == ["123", "124"]
    assert await found(ids=["124"]) == ["124"]
    assert await found(ids=["123"]) == ["123"]


async def test_part_of_a_number_is_counted_among_the_newest_returns(database: Database) -> None:
    returns = ReturnRepository(database)
    for keyword, most, expected in (("ret099", 9, 9), ("ret099", 20, 10), ("ret0", 100, 50), ("ret012", 100, 0)):
        search = ReturnSearch(keyword=keyword, statuses=["New"])
        count, read = await documents_read(database, partial(returns.count_at_bounded_cost, search, most, among=50))
        assert count == expected
        assert read <= 50
        assert await returns.count(search) == (1_000 if keyword == "ret0" else 10)


async def test_pages_in_default_order_use_an_index(database: Database) -> None:
    returns, searches = ReturnRepository(database), [ReturnSearch(), ReturnSearch(stores=["s1"])]
    await database.command("profile", 2)
    pages = [await returns.page(each) for each in searches]
    counts = [await returns.count(each) for each in searches]
    await database.command("profile", 0)
    assert [[each.id for each in page.found[:3]] for page in pages] == [["0", "1", "2"], ["1", "3", "5"]]
    assert counts == [1_000, 500]
    looks = await database["system.profile"].find({"ns": f"{database.name}.returns"}).sort("ts").to_list()
    assert [look["docsExamined"] for look in looks] == [21, 21, 0, 0]
    assert not any("hasSortStage" in look for look in looks)
