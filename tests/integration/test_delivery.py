"""Records from upstream systems in Kafka: from any client, in any order, repeated, or malformed."""

import asyncio
import itertools
import json
import random
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.facade import REVIEWS, Facade, new_id, submission
from tests.support.images import Images
from tests.support.messages import Message, message, moderation, review_message
from tests.support.orders import Returns, an_order, lines_of, return_command, wanted_return
from tests.support.service import FLOW, Json, Service, kind_of
from tests.support.sockets import connection
from tests.support.waiting import DEADLINE_S, eventually


@pytest.mark.kafka
async def test_change_older_than_the_database_does_not_hide_its_command(facade: Facade, service: Service) -> None:
    product, id, command = new_id(), new_id("review"), new_id("command")
    # Like after a restore: `review-changes` is consumed again, and the review isn't stored yet.
    change = {"kind": "moderation", "action": "approve", "reviewId": id, "source": [0, 0, 1], "commandId": command}
    await service.publish("review-changes", message(change, f"Product:{product}"))
    await service.idle()
    await service.publish("moderation-commands", moderation("approve", id, commandId=command))
    await service.publish("review-submissions", review_message(submission(product, 5, id=id)))
    await facade.until_rated(product, 5.0, 1)


@pytest.mark.kafka
@pytest.mark.long
async def test_librdkafka_producer_without_headers(facade: Facade, service: Service, product: str) -> None:
    producer = Producer({"bootstrap.servers": service.servers.kafka})
    for _ in range(2):
        producer.produce(service.topic("review-submissions"), json.dumps(submission(product, 3)).encode())
    id = new_id("review")
    producer.produce(service.topic("moderation-commands"), json.dumps({"action": "approve", "ids": [id]}).encode())
    producer.produce(service.topic("review-submissions"), json.dumps(submission(product, 5, id=id)).encode())
    assert await asyncio.to_thread(producer.flush, DEADLINE_S) == 0
    await facade.until_rated(product, 5.0, 1)
    rows = await facade.until_listed(product, 2)
    (by_http,) = await facade.submit(submission(product, 3))
    own = next(row for row in rows if row["id"] != id)
    same = next(row for row in await facade.until_listed(product, 3) if row["id"] == by_http)
    assert own | {name: same[name] for name in ("id", "createdDate")} == same


async def test_duplicate_messages_are_stored_once(facade: Facade, service: Service) -> None:
    product, id = new_id(), new_id("review")
    event = (("ce_id", b"42"), ("ce_source", new_id("shop").encode()))
    other = (event[0], ("ce_source", new_id("shop").encode()))
    plain, named, another = (review_message(submission(product, title=t)) for t in ("plain", "named", "another"))
    own = review_message(submission(product, title="own", id=id))
    sent = [plain, own, named._replace(headers=event), another]
    await service.publish("review-submissions", *sent, *sent)
    await service.publish("review-submissions", named._replace(headers=other), plain, *sent)
    await service.publish("review-submissions", review_message(submission(product, title="end")))
    await eventually(partial(facade.listed, "title", entityIds=[product]), lambda titles: "end" in titles)
    titles = await facade.listed("title", entityIds=[product])
    assert sorted(titles) == ["another", "end", "named", "named", "own", "plain"]


async def test_message_with_array_of_reviews(facade: Facade, service: Service, product: str) -> None:
    reviews = [submission(product, rating, id=new_id("review")) for rating in (1, 2, 3)]
    same = [submission(product, 4), submission(product, 4)]
    value = b" \r\n\t" + json.dumps(reviews + same).encode()
    await service.publish("review-submissions", Message(None, value), Message("x", value))
    rows = await facade.until_listed(product, 5)
    assert {review["id"] for review in reviews} < {row["id"] for row in rows}
    # An invalid review refuses all of its message, but no other message.
    wrong = [submission(product, 5, title="spoilt"), submission(product, 9)]
    following = review_message(submission(product, 2, title="next"))
    await service.publish("review-submissions", message(wrong, product), following)
    rows = await facade.until_listed(product, 6)
    assert [row["title"] for row in rows].count("next") == 1


async def test_moderation_of_several_reviews_by_one_message(facade: Facade, service: Service) -> None:
    one, other = new_id(), new_id()
    a, b, c = await facade.submit(submission(one, 1), submission(one, 3), submission(other, 5))
    await service.publish("moderation-commands", moderation("approve", a, b, c, a, new_id("review")))
    await facade.until_rated(one, 2.0, 2)
    await facade.until_rated(other, 5.0, 1)
    last = moderation("delete", a, moderator="Eve", reason="spam")
    await service.publish("moderation-commands", moderation("reset", a), moderation("approve", a), last)
    await facade.until_rated(one, 3.0, 1)


@pytest.mark.parametrize("compression", ["gzip", "lz4", "snappy", "zstd"])
@pytest.mark.kafka
async def test_compressed_messages_are_read(facade: Facade, service: Service, compression: str, product: str) -> None:
    producer = Producer({"bootstrap.servers": service.servers.kafka, "compression.type": compression, "linger.ms": 50})
    for _ in range(20):
        producer.produce(service.topic("review-submissions"), review_message(submission(product, id=new_id())).value)
    assert await asyncio.to_thread(producer.flush, DEADLINE_S) == 0
    await facade.until_listed(product, 20)


