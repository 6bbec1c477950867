"""Order events, and reviews that require a purchase."""

import json
import random
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from api.orders.rows import order_details
from domain.orders import OrderLine, Purchase
from domain.ratings import Entity
from storage.database import Database
from storage.orders.repository import OrderRepository, document_of
from storage.purchases import PurchaseRepository
from tests.support.domain_orders import order_of
from tests.support.facade import REVIEWS, Facade, body_of, errors_of, new_id, submission
from tests.support.messages import Message, message, review_message
from tests.support.orders import Returns, an_order, order_event
from tests.support.retries import retry_until_served
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually


async def test_shuffled_and_repeated_events_lead_to_the_same_state(service: Service) -> None:
    statuses = ["New", "Processing", "Processing", "Complete", "Complete", "complete", "Returned"]

    def events(id: str) -> list[Message]:
        days = {f"2022-03-{day:02}T10:00:00.123456Z": day for day in range(1, len(statuses) + 1)}
        return [
            order_event(an_order(id, {"a": day}, status=status, modifiedDate=moment, day=day))
            for (moment, day), status in zip(days.items(), statuses, strict=True)
        ]

    straight, *others = (new_id("order") for _ in range(4))
    shuffled = random.Random(7)
    messages = events(straight)
    for id in others:
        mixed = events(id) * 2
        shuffled.shuffle(mixed)
        messages += mixed
    await service.publish("order-events", *messages)

    async def state(id: str) -> Json:
        found = await service.find("orders", id)
        found.pop("digests", None)
        return dict(json.loads(json.dumps(found, default=str).replace(id, "the order")))

    expected = await eventually(partial(state, straight), lambda found: found.get("status") == "Returned")
    assert len(expected["observations"]) == len(statuses)
    for id in others:
        await eventually(partial(state, id), expected.__eq__)


async def test_record_time_replaces_missing_modified_date(
    service: Service, returns: Returns, http: httpx.AsyncClient
) -> None:
    id, begun = new_id("order"), datetime.now(UTC)
    undated: Json = {"createdDate": "2022-03-14T10:00:00Z", "modifiedDate": None}

    async def stored() -> Json:
        return body_of(await http.get(f"/api/orders/{id}"), dict)

    def is_in(status: str, order: Json) -> bool:
        return bool(order["status"] == status)

    await returns.ordered({"a": 1}, id=id, **undated, status="Processing")
    # The third event equals the first one, but is not a repeat.
    for status in ("Held", "Processing", "Complete"):
        await service.publish("order-events", order_event(an_order(id, {"a": 1}, **undated, status=status)))
        order = await eventually(stored, partial(is_in, status))
    assert datetime.fromisoformat(order["statusSince"]) >= begun - timedelta(minutes=1), (
        "counts from the creation of the order"
    )


async def test_invalid_order_event_becomes_dead_letter(service: Service, returns: Returns) -> None:
    good = an_order(new_id("order"), {"a": 1})
    changes: list[Json] = [
        {"id": ""},
        {"status": " "},
        {"status": None},
        {"items": [{"id": "a", "quantity": -1}]},
        {"items": [{"id": "a", "quantity": 1.5}]},
        {"modifiedDate": "yesterday"},
        {"modifiedDate": "0001-01-01T00:00:00+14:00"},
        {"modifiedDate": "9999-12-31T23:59:59-14:00"},
        {"modifiedDate": "9999-12-31"},
    ]
    bad = [message({**good, **change}, good["id"]) for change in changes]
    bad += [Message(good["id"], value) for value in (b"{", b"[]", json.dumps(good)[:-1].encode() + b', "x": NaN}')]
    await service.publish("order-events", *bad, order_event(good))
    assert await returns.ordered({}, **good) == good["id"]
    await service.until_dead("order-events", *bad)


async def test_modified_date_counts_despite_old_record_time(service: Service, returns: Returns) -> None:
    now, id = datetime.now(UTC), new_id("order")
    old = now - timedelta(days=400)
    order = order_event(an_order(id, {"a": 1}, modifiedDate=now.isoformat()))
    # As a system that migrates orders may write them: with the time of their creation.
    await service.publish("order-events", order._replace(timestamp=int(old.timestamp() * 1_000)))
    assert await eventually(lambda: returns.available(id)) == {"a": 1}


@pytest.fixture
async def shop(facade: Facade) -> str:
    """A store that requires a purchase of the object."""
    return await facade.open_store(purchaseRequired=True)


async def may_review(http: httpx.AsyncClient, **author: Any) -> Json:
    return body_of(await http.get(f"{REVIEWS}/canLeaveFeedback", params=author), dict)


async def refused(http: httpx.AsyncClient, review: Json) -> bool:
    response = await retry_until_served(partial(http.post, REVIEWS, json=[review]))
    if response.status_code == 202:
        return False
    assert errors_of(response, 403) == [("/0", "purchase-required")]
    return True


