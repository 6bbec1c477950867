"""A person is exported and erased although some of the documents about them are damaged."""

import json
from datetime import UTC, datetime
from typing import Final

import pytest

from domain.delivery import Seen
from domain.orders import Customer, OrderLine
from plaudit.tools.privacy_erasure import forget_everywhere
from storage.database import Database
from storage.orders.repository import document_of
from storage.privacy.repository import PersonalData
from storage.seen import seen_document
from tests.support.domain_orders import order_of
from tests.support.service import Json

ANNA, WORDS, STREET = "anna", "Nobody else would put it like this", "Lindenallee 7"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def an_order(id: str, customer: str | None = ANNA) -> Json:
    """Return the document of an order with one line."""
    body = {"id": id, "customerId": customer, "address": STREET, "items": [{"id": "line", "quantity": 5}]}
    line = OrderLine("line", "camera", "Camera", 5)
    order = order_of([line], id=id, customer=Customer(customer, customer), body=json.dumps(body).encode())
    return document_of(order)


def a_return(id: str, order: str, by: str = ANNA) -> Json:
    """Return the document of a return with one line."""
    by_whom = {"createdBy": by, "modifiedBy": "clerk", "createdDate": NOW, "modifiedDate": NOW}
    line = {"id": "1", "orderLineItemId": "line", "quantity": 1, "price": None, "reason": WORDS, **by_whom}
    about = {"_id": id, "number": id, "orderId": order, "status": "New", "storeId": None, "origin": 1}
    return {**about, "resolution": WORDS, "lines": [line], **by_whom, "seen": seen_document(Seen())}


def without(document: Json, *names: str) -> Json:
    """Return a document that has lost fields."""
    return {name: value for name, value in document.items() if name not in names}


async def erase(database: Database, person: str = ANNA) -> tuple[dict[str, int], set[str]]:
    """Erase a person; returns the numbers of documents, and the damaged ones."""
    data = PersonalData(database, person)
    return await forget_everywhere(data), data.damaged


async def test_person_is_removed_from_damaged_returns(database: Database) -> None:
    line = a_return("x", "own")["lines"][0]
    damaged: list[Json] = [
        without(a_return("without-lines", "own"), "lines"),
        without(a_return("without-status", "own"), "status"),
        without(a_return("without-order", "own"), "orderId"),
        {**a_return("one-line", "own"), "lines": line},
        {**a_return("some-lines", "own"), "lines": [line, WORDS, without(line, "id")]},
        {**a_return("listed", "own"), "resolution": [WORDS], "lines": None},
    ]
    whole = [a_return(f"whole-{n:03}", "own") for n in range(150)]
    await database["orders"].insert_one(an_order("own"))
    await database["returns"].insert_many([*whole[:75], *damaged, *whole[75:]])
    counts, noted = await erase(database)
    assert (counts["orders"], counts["returns"]) == (1, 156)
    assert noted == {f"return {each['_id']}" for each in damaged}
    stored = await database["returns"].find().to_list()
    assert [each["_id"] for each in stored if WORDS in str(each) or ANNA in str(each)] == []
    # They stay damaged: nobody may take them for returns of less.
    left = {each["_id"]: each for each in stored}
    assert "status" not in left["without-status"]
    assert left["without-status"]["lines"][0]["quantity"] == 1
    assert [each and each["quantity"] for each in left["some-lines"]["lines"]] == [1, None, 1]
    assert left["some-lines"]["modifiedBy"] == "clerk"
    assert await erase(database) == (dict.fromkeys(counts, 0), set())


async def test_texts_of_others_stay_in_damaged_returns(database: Database) -> None:
    await database["orders"].insert_one(without(an_order("of-berta", "berta"), "lines", "returned"))
    await database["returns"].insert_many(
        [a_return("whole", "of-berta"), without(a_return("damaged", "of-berta"), "status")]
    )
    counts, noted = await erase(database)
    assert (counts["returns"], noted) == (2, {"return damaged"})
    for left in await database["returns"].find().to_list():
        (line,) = left["lines"]
        assert (left["createdBy"], left["modifiedBy"], left["resolution"]) == (None, "clerk", WORDS)
        assert (line["createdBy"], line["modifiedBy"], line["reason"]) == (None, "clerk", WORDS)