@pytest.mark.long
async def test_thousand_approvals_right_after_submission(facade: Facade, service: Service) -> None:
    product, times, clients = new_id(), 1_000, 20

    async def client(share: Iterable[int]) -> None:
        async with connection(service.port) as facade:
            for number in share:
                status, answer = await facade.post(REVIEWS, [submission(product, 1 + number % 5)])
                assert status == 202
                status, _ = await facade.post(f"{REVIEWS}/approve", answer["ids"])
                assert status == 202

    await asyncio.gather(*(client(range(first, times, clients)) for first in range(clients)))
    await facade.until_rated(product, 3.0, times)


@pytest.mark.long
async def test_thousand_moderations_before_submission(facade: Facade, service: Service) -> None:
    product, times = new_id(), 1_000
    ids = [new_id("review") for _ in range(times)]
    # The last action counts: a quarter each ends approved, rejected, reset or deleted.
    actions = [["approve"], ["approve", "reject"], ["reject", "approve", "reset"], ["approve", "delete"]]
    commands = [moderation(action, id) for n, id in enumerate(ids) for action in actions[n % 4]]
    await service.publish("moderation-commands", *commands)
    await service.publish("review-submissions", *(review_message(submission(product, 4, id=id)) for id in ids))
    await facade.until_rated(product, 4.0, times // 4)
    for status in ("Rejected", "New"):
        search = partial(facade.page, entityIds=[product], reviewStatus=status, take=0)
        await eventually(search, lambda page: page["totalCount"] == times // 4)
    await eventually(partial(facade.page, entityIds=[product], take=0), lambda page: page["totalCount"] == 750)


UNCOMPARED = ("leases", "parkingClock", "relays", "counters")
"""Collections with the current state of processes, and with the last numbers of returns, which have gaps: a repeated
refusal takes another number."""


async def contents(service: Service) -> dict[str, list[Json]]:
    """Return the contents of all compared collections, without the names of rated objects: those are looked up later,
    and again by each recount."""
    looked_up = dict.fromkeys(("name", "listKey", "searchKeys", "renamed", "namings"), 0)
    async with service.mongo() as database:
        names = [name for name in await database.list_collection_names() if name not in UNCOMPARED]
        projections = {"ratings": looked_up}
        return {
            name: await database[name].find({}, projections.get(name)).sort("_id").to_list() for name in sorted(names)
        }


async def publish_to_other_topics(service: Service, facade: Facade, product: str) -> None:
    order, (kept, gone) = new_id("order"), [new_id("return") for _ in range(2)]
    await Returns(service, facade.http).ordered({product: 4}, id=order)
    reviews = [submission(product, 3, id=new_id("review"), title=f"{n}", review="Fair.") for n in range(3)]
    first, judged, pictured = await facade.submit(*reviews)
    image = await Images(facade.http).upload()
    await facade.submit({**reviews[2], "images": [image]})
    await Images(facade.http).moderate("hide", pictured, image)
    verdicts = [
        message({"reviewId": id, "textHash": sha256(text).hexdigest(), "source": "ai", "verdict": verdict}, id)
        for id, text, verdict in ((judged, b"1\nFair.", "approve"), (first, b"0\nFair.", "flag"))
    ]
    feedback: list[Json] = [
        *({"action": "vote", "userId": voter, "helpful": True} for voter in ("u", "v")),
        {"action": "vote", "userId": "u", "helpful": False},
        {"action": "remove-vote", "userId": "v"},
        *({"action": "reply", "text": text} for text in ("Thanks", "Thank you")),
        {"action": "report", "reason": "spam", "explanation": "No", "goodFaith": True},
    ]
    returned = [
        *(return_command("create", wanted_return(order, {product: 1}, id=id)) for id in (kept, gone)),
        return_command("update", {"id": kept, "status": "Approved"}, order),
        return_command("update", {"id": kept, "status": "Completed", "lineItems": lines_of({product: 4})}, order),
        return_command("delete", {"id": gone}, order),
        return_command("update", {"id": kept, "lineItems": lines_of({product: 4})}, order),
        return_command("create", wanted_return(order, {product: 1}, id=new_id("too-much"))),
        return_command("create", wanted_return(new_id("nowhere"), {product: 1}, id=new_id("early"))),
    ]
    await service.publish("moderation-verdicts", *verdicts)
    await service.publish("review-feedback", *(message({**each, "reviewId": first}, first) for each in feedback))
    await service.publish("return-commands", *returned)
    named: Json = {"entityType": "Product", "entityId": product}
    for topic, value, key in (
        ("object-updates", {**named, "name": "Camera"}, f"Product:{product}"),
        ("object-updates", {**named, "name": "Other camera"}, f"Product:{product}"),
        ("order-events", an_order(order, {product: 4}, status="Complete", modifiedDate="2022-03-15T10:00:00Z"), order),
        ("order-events", an_order(order, {product: 4}), order),
        ("reminder-commands", {"action": "viewed", "customerOrderId": order}, order),
        ("ended-sessions", {"sessionId": new_id("session")}, "session"),
        ("moderation-commands", {"action": "approve", "ids": [new_id("nobody")]}, "nobody"),
    ):
        await service.publish(topic, message(value, key))
    await service.idle()
    assert await facade.moderate("reset", judged) == ["applied"]
    letter, *_ = await service.records("review-submissions.dlq")
    place = f"review-submissions/{letter.partition}/{letter.offset}"
    await facade.command("POST", "/api/deadLetters/replay", {"places": [place]})
    await service.idle()


async def refusals(service: Service) -> set[bytes]:
    """Return the ids of the events about refused submissions."""
    events = await service.records("events")
    return {dict(event.headers)["ce_id"] for event in events if kind_of(event) == "SubmissionRefused"}


@pytest.mark.slow
@pytest.mark.kafka
async def test_replay_of_all_topics_changes_nothing(own_service: Service, own_facade: Facade) -> None:
    service, facade, chance = own_service, own_facade, random.Random(11)
    products, stores = [new_id() for _ in range(4)], [await facade.open_store() for _ in range(2)]
    closed, later = [await facade.open_store(reviewsEnabled=False) for _ in range(2)]
    soon_closed = await facade.open_store()
    places = list(itertools.product(products, [None, *stores]))
    reviews = [
        submission(product, chance.randint(100, 500) / 100, storeId=store, id=new_id("review"))
        for product, store in places * 10
    ]
    ids = [review["id"] for review in reviews]
    parked = [moderation("approve", id) for id in ids[:20]]
    await service.publish("moderation-commands", *parked)
    await service.publish("review-submissions", *map(review_message, reviews))
    await service.idle()

    for action in ["approve", "reject", "reset", "approve", "delete"]:
        some = chance.sample(ids, 25)
        await facade.moderate(action, *some)
        # Commands with several ids, on arbitrary partitions.
        commands = [
            moderation(chance.choice(["approve", "reject", "reset"]), *chance.sample(ids, 7), key=new_id("key"))
            for _ in range(20)
        ]
        await service.publish("moderation-commands", *commands)
        await service.idle()
    await facade.moderate("delete", *ids[-5:])

    refused = [submission(products[0], 5, storeId=store, id=new_id("review")) for store in (closed, later, later)]
    await service.publish("review-submissions", *map(review_message, refused))
    await service.idle()
    await facade.open_store(later)
    # Only the second one is sent again.
    again = [refused[1], submission(products[1], storeId=later)]
    await service.publish("review-submissions", *map(review_message, again))
    await facade.submit_approved(submission(products[0], 1, storeId=soon_closed))
    await service.idle()
    await facade.moderate("approve", refused[1]["id"])
    await facade.open_store(soon_closed, reviewsEnabled=False)
    for method in ("wilson", "average", "wilson"):
        await facade.command("PUT", "/api/settings", {"ratingCalculationMethod": method, "reminder": {"enabled": True}})
        await facade.command("PUT", f"/api/stores/{stores[0]}", {"settings": {"ratingCalculationMethod": method}})
    await facade.command("POST", f"/api/rating/calculateStore?storeId={stores[0]}")
    await service.publish("review-submissions", Message("bad", b"bad"))
    await service.idle()
    await publish_to_other_topics(service, facade, products[3])
    used = {topic for topic in FLOW if await service.records(topic)}
    assert used == set(FLOW)

    before, refusals_before = await contents(service), await refusals(service)
    kinds = {kind: sum(kind in review for review in before["reviews"]) for kind in ("status", "goneAt", "refused")}
    assert min(kinds.values()) >= 2, kinds
    # The third refused submission comes again meanwhile; it is new, although it is in one batch with old records.
    await service.replay(review_message(refused[2]))
    after = await contents(service)
    (news,) = [review for review in after["reviews"] if review["_id"] == refused[2]["id"]]
    assert news["createdDate"]
    before["reviews"] = [news if review["_id"] == news["_id"] else review for review in before["reviews"]]
    assert after.keys() == before.keys()
    assert [name for name in before if after[name] != before[name]] == []
    assert await refusals(service) == refusals_before
    await service.run("ratings", "verify")


@pytest.mark.slow
@pytest.mark.kafka
async def test_late_worker_reads_everything(stopped_service: Service) -> None:
    # Submissions, commands and settings are published before any consumer group exists.
    product, id, store = new_id(), new_id("review"), new_id("store")
    await stopped_service.publish("moderation-commands", moderation("approve", id))
    await stopped_service.publish("review-submissions", review_message(submission(product, 2, id=id)))
    await stopped_service.publish("store-updates", message({"id": store, "name": "Late"}, store))
    async with stopped_service.running(), stopped_service.client() as client:
        await Facade(client).until_rated(product, 2.0, 1)

        async def name() -> Any:
            return (await client.get(f"/api/stores/{store}")).json().get("name")

        await eventually(name, lambda name: name == "Late")