async def test_only_buyers_may_review(
    service: Service, http: httpx.AsyncClient, returns: Returns, facade: Facade, shop: str
) -> None:
    product, customer = new_id(), new_id("customer")
    author = {"storeId": shop, "userId": customer, "entityType": "Product", "entityId": product}
    review = submission(product, storeId=shop, userId=customer)

    assert await refused(http, review)
    assert await may_review(http, **author) == {"canLeaveFeedback": False, "reasons": ["purchase-required"]}
    bought = {"storeId": shop, "customerId": customer}
    await returns.ordered({product: 1}, **bought, status="Cancelled")
    await returns.ordered({product: 1}, **bought, isCancelled=True)
    await returns.ordered({product: 1}, **{**bought, "customerId": "somebody else"})
    await returns.ordered({product: 1}, **{**bought, "storeId": "elsewhere"})
    assert await refused(http, review)
    assert await refused(http, {**review, "EntityType": "Vendor", "userId": new_id("customer")})

    await returns.ordered({new_id(): 1}, **bought)
    assert await refused(http, review), "a purchase of another product counts"
    assert not await refused(http, {**review, "EntityType": "Vendor"}), "any order must do for other types"

    order = await returns.ordered({product: 1}, **bought)
    assert await may_review(http, **author) == {"canLeaveFeedback": True, "reasons": []}
    assert not await refused(http, review)
    await facade.submit(review, review)
    reviews = [review, {**review, "EntityId": new_id()}, submission(product)]
    response = await retry_until_served(partial(http.post, REVIEWS, json=reviews))
    assert errors_of(response, 403) == [("/1", "purchase-required")]

    cancelled = an_order(order, {product: 1}, **bought, status="Canceled", modifiedDate="2022-03-15T10:00:00Z")
    await service.publish("order-events", order_event(cancelled))
    answer = await eventually(partial(may_review, http, **author), lambda answer: not answer["canLeaveFeedback"])
    assert answer["reasons"] == ["purchase-required"]


async def test_order_with_missing_fields_blocks_nothing(
    service: Service, http: httpx.AsyncClient, returns: Returns, facade: Facade, shop: str
) -> None:
    product, customer = new_id(), new_id("customer")
    bought = {"storeId": shop, "customerId": customer}
    damaged = {await returns.ordered({product: 1}, **bought): lost for lost in (("lines", "body"), ("isCancelled",))}
    async with service.mongo() as database:
        for id, lost in damaged.items():
            await database["orders"].update_one({"_id": id}, {"$unset": dict.fromkeys(lost, "")})
    author = {"storeId": shop, "userId": customer, "entityType": "Product", "entityId": product}
    assert await may_review(http, **author) == {"canLeaveFeedback": True, "reasons": []}
    await facade.submit(submission(product, storeId=shop, userId=customer))
    other = order_event(an_order(new_id("order"), {product: 1}, **bought))
    unreadable = message({"id": ""}, other.key)
    await service.publish("order-events", other, unreadable)
    await service.until_dead("order-events", unreadable)
    assert other.value not in {letter.value for letter in await service.records("order-events.dlq")}


async def test_order_without_body_proves_purchase_by_its_lines(database: Database) -> None:
    line = OrderLine("1", "camera", None, 1)
    for id in ("missing", "empty"):
        await database["orders"].insert_one(document_of(order_of([line], id=id, body=b"")))
    await database["orders"].update_one({"_id": "missing"}, {"$unset": {"body": ""}})
    orders = await OrderRepository(database).of_ids(["missing", "empty"])
    purchases = PurchaseRepository(database, {"Product": "productId", "Device": "serial"})
    for type, proofs in {"Product": {"missing", "empty"}, "Device": set[str]()}.items():
        assert purchases.proofs(orders.values(), Entity(type, "camera")) == proofs
    shown = orjson.loads(orjson.dumps([order_details(order, {}) for order in orders.values()]))
    assert [order["order"] for order in shown] == [None, None]


async def test_only_orders_with_the_product_are_read(database: Database) -> None:
    """A customer can have thousands of others. Any order counts for a type without a field of items."""
    orders = [order_of([OrderLine("1", f"camera-{number}", None, 1)], id=f"o{number}") for number in range(4)]
    await database["orders"].insert_many([document_of(order) for order in orders])
    purchases = PurchaseRepository(database, {"Product": "productId"})
    wanted = [Purchase("shop", "anna", Entity("Product", f"camera-{number}")) for number in (2, 7)]
    await database.command("profile", 2)
    assert await purchases.existing(wanted) == {wanted[0]}
    await database.command("profile", 0)
    read = await database["system.profile"].find({"command.find": "orders"}).to_list()
    assert [each["nreturned"] for each in read] == [1]
    seller = Purchase("shop", "anna", Entity("Vendor", "v"))
    assert await purchases.existing([*wanted, seller]) == {wanted[0], seller}


async def test_customer_can_have_reviewed_any_number_of_products(database: Database) -> None:
    """Like one who stands for all guests of a shop: their ids together are larger than a query can be."""
    long = "\U0001f4f7" * 120
    await database["orders"].insert_one(document_of(order_of([OrderLine("1", f"{long}7", None, 1)], id="o")))
    wanted = [Purchase("shop", "anna", Entity("Product", f"{long}{number}")) for number in range(40_000)]
    assert await PurchaseRepository(database, {"Product": "productId"}).existing(wanted) == {wanted[7]}


