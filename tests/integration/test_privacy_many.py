"""Personal data among that of many others: no MongoDB query runs into the timeout of one minute."""

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Final

import pytest
from bson import ObjectId

from domain.delivery import Seen
from domain.orders import Customer
from storage.audit import AuditKind
from storage.database import Database
from storage.id_ranges import SIZE
from storage.indexes import ensure_indexes
from storage.orders.repository import document_of
from storage.privacy.repository import PersonalData
from storage.seen import seen_document
from tests.support.domain_orders import order_of
from tests.support.ranges import FilterRecorder, recorded_database
from tests.support.service import Json, Servers

pytestmark = pytest.mark.long

ANNA: Final = "anna"
GUEST: Final = "anna+1@example.com"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
HERS: Final = (0, SIZE - 1, SIZE, 2 * SIZE)
"""Positions of Anna's documents: at the edges of each range."""

WITHOUT_INDEX: Final = ("auditLog", "returns", "reports", "mails")
"""Collections without an index on user names: no other query would use it."""


@pytest.fixture
def recorder() -> FilterRecorder:
    return FilterRecorder(WITHOUT_INDEX)


@pytest.fixture
async def database(servers: Servers, recorder: FilterRecorder) -> AsyncIterator[Database]:
    """Two ranges and one document of each collection, those at HERS being Anna's."""
    async with recorded_database(servers, recorder) as database:
        await ensure_indexes(database, remember_days=21)
        for collection, documents in _documents():
            await database[collection].insert_many(documents)
        recorder.filters.clear()
        yield database


def _documents() -> Iterable[tuple[str, list[Json]]]:
    people = [ANNA if n in HERS else "berta" for n in range(2 * SIZE + 1)]
    ids = [f"{n:05}" for n in range(len(people))]
    edit = {"at": NOW, "action": "edit", "storeId": None, "reason": None, "commandId": None, "reviewId": "review"}
    yield "auditLog", [{**edit, "_id": ObjectId(f"{id:0>24}"), "subject": p} for id, p in zip(ids, people, strict=True)]
    yield "returns", [{"_id": id, "number": id, "createdBy": p} for id, p in zip(ids, people, strict=True)]
    spam = {"reviewId": "review", "reason": "spam", "explanation": "", "at": NOW, "name": None, "email": None}
    yield "reports", [{**spam, "_id": id, "userId": p} for id, p in zip(ids, people, strict=True)]
    mails = zip(ids, people, strict=True)
    yield "mails", [{"_id": id, "record": {"key": p.encode(), "value": id.encode()}} for id, p in mails]


async def test_person_is_found_and_erased_in_ranges(database: Database, recorder: FilterRecorder) -> None:
    data = PersonalData(database, ANNA)
    ids = [f"{n:05}" for n in HERS]
    assert [each.subject for each in await data.audit_entries()] == [ANNA] * len(HERS)
    assert [each.id for each in await data.reports()] == ids[::-1]
    assert [each.id for each in await data.orders.returns()] == ids
    assert [each.decode() for each in await data.waiting_mails()] == ids
    assert await data.forget_in_audit_log() == len(HERS)
    assert await data.forget_reports() == len(HERS)
    assert await data.forget_mails() == len(HERS)
    assert recorder.unbounded() == []
    assert {collection for collection, _ in recorder.filters} == set(WITHOUT_INDEX)
    assert (await data.audit_entries(), await data.reports(), await data.waiting_mails()) == ([], [], [])


async def test_orders_of_guest_are_exported_and_erased(database: Database) -> None:
    emails = {"a": "Anna+1@Example.com", "b": f"Anna Berg <{GUEST}>", "c": "anna11@example.com", "d": None}
    orders = [order_of(id=id, customer=Customer(None, "Anna Berg", email)) for id, email in emails.items()]
    orders.append(order_of(id="e", customer=Customer("4711", "Anna Berg", GUEST)))
    given_back: Json = {
        "number": "R1",
        "orderId": "a",
        "status": "New",
        "storeId": None,
        "resolution": "Mine",
        "lines": [],
    }
    times = {"createdDate": NOW, "modifiedDate": NOW, "createdBy": None, "modifiedBy": None}
    await database["orders"].insert_many([document_of(order) for order in orders])
    await database["returns"].insert_one({"_id": "r", **given_back, **times, "seen": seen_document(Seen())})
    data = PersonalData(database, GUEST)
    assert [each.id for each in await data.orders.all()] == ["a", "b"]
    assert [each.id for each in await data.orders.returns()] == ["r"]
    assert await data.orders.forget() == {"orders": 2, "returns": 1}
    left = {each["_id"]: each["customerEmail"] async for each in database["orders"].find()}
    assert left == {"a": None, "b": None, "c": emails["c"], "d": None, "e": GUEST}
    stored = await database["returns"].find_one({"_id": "r"})
    assert stored is not None
    assert stored["resolution"] is None
    again = PersonalData(database, GUEST)
    assert (await again.orders.all(), await again.orders.returns()) == ([], [])
    assert await PersonalData(database, ANNA).orders.all() == []


