"""Ids chosen by senders: each belongs to one object of one store, and later uses for another are refused."""

from collections.abc import Sequence
from functools import partial

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, errors_of, new_id, once, submission
from tests.support.messages import message, review_message
from tests.support.orders import RETURNS, Returns, an_order, order_event, return_command, wanted_return
from tests.support.retries import resend_until_refused, retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.long


async def refusals(service: Service, id: str) -> list[tuple[str | None, str]]:
    """Return the store and code of each refusal of a submission with this id, in no particular order."""
    events = await service.events_about(id)
    return [(data["storeId"], data["code"]) for kind, data in events if kind == "SubmissionRefused"]


async def until_refused(service: Service, id: str, *expected: tuple[str | None, str]) -> None:
    """Wait until exactly these submissions have been refused."""
    found = await eventually(partial(refusals, service, id), lambda found: len(found) >= len(expected))
    assert sorted(found, key=str) == sorted(expected, key=str)


async def submit_taken(facade: Facade, service: Service, review: Json) -> list[tuple[str | None, str]]:
    """Submit a review whose id must be refused, to the API and by Kafka. Returns the store and code of each refusal by
    the consumer: more than one if the API first accepted it, while the database was too slow for the check."""
    accepted = 0

    async def send() -> httpx.Response:
        nonlocal accepted
        answer = await facade.http.post(REVIEWS, json=[review])
        accepted += answer.status_code == 202
        return answer

    assert errors_of(await resend_until_refused(send), 409) == [("/0/id", "id-taken")]
    await service.publish("review-submissions", review_message(review))
    return [(review.get("storeId"), "id-taken")] * (accepted + 1)


@pytest.mark.parametrize("other", ["storeId", "userId", "EntityId", "EntityType"])
async def test_id_of_another_review_is_refused(facade: Facade, service: Service, other: str) -> None:
    id, mine, theirs = new_id("next"), await facade.open_store(), await facade.open_store()
    review = submission(new_id(), id=id, storeId=mine)
    await facade.submit(review)
    rival = {**review, "title": "Theirs", other: theirs if other == "storeId" else "Vendor"}
    rivals = await submit_taken(facade, service, rival)
    await until_refused(service, id, *rivals)
    # The same review may be sent again.
    assert await facade.command("POST", REVIEWS, [review]) == [{"id": id, "outcome": "unchanged"}]
    assert await facade.listed("title", ids=[id], entityIds=[review["EntityId"]]) == [review["title"]]
    await until_refused(service, id, *rivals)


async def test_conflicting_ids_in_one_batch(facade: Facade, service: Service) -> None:
    product, stores = new_id(), [await facade.open_store() for _ in range(3)]
    closed = await facade.open_store(reviewsEnabled=False)
    id, other = new_id("next"), new_id("next")
    ids_and_stores: Sequence[tuple[str, str]] = [
        *((id, store) for store in stores),
        (other, closed),
        (other, stores[0]),
    ]
    reviews = [submission(product, id=id, storeId=store) for id, store in ids_and_stores]
    await service.publish("review-submissions", message(reviews, f"Product:{product}"))
    await until_refused(service, id, (stores[1], "id-taken"), (stores[2], "id-taken"))
    # A submission refused by the store's rules doesn't occupy its id.
    await until_refused(service, other, (closed, "reviews-disabled"))
    page = await facade.page(entityIds=[product])
    assert {(row["id"], row["storeName"]) for row in page["results"]} == {(id, stores[0]), (other, stores[0])}


async def test_id_of_refused_review_stays_free(facade: Facade, service: Service) -> None:
    product, id = new_id(), new_id("next")
    closed, open_ = await facade.open_store(reviewsEnabled=False), await facade.open_store()
    await service.publish("review-submissions", review_message(submission(product, id=id, storeId=closed)))
    await until_refused(service, id, (closed, "reviews-disabled"))
    await facade.submit(submission(product, id=id, storeId=open_))
    await facade.open_store(closed)
    taken = await submit_taken(facade, service, submission(product, id=id, storeId=closed))
    await until_refused(service, id, (closed, "reviews-disabled"), *taken)


@pytest.mark.slow
@pytest.mark.kafka
async def test_id_of_deleted_review_is_refused(own_service: Service, own_facade: Facade, product: str) -> None:
    review = submission(product, id=new_id("next"))
    send = partial(own_facade.http.post, REVIEWS, json=[review], headers=once())
    first = await retry_until_decided(send)
    assert await own_facade.moderate("delete", review["id"]) == ["applied"]
    # A repeat of the command is no conflict, nor is the redelivery of its record.
    again = await retry_until_decided(send)
    assert again.json() == first.json()
    await own_service.replay()
    assert await refusals(own_service, review["id"]) == []
    assert await own_facade.listed(entityIds=[product]) == []
    await until_refused(own_service, review["id"], *await submit_taken(own_facade, own_service, review))


def reasons(data: Json) -> list[tuple[str, str]]:
    return [(reason["code"], reason["pointer"]) for reason in data["reasons"]]