@pytest.mark.parametrize(
    ("lost", "change"),
    [
        (("lines",), {}),
        (("returned",), {}),
        (("number", "modified", "observations"), {}),
        ((), {"status": 5}),
        ((), {"lines": [{"id": "line"}], "customerEmail": ["anna@example.com"]}),
        ((), {"body": b"{"}),
        ((), {"body": 5}),
        ((), {"body": b"[1]"}),
    ],
)
async def test_person_is_removed_from_damaged_order(database: Database, lost: tuple[str, ...], change: Json) -> None:
    order = {**without(an_order("own"), *lost), **change}
    await database["orders"].insert_many([order, an_order("other")])
    await database["returns"].insert_many([a_return("a", "other"), without(a_return("b", "own"), "lines")])
    counts, _ = await erase(database)
    assert (counts["orders"], counts["returns"]) == (2, 2)
    left = {each["_id"]: each async for each in database["orders"].find()}
    assert [id for id, each in left.items() if ANNA in str(each) or STREET in str(each)] == []
    assert left["own"].keys() == order.keys()
    assert left["own"]["statusKey"] == order["statusKey"]
    if not isinstance(order.get("body"), bytes) or order["body"] in (b"{", b"[1]"):
        assert json.loads(left["own"]["body"])["items"][0]["quantity"] == 5


async def test_damaged_waiting_return_stops_nobody(database: Database) -> None:
    command = {"action": "create", "user": ANNA, "return": {"orderId": "o", "resolution": WORDS, "lineItems": []}}
    value = json.dumps(command).encode()
    waiting: list[Json] = [
        {"_id": "whole", "orderId": "o", "source": [0, 1, 2], "parkedAt": NOW, "value": value},
        {"_id": "without value", "orderId": "o", "source": [0, 1, 2], "parkedAt": NOW},
        {"_id": "without time", "orderId": "o", "value": value},
        {"_id": "without order", "value": value},
        {"_id": {"returnId": "of-an-earlier-version", "orderId": "o"}, "orderId": "o", "parkedAt": NOW, "value": value},
        {"_id": "cut", "orderId": "o", "source": [0, 1, 2], "parkedAt": NOW, "value": value[:-1]},
        {"_id": "no return", "orderId": "o", "source": [0, 1, 2], "parkedAt": NOW, "value": b'{"user": "anna"}'},
    ]
    await database["parkedReturns"].insert_many(waiting)
    assert len(await PersonalData(database, "berta").parked_returns()) == 0
    assert len(await PersonalData(database, ANNA).parked_returns()) == 6
    counts, noted = await erase(database)
    assert counts["waiting"] == 6
    assert noted == {"waiting return cut", "waiting return no return"}
    left = {str(each["_id"]): each.get("value") async for each in database["parkedReturns"].find()}
    assert [id for id, each in left.items() if ANNA in str(each) or WORDS in str(each)] == []
    assert left["whole"] == left["without time"] == b'{"action": "create", "return": {"orderId": "o", "lineItems": []}}'


@pytest.mark.parametrize("damage", [{"reply": 5}, {"helpful": "one"}])
async def test_votes_on_damaged_reviews_are_removed(database: Database, damage: Json) -> None:
    review = {"entityType": "Product", "entityId": "camera", "storeId": None, "helpful": 2, "notHelpful": 1}
    others = {"kept": review, "only": {**review, "helpful": 1}, "against": review}
    for id, document in {"damaged": {**review, **damage}, **others}.items():
        await database["reviews"].insert_one({"_id": id, **document})
        ids = [{"reviewId": id, "userId": voter} for voter in (ANNA, "ben")]
        vote = {"helpful": id != "against", "at": [0, 1, 1]}
        await database["votes"].insert_many([{"_id": each, **vote} for each in ids])
    forgotten, _ = await erase(database)
    assert forgotten["votes"] == 4
    assert {each["_id"]["userId"] async for each in database["votes"].find()} == {"ben"}
    found = {each["_id"]: (each.get("helpful"), each.get("notHelpful")) async for each in database["reviews"].find()}
    assert found.pop("damaged") == (damage.get("helpful", 1), 1)
    assert found == {"kept": (1, 1), "only": (None, 1), "against": (2, None)}