async def test_erasing_clerk_keeps_texts_of_guests(database: Database) -> None:
    customers = {
        "guest": Customer(None, "Bert", "bert@example.com"),
        "forgotten": Customer(),
        "named": Customer(None, "Bert"),
    }
    await database["orders"].insert_many([document_of(order_of(id=id, customer=c)) for id, c in customers.items()])
    by_clerk = {"createdDate": NOW, "modifiedDate": NOW, "createdBy": "clerk", "modifiedBy": "clerk"}
    about: Json = {
        "status": "New",
        "storeId": None,
        "resolution": "It broke",
        "lines": [],
        "seen": seen_document(Seen()),
    }
    returns = [{"_id": id, "number": f"R{id}", "orderId": id, **about, **by_clerk} for id in customers]
    await database["returns"].insert_many(returns)
    assert await PersonalData(database, "clerk").orders.forget() == {"orders": 0, "returns": 3}
    left = {
        each["_id"]: (each.get("createdBy"), each.get("resolution"))
        async for each in database["returns"].find({"_id": {"$in": list(customers)}})
    }
    assert left == {"guest": (None, "It broke"), "named": (None, "It broke"), "forgotten": (None, None)}


async def test_audit_log_forgets_customers_but_not_moderators(database: Database) -> None:
    entry = {"at": NOW, "subject": "carla", "storeId": None, "reason": None, "commandId": None}
    own: list[Json] = [{"action": "edit", "reviewId": "r"}, {"action": "delete", "returnId": "r"}]
    staff: list[Json] = [{"action": "delete", "reviewId": "r"}, {"action": "change", "kind": "settings"}]
    await database["auditLog"].insert_many([{**entry, **each} for each in (*own, *staff)])
    data = PersonalData(database, "carla")
    assert await data.forget_in_audit_log() == len(own)
    assert [each.kind for each in await data.audit_entries()] == [AuditKind.SETTINGS, AuditKind.REVIEW]


async def test_parked_commands_keep_names_and_texts_of_others(database: Database) -> None:
    def about_r(command: Json) -> Json:
        return {"kind": "feedback", "command": {**command, "reviewId": "r"}}

    feedback: list[Json] = [
        {"action": "reply", "text": "Thanks", "moderator": "dora"},
        {"action": "remove-reply", "moderator": "dora"},
        {"action": "reply", "text": "Thanks", "moderator": "clerk"},
    ]
    waiting: list[Json] = [
        {"_id": 1, "moderator": "dora", "reason": "Mine"},
        {"_id": 2, "moderator": "clerk", "reason": "As dora wants it"},
        {"_id": 3, "moderator": "clerk", "reason": "As anna-dora wants it"},
        {"_id": 4, "moderator": "dora", "reason": None},
        *({"_id": f"feedback/0-{n}-1/r", "source": [0, n, 1], **about_r(each)} for n, each in enumerate(feedback, 5)),
    ]
    await database["parkedCommands"].insert_many(waiting)
    assert [each.action for each in await PersonalData(database, "dora").parked_feedback()] == ["reply", "remove-reply"]
    assert await PersonalData(database, "dora").forget_parked() == 5
    found = [each async for each in database["parkedCommands"].find().sort("_id")]
    assert [each["command"]["moderator"] for each in found[4:]] == [None, None, "clerk"]
    assert [each.action for each in await PersonalData(database, "clerk").parked_feedback()] == ["reply"]
    left = [(each["moderator"], each["reason"]) for each in found[:4]]
    assert left == [(None, None), ("clerk", None), ("clerk", "As anna-dora wants it"), (None, None)]
    assert await PersonalData(database, "dora").forget_parked() == 0