async def refusal_of_a_return(returns: Returns, id: str) -> Json:
    """Wait for the events about both returns with this id, in any order: their orders may differ in partition."""
    events = await eventually(partial(returns.events, id), lambda events: len(events) >= 2)
    data_by_kind = dict(events)
    assert set(data_by_kind) == {"ReturnCreated", "ReturnRefused"}
    return data_by_kind["ReturnRefused"]


async def test_id_of_another_return_is_refused(returns: Returns, facade: Facade) -> None:
    mine, theirs = [await returns.ordered({"a": 2}, storeId=await facade.open_store()) for _ in range(2)]
    id = await returns.create(mine, {"a": 1}, id=new_id("return"))
    before = await returns.get(id)
    return_data = wanted_return(theirs, {"a": 1}, id=id)
    (result,) = await facade.command("POST", RETURNS, return_data)
    assert (result["outcome"], "id is taken" in result["message"]) == ("refused", True)
    refused = await refusal_of_a_return(returns, id)
    assert (refused["orderId"], reasons(refused)) == (theirs, [("id-taken", "/id")])
    assert await returns.get(id) == before
    assert await returns.available(theirs) == {"a": 2}


async def test_different_return_with_same_id_is_refused(returns: Returns, facade: Facade, service: Service) -> None:
    order = await returns.ordered({"a": 5, "b": 5})
    id = await returns.create(order, {"a": 1}, id=new_id("return"))
    other = wanted_return(order, {"a": 2, "b": 1}, id=id)
    (result,) = await facade.command("POST", RETURNS, other)
    assert (result["outcome"], "created by another request" in result["message"]) == ("refused", True)
    assert reasons(await refusal_of_a_return(returns, id)) == [("id-taken", "/id")]
    assert await returns.available(order) == {"a": 4, "b": 5}
    # After an equal change the first request is still the repeat, not the other one.
    await returns.change(id, lineItems=other["lineItems"])
    again, third = wanted_return(order, {"a": 1}, id=id), new_id("return")
    await service.publish(
        *("return-commands", return_command("create", other), return_command("create", again)),
        return_command("create", wanted_return(order, {"b": 1}, id=third)),
    )
    await eventually(partial(returns.get, third), lambda row: row is not None)
    assert await returns.available(order) == {"a": 3, "b": 3}
    return_events = await returns.wait_for_events(
        id, "ReturnCreated", "ReturnRefused", "ReturnChanged", "ReturnRefused"
    )
    assert reasons(return_events[-1]) == [("id-taken", "/id")]


async def test_change_with_another_order_is_refused(returns: Returns, service: Service) -> None:
    mine, theirs = [await returns.ordered({"a": 2}) for _ in range(2)]
    id = await returns.create(mine, {"a": 1}, id=new_id("return"))
    wrong = return_command("update", {"id": id, "orderId": theirs, "status": "Canceled"}, mine)
    right = return_command("update", {"id": id, "orderId": mine, "status": "Approved"}, mine)
    await service.publish("return-commands", wrong, right)
    row = await eventually(partial(returns.existing, id), lambda row: row["status"] != "New")
    assert row["status"] == "Approved"
    _, refused, _ = await returns.wait_for_events(id, "ReturnCreated", "ReturnRefused", "ReturnChanged")
    assert reasons(refused) == [("id-taken", "/id")]
    assert await returns.available(mine) == {"a": 1}


async def test_same_id_of_parked_returns_is_refused(returns: Returns, service: Service) -> None:
    id, orders = new_id("return"), [new_id("order"), new_id("order")]
    returns_data = [wanted_return(order, {"a": 1}, id=id) for order in orders]
    await service.publish("return-commands", *(return_command("create", each) for each in returns_data))
    async with service.mongo() as database:
        parked = partial(database["parkedReturns"].count_documents, {"orderId": {"$in": orders}})
        await eventually(parked, lambda count: count == 2)
    await service.publish("order-events", *(order_event(an_order(order, {"a": 1})) for order in orders))
    assert reasons(await refusal_of_a_return(returns, id)) == [("id-taken", "/id")]


async def test_id_of_another_order_is_refused(returns: Returns, facade: Facade, service: Service) -> None:
    mine, theirs = await facade.open_store(), await facade.open_store()
    id = await returns.ordered({"a": 2}, storeId=mine)
    rival = an_order(id, {"b": 9}, storeId=theirs, modifiedDate="2022-03-15T10:00:00Z")
    nobodys = an_order(id, {"a": 3}, storeId=None, modifiedDate="2022-03-16T10:00:00Z")
    again = {**rival, "modifiedDate": "2022-03-17T10:00:00Z"}
    await service.publish("order-events", *map(order_event, (rival, nobodys, again)))
    letters = await service.letters("order-events", id, 2)
    assert {dict(letter.headers)["x-error-code"] for letter in letters} == {b"id-taken"}
    assert await returns.available(id) == {"a": 3}
