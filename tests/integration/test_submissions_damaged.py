"""Submissions that need a damaged document: a store, an object, a used review token or an order."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from domain.findings import Level
from domain.review_tokens import ReviewToken, sign_token
from storage import checks
from storage.checks import check_documents, check_mongo
from tests.support.consumers import Desk
from tests.support.facade import new_id
from tests.support.orders import an_order
from tests.support.service import Json

CUSTOMER: Final = "anna"
DAMAGE: Final[dict[str, list[Json]]] = {
    "stores": [{"settings": None}, {"languages": 5}, {"settings.moderationRules": [5]}],
    "objects": [{"facts": None}, {"told": {"name": 5}}],
    "usedReviewTokens": [{"productId": None}, {"reviewId": 5}],
}
CASES: Final = [(collection, damage) for collection, damages in DAMAGE.items() for damage in damages]


async def signed(desk: Desk, order: str, store: str, product: str) -> str:
    """A review token for the first line of an order."""
    expires = datetime.now(UTC) + timedelta(days=1)
    token = ReviewToken(store, order, "a", product, CUSTOMER, expires)
    return sign_token(token, await desk.services.review_tokens.signing_key())


def dead_letters(desk: Desk) -> list[dict[str, bytes | None]]:
    return [dict(each.headers) for each in desk.kafka.published if each.topic.endswith(".dlq")]


@pytest.mark.parametrize(("collection", "damage"), CASES)
async def test_only_submissions_that_need_damaged_document_become_dead_letters(
    desk: Desk, collection: str, damage: Json
) -> None:
    stores, order = [await desk.open_store() for _ in range(2)], new_id("order")
    token = await signed(desk, order, stores[0], desk.product)
    id = {"entityType": "Product", "entityId": desk.product, "storeId": stores[0]}
    await desk.database["objects"].insert_one({"_id": id, "facts": {"name": "Camera"}, "told": {"name": [0, 0, 0]}})
    used = {"reviewId": "r-1", "storeId": stores[0], "productId": "other", "customerId": CUSTOMER}
    line = {"orderId": order, "lineId": "a"}
    await desk.database["usedReviewTokens"].insert_one({"_id": line, **used, "usedAt": datetime.now(UTC)})
    documents = desk.database[collection]
    wanted: Json = {"_id": {"stores": stores[0], "objects": id, "usedReviewTokens": line}[collection]}
    before = await documents.find_one(wanted)
    assert before is not None
    await documents.update_one(wanted, {"$set": damage})
    needing = desk.review(storeId=stores[0], userId=CUSTOMER, token=token)
    records = desk.records(needing, desk.review(storeId=stores[1]), desk.review(storeId=stores[1]))
    await desk.submit(records)
    (letter,) = dead_letters(desk)
    assert letter["x-error-code"] == b"stored-document"
    assert f"of the collection {collection}" in (letter["x-error-message"] or b"").decode()
    assert await desk.database["reviews"].count_documents({"storeId": stores[1]}) == 2
    # Once it is repaired, the dead letter can be replayed.
    await documents.replace_one(wanted, before)
    await desk.submit(records[:1])
    assert (await desk.stored(needing["id"]))["storeId"] == stores[0]


async def test_token_of_a_line_whose_id_has_another_product_than_its_field_is_used(desk: Desk) -> None:
    store, order, lens = await desk.open_store(), new_id("order"), new_id("lens")
    # Two lines of the order have one id; the second one is stored with its product in the id.
    for product in (desk.product, lens):
        token = await signed(desk, order, store, product)
        await desk.submit(desk.records(desk.review(storeId=store, userId=CUSTOMER, EntityId=product, token=token)))
    line = {"_id.orderId": order, "_id.productId": lens}
    changed = await desk.database["usedReviewTokens"].update_one(line, {"$set": {"productId": "other"}})
    assert changed.modified_count == 1
    again = desk.review(storeId=store, userId=CUSTOMER, EntityId=lens, token=await signed(desk, order, store, lens))
    other = desk.review(storeId=store)
    await desk.submit(desk.records(again, other))
    (refused,) = [data for kind, data in desk.events() if kind == "SubmissionRefused"]
    assert (refused["reviewId"], refused["code"]) == (again["id"], "token-used")
    assert (await desk.stored(other["id"]))["storeId"] == store
    assert dead_letters(desk) == []


@pytest.mark.parametrize(
    "damage",
    [
        {"lines": {"id": "a", "productId": "lens", "quantity": 1}},
        {"lines": [[{"id": "a", "productId": "lens", "quantity": 1}]]},
        {"lines": [{"id": "a", "productId": ["lens"], "quantity": 1}]},
        {"lines": "lens"},
    ],
)
async def test_order_with_damaged_lines_proves_no_purchase_and_fails_none(desk: Desk, damage: dict[str, Any]) -> None:
    store = await desk.open_store(purchaseRequired=True)
    orders = [new_id("order") for _ in range(2)]
    for order in orders:
        await desk.order({**an_order(order, {"a": 1}), "storeId": store, "customerId": CUSTOMER})
    (bought,) = (await desk.database["orders"].find_one({"_id": orders[0]}) or {})["lines"]
    await desk.database["orders"].update_one({"_id": orders[0]}, {"$set": damage})
    reviews = [
        desk.review(storeId=store, userId=CUSTOMER, EntityId=product) for product in (bought["productId"], "lens")
    ]
    await desk.submit(desk.records(*reviews))
    assert dead_letters(desk) == []
    assert (await desk.stored(reviews[0]["id"]))["entityId"] == bought["productId"]
    (refused,) = [data for kind, data in desk.events() if kind == "SubmissionRefused"]
    assert (refused["reviewId"], refused["code"]) == (reviews[1]["id"], "purchase-required")


async def test_doctor_names_damaged_stores_and_counts_damaged_objects_and_tokens(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, store = desk.database, await desk.open_store()

    async def on_stores() -> list[tuple[Level, str]]:
        return [(each.level, each.text) async for each in check_mongo(database, 21) if each.check == "stores"]

    assert await on_stores() == []
    await database["stores"].update_one({"_id": store}, {"$set": {"settings": None}})
    await database["objects"].insert_one({"_id": {"entityId": "camera"}, "facts": {}})
    await database["usedReviewTokens"].insert_one({"_id": {"orderId": "o"}, "reviewId": "r"})
    assert await on_stores() == [(Level.FAIL, f"1 store can't be read: {store}")]
    assert (await check_documents(database)).text == "fields are missing or damaged: objects 1, usedReviewTokens 1"
    # Many stores don't use up the time of all checks: of these, the first one does.
    await desk.open_store("a store")
    monkeypatch.setattr(checks, "_PATIENCE_MS", 0)
    assert await on_stores() == []