@pytest.mark.parametrize("none", [0, "0", " -0.00 "])
async def test_line_with_quantity_0_is_no_purchase(database: Database, none: object) -> None:
    lines = [OrderLine("1", "camera", None, 0), OrderLine("2", "lens", None, 1)]
    items = [{"serial": line.product_id, "Quantity": line.quantity or none} for line in lines]
    order = order_of(lines, body=orjson.dumps({"items": items}))
    await database["orders"].insert_one(document_of(order))
    purchases = PurchaseRepository(database, {"Product": "productId", "Device": "serial"})
    for type in ("Product", "Device"):
        camera, lens = Entity(type, "camera"), Entity(type, "lens")
        made = await purchases.existing([Purchase("shop", "anna", each) for each in (camera, lens)])
        assert made == {Purchase("shop", "anna", lens)}
        assert (purchases.proofs([order], camera), purchases.proofs([order], lens)) == (set(), {"o"})


@pytest.mark.parametrize("damage", [{"customerId": ["anna"]}, {"storeId": ["shop"]}])
async def test_order_of_several_customers_or_stores_proves_nothing_and_hides_no_other(
    database: Database, damage: Json
) -> None:
    camera, lens = Entity("Product", "camera"), Entity("Product", "lens")
    for id in ("damaged", "good"):
        line = OrderLine("1", "lens" if id == "damaged" else "camera", None, 1)
        await database["orders"].insert_one(document_of(order_of([line], id=id)))
    await database["orders"].update_one({"_id": "damaged"}, {"$set": damage})
    purchases = PurchaseRepository(database, {"Product": "productId"})
    made = await purchases.existing([Purchase("shop", "anna", each) for each in (camera, lens)])
    assert made == {Purchase("shop", "anna", camera)}


async def test_anonymous_author_has_no_purchase(http: httpx.AsyncClient, shop: str) -> None:
    answer = await may_review(http, storeId=shop, entityType="Product", entityId=new_id())
    assert answer == {"canLeaveFeedback": False, "reasons": ["purchase-required"]}
    assert await refused(http, submission(new_id(), storeId=shop, userId=""))


async def test_consumer_requires_purchase_too(service: Service, returns: Returns, facade: Facade, shop: str) -> None:
    product, customer, id = new_id(), new_id("customer"), new_id("review")
    review = review_message(submission(product, id=id, storeId=shop, userId=customer))
    refusals = partial(service.refusal_codes, id)
    await service.publish("review-submissions", review)
    assert await eventually(refusals) == ["purchase-required"]
    await returns.ordered({product: 1}, storeId=shop, customerId=customer, status="Cancelled")
    await service.publish("review-submissions", review)
    await eventually(refusals, lambda codes: len(codes) == 2)
    assert await facade.listed(entityIds=[product]) == []

    await returns.ordered({product: 1}, storeId=shop, customerId=customer)
    await service.publish("review-submissions", review)
    await eventually(partial(facade.listed, entityIds=[product]), lambda ids: ids == [id])
    assert len(await refusals()) == 2


@pytest.mark.long
@pytest.mark.kafka
async def test_worker_can_read_stores_and_orders_before_reviews(own_service: Service, own_facade: Facade) -> None:
    store, product, customer, id = new_id("store"), new_id(), new_id("customer"), new_id("review")
    await own_service.end("worker")
    # As after a restore: none of these records is in the backup, and their order across topics is arbitrary.
    review = review_message(submission(product, id=id, storeId=store, userId=customer))
    await own_service.publish("review-submissions", review)
    settings = {"reviewsEnabled": True, "purchaseRequired": True}
    await own_service.publish("store-updates", message({"id": store, "settings": settings}, store))
    order = an_order(new_id("order"), {product: 1}, storeId=store, customerId=customer)
    await own_service.publish("order-events", order_event(order))
    await own_service.run("worker", "--only", "store-updates", "--only", "order-events")
    lags = [await own_service.lag(topic) for topic in ("store-updates", "order-events", "review-submissions")]
    assert lags == [0, 0, 1]
    own_service.start("worker")
    assert (await own_facade.until_listed(product, 1))[0]["id"] == id
    # Records that one consumer forwards to the other are read as well.
    await own_service.end("worker")
    approvals = [message({"action": "approve", "ids": [id]}, id) for _ in range(300)]
    await own_service.publish("moderation-commands", *approvals)
    await own_service.run("worker", "--only", "review-changes", "--only", "moderation-commands")
    assert [await own_service.lag(topic) for topic in ("moderation-commands", "review-changes")] == [0, 0]
    assert (await own_facade.review(id))["reviewStatus"] == "Approved"


async def test_worker_rejects_topics_without_consumer(servers: Servers, tmp_path: Path) -> None:
    errors = {
        "events": "Workers don't consume events",
        "moderation-commands": "moderation-commands are applied through",
    }
    for topic, error in errors.items():
        ended = await Service(servers, tmp_path).run("worker", "--only", topic, code=2)
        assert error in ended.stderr
