"""Malformed records: headers without a value, impossible times, unusable keys."""

import asyncio
from functools import partial
from typing import Any

import pytest

from tests.support.facade import Facade, new_id, submission
from tests.support.messages import Message, message, moderation, review_message
from tests.support.orders import Returns, an_order, lines_of, order_event, return_command
from tests.support.raw_batches import batch, produce, record
from tests.support.reviews_topic import until_equal
from tests.support.service import Service
from tests.support.waiting import DEADLINE_S, eventually

NULL = (("ce_id", None), ("ce_source", None), ("ce_commandid", None), ("traceparent", None), ("x-error-code", None))
NOT_UTF_8 = (("ce_id", b"\xff\xfe"), ("ce_source", b"\xc3\x28"))
IMPOSSIBLE = (-1, -(2**40), -(2**62))
"""Kafka itself refuses times too far in the future, unless configured otherwise."""


def review(product: str, **fields: Any) -> Message:
    return review_message(submission(product, **fields))


@pytest.mark.parametrize("headers", [NULL, NOT_UTF_8, (("ce_id", b""),)], ids=["null", "not UTF-8", "empty"])
async def test_malformed_headers(
    returns: Returns, facade: Facade, service: Service, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    product, order, store = new_id(), new_id("order"), new_id("store")
    named, first, second = new_id("review"), review(product, title="first"), review(product, title="second")
    wanted = {"orderId": order, "lineItems": lines_of({"a": 1})}
    messages: dict[str, list[Message]] = {
        "store-updates": [message({"id": store, "name": "Shop"}, store)],
        "order-events": [order_event(an_order(order, {"a": 2}))],
        "return-commands": [return_command("create", wanted), return_command("create", wanted)],
        "review-submissions": [first, second, review(product, id=named, title="named")],
        "moderation-commands": [moderation("approve", named)],
    }
    for topic, sent in messages.items():
        await service.publish(topic, *(message._replace(headers=headers) for message in sent))
    # Without an identity in the headers, two returns are distinct; with one, the second is a repeat.
    count = 1 if headers is NOT_UTF_8 else 2
    await eventually(partial(returns.found, orderId=order), lambda found: len(found) == count)
    titles = await eventually(
        partial(facade.listed, "title", entityIds=[product]), lambda found: len(found) == count + 1
    )
    assert set(titles) == {"first", "named", *(["second"] if count == 2 else [])}
    await eventually(partial(facade.rating, product), lambda rating: rating == (4, 1))
    for topic, sent in messages.items():
        assert await service.keyed(f"{topic}.dlq", str(sent[0].key)) == []


async def test_impossible_timestamps(returns: Returns, facade: Facade, service: Service) -> None:
    product, order, store = new_id(), new_id("order"), new_id("store")
    id = new_id("review")
    await facade.submit(submission(product, id=id))
    await returns.ordered({"a": 9}, id=order)
    change = {"kind": "recount", "entityType": "Product", "entityId": product}
    wanted = {"orderId": order, "lineItems": lines_of({"a": 1})}
    messages = {
        "store-updates": message({"id": store, "name": "Shop"}, store),
        "order-events": order_event(an_order(order, {"a": 1}, modifiedDate=None)),
        "return-commands": return_command("create", wanted),
        "review-submissions": review(product, title="impossible"),
        "moderation-commands": moderation("approve", id),
        "review-changes": message(change, f"Product:{product}"),
    }
    for topic, sent in messages.items():
        await service.publish(topic, *(sent._replace(timestamp=time) for time in IMPOSSIBLE))
        found = await service.letters(topic, str(sent.key), len(IMPOSSIBLE))
        assert [dict(letter.headers)["x-error-code"] for letter in found] == [b"invalid-timestamp"] * len(IMPOSSIBLE)
        assert all(b"dlq replay" in dict(letter.headers)["x-error-message"] for letter in found)
    assert await facade.listed("title", entityIds=[product]) == ["As good as they say"]
    assert await facade.rating(product) == (0, 0)
    assert await returns.available(order) == {"a": 9}


@pytest.mark.long
async def test_console_news_skip_malformed_records(own_facade: Facade, own_service: Service) -> None:
    odd = [Message("key", b"{}", (("ce_type", None),)), Message(None, b"{}", timestamp=IMPOSSIBLE[-1])]
    unreadable = batch(record(b"{}", headers=[(b"\xff", b"")]))
    async with own_service.client() as client, client.stream("GET", "/console/queue/news") as answer:
        lines = answer.aiter_lines()

        async def until(text: str) -> None:
            while text not in await anext(lines):
                pass

        # The topics are read from their ends, once the stream has started.
        first = asyncio.create_task(until("event: new"))
        while not first.done():
            await own_facade.submit(submission(new_id()))
        for topic in ("events", "review-claims"):
            await own_service.publish(topic, *odd)
            await produce(own_service.servers.kafka, own_service.topic(topic), 0, unreadable)
        (id,) = await own_facade.submit(submission(new_id()))
        async with asyncio.timeout(DEADLINE_S):
            await until(id)


@pytest.mark.long
@pytest.mark.kafka
async def test_malformed_keys_in_reviews_topic(own_facade: Facade, own_service: Service) -> None:
    await own_facade.submit(submission(new_id()))
    await until_equal(own_service)
    name, kafka = own_service.topic("reviews"), own_service.servers.kafka
    for key in (b"\xff\xfe", b"", None, b"\0", b"x" * 100_000):
        await produce(kafka, name, 0, batch(record(b"{}", key=key)))
    await own_service.run("reviews", "republish")
    await own_facade.submit(submission(new_id()))
    await eventually(lambda: "all reviews are published" in own_service.log("worker"))
    assert "the relay of reviews failed" not in own_service.log("worker")


@pytest.mark.long
@pytest.mark.kafka
async def test_doctor_reports_partition_stuck_at_impossible_timestamp(own_service: Service) -> None:
    await own_service.end("worker")
    await own_service.publish("order-events", Message("order", b"{}", timestamp=IMPOSSIBLE[-1]))
    # For a slow server it waits some seconds, and then reports it.
    ended = await eventually(
        partial(own_service.run, "doctor", code=None), lambda ended: "order-events (1)" in ended.stdout
    )
    assert "Traceback" not in ended.stdout + ended.stderr
