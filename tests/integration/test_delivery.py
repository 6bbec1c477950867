"""What comes from upstream by Kafka: any client, any order, any number of times, any rubbish."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from tests.support.facade import REVIEWS, Facade, connection, new_id, submission
from tests.support.service import Json, Message, Servers, Service, eventually, running_service

MIB = 1024 * 1024


def message(value: Any, key: str | None = None) -> Message:
    """A value as JSON, by default with the key of the review's object."""
    if key is None and isinstance(value, dict):
        key = f"{value.get('EntityType')}:{value.get('EntityId')}"
    return Message(key, json.dumps(value).encode())


def moderation(action: str, *ids: str, key: str | None = None, **more: Any) -> Message:
    """A moderation command, by default with the key of its first review."""
    return Message(key or ids[0], json.dumps({"action": action, "ids": ids, **more}).encode())


async def rated(facade: Facade, product: str, value: float, count: int) -> None:
    """Wait for the rating of a product."""
    await eventually(partial(facade.rating, product), lambda rating: rating == (value, count), deadline_s=60)


async def listed(facade: Facade, product: str, count: int) -> list[Json]:
    """Wait until a product has so many reviews."""
    page = await eventually(
        partial(facade.page, entityIds=[product], take=1_000), lambda page: page["totalCount"] >= count
    )
    assert page["totalCount"] == count
    rows: list[Json] = page["results"]
    return rows


@pytest.mark.kafka
async def test_a_change_that_is_older_than_the_database_does_not_hide_its_command(
    facade: Facade, service: Service
) -> None:
    product, id, command = new_id(), new_id("review"), new_id("command")
    # As after a restore, when `review-changes` is read again and the review isn't stored yet.
    change = {"kind": "moderation", "action": "approve", "reviewId": id, "source": [0, 0, 1], "commandId": command}
    await service.publish("review-changes", Message(f"Product:{product}", json.dumps(change).encode()))
    await service.idle()
    await service.publish("moderation-commands", moderation("approve", id, commandId=command))
    await service.publish("review-submissions", message(submission(product, 5, id=id)))
    await rated(facade, product, 5.0, 1)


@pytest.mark.kafka
async def test_a_librdkafka_producer_without_headers(facade: Facade, service: Service) -> None:
    product = new_id()
    producer = Producer({"bootstrap.servers": service.servers.kafka})
    for _ in range(2):
        producer.produce(service.topic("review-submissions"), json.dumps(submission(product, 3)).encode())
    id = new_id("review")
    producer.produce(service.topic("moderation-commands"), json.dumps({"action": "approve", "ids": [id]}).encode())
    producer.produce(service.topic("review-submissions"), json.dumps(submission(product, 5, id=id)).encode())
    assert await asyncio.to_thread(producer.flush, 20) == 0
    await rated(facade, product, 5.0, 1)
    rows = await listed(facade, product, 2)
    (by_http,) = await facade.submit(submission(product, 3))
    own = next(row for row in rows if row["id"] != id)
    same = next(row for row in (await facade.page(entityIds=[product]))["results"] if row["id"] == by_http)
    different = {"id", "createdDate"}
    assert {k: v for k, v in own.items() if k not in different} == {k: v for k, v in same.items() if k not in different}


async def test_the_same_message_twice_is_stored_once(facade: Facade, service: Service) -> None:
    product, id = new_id(), new_id("review")
    event = (("ce_id", b"42"), ("ce_source", new_id("shop").encode()))
    other = (event[0], ("ce_source", new_id("shop").encode()))
    plain, own = message(submission(product, title="plain")), message(submission(product, title="own", id=id))
    named = message(submission(product, title="named"))
    sent = [plain, own, named._replace(headers=event), message(submission(product, title="another"))]
    await service.publish("review-submissions", *sent, *sent)
    await service.publish("review-submissions", named._replace(headers=other), plain, *sent)
    await service.publish("review-submissions", message(submission(product, title="end")))
    await eventually(partial(facade.listed, "title", entityIds=[product]), lambda titles: "end" in titles)
    titles = await facade.listed("title", entityIds=[product])
    assert sorted(titles) == ["another", "end", "named", "named", "own", "plain"]


async def test_an_array_in_one_message(facade: Facade, service: Service) -> None:
    product = new_id()
    reviews = [submission(product, rating, id=new_id("review")) for rating in (1, 2, 3)]
    same = [submission(product, 4), submission(product, 4)]
    value = b" \r\n\t" + json.dumps(reviews + same).encode()
    await service.publish("review-submissions", Message(None, value), Message("x", value))
    rows = await listed(facade, product, 5)
    assert {review["id"] for review in reviews} < {row["id"] for row in rows}
    # One bad review spoils its message, and only that.
    wrong = [submission(product, 5, title="spoilt"), submission(product, 9)]
    await service.publish("review-submissions", message(wrong, product), message(submission(product, 2, title="next")))
    rows = await listed(facade, product, 6)
    assert [row["title"] for row in rows].count("next") == 1


async def test_moderation_of_several_reviews_in_one_message(facade: Facade, service: Service) -> None:
    one, other = new_id(), new_id()
    a, b, c = await facade.submit(submission(one, 1), submission(one, 3), submission(other, 5))
    await service.publish("moderation-commands", moderation("approve", a, b, c, a, new_id("review")))
    await rated(facade, one, 2.0, 2)
    await rated(facade, other, 5.0, 1)
    last = moderation("delete", a, moderator="Eve", reason="spam")
    await service.publish("moderation-commands", moderation("reset", a), moderation("approve", a), last)
    await rated(facade, one, 3.0, 1)


def bad_values() -> dict[str, bytes | None]:
    """Values that can never be a submission."""
    review = submission("camera")
    return {
        "no value": None,
        "empty": b"",
        "not JSON": b"hello",
        "half": json.dumps(review).encode()[:-5],
        "a number": b"5",
        "null": b"null",
        "empty array": b"[]",
        "array of arrays": json.dumps([[review]]).encode(),
        "wrong types": json.dumps({**review, "EntityId": 7, "title": ["x"]}).encode(),
        "missing fields": json.dumps({"EntityId": "camera"}).encode(),
        "rating 9": json.dumps({**review, "rating": 9}).encode(),
        "rating as text": json.dumps({**review, "rating": "5"}).encode(),
        "NaN": json.dumps({**review, "rating": float("nan")}).encode(),
        "huge number": b'{"rating": 1e999}',
        "5 MB": json.dumps({**review, "more": "x" * 5 * MIB}).encode(),
        "deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "deep arrays": b"[" * 100_000,
        "invalid UTF-8": json.dumps(review).encode().replace(b"Sharp", b"\xff\xfe"),
        "null characters": json.dumps({**review, "review": "a\0b"}).encode(),
        "null bytes": b"\0" * 100,
        "lone surrogate": json.dumps({**review, "review": "\ud800"}).encode(),
        "other encoding": json.dumps(review).encode("utf-16"),
        "1,001 reviews": json.dumps([review] * 1_001).encode(),
    }


async def dead_letters_of(service: Service, topic: str, keys: Iterable[str], count: int) -> list[Any]:
    """Wait for the dead letters with one of these keys."""
    wanted = {key.encode() for key in keys}

    async def found() -> list[Any]:
        return [record for record in await service.records(f"{topic}.dlq") if record.key in wanted]

    records = await eventually(found, lambda found: len(found) >= count)
    assert len(records) == count
    return records


async def test_bad_messages_end_as_dead_letters_and_their_neighbours_are_stored(
    facade: Facade, service: Service
) -> None:
    product = new_id()
    values = list(bad_values().items())
    messages: list[Message] = []
    for number, (name, value) in enumerate(values):
        # One key, so one partition: all of them are neighbours.
        odd = [("trace", name.encode()), ("trace", b"\xff\x00"), ("x-error-code", b"theirs")]
        messages += [message(submission(product, title=f"good {number}"), product), Message(product, value, odd)]
    await service.publish("review-submissions", *messages, message(submission(product, title="end"), product))
    rows = await listed(facade, product, len(values) + 1)
    assert {row["title"] for row in rows} == {f"good {n}" for n in range(len(values))} | {"end"}

    letters = await dead_letters_of(service, "review-submissions", [product], len(values))
    by_name = {dict(letter.headers[:1])["trace"].decode(): letter for letter in letters}
    codes = {}
    for name, value in values:
        letter = by_name[name]
        assert letter.value == value
        assert letter.headers[1] == ("trace", b"\xff\x00")
        reason = {header: value.decode() for header, value in letter.headers if header.startswith("x-")}
        assert set(reason) == {
            "x-error-code",
            "x-error-message",
            "x-source-topic",
            "x-source-partition",
            "x-source-offset",
            "x-failed-at",
        }
        assert len(letter.headers) == 2 + len(reason)
        assert reason["x-source-topic"] == service.topic("review-submissions")
        assert reason["x-source-offset"].isdecimal()
        assert reason["x-error-message"]
        codes[name] = reason["x-error-code"]
    assert codes["no value"] == "empty"
    assert codes["5 MB"] == "too-large"
    assert {codes[n] for n in ("empty", "not JSON", "half", "deep", "deep arrays", "invalid UTF-8", "null bytes")} == {
        "invalid-json"
    }
    assert {codes[n] for n in ("wrong types", "missing fields", "rating 9", "null characters", "1,001 reviews")} == {
        "invalid-message"
    }
    assert "/rating" in dict(by_name["rating 9"].headers)["x-error-message"].decode()


@pytest.mark.parametrize(
    ("topic", "good", "bad"),
    [
        (
            "moderation-commands",
            {"action": "approve", "ids": ["nobody"]},
            [
                {"action": "praise", "ids": ["a"]},
                {"action": "approve", "ids": []},
                {"action": "approve", "ids": "a"},
                {"action": "approve", "ids": [None]},
                {"action": "approve", "ids": ["x" * 129]},
                {"action": "approve", "ids": ["a"] * 1_001},
                {"ids": ["a"]},
                [],
            ],
        ),
        (
            "review-changes",
            {"kind": "recount", "entityType": "a", "entityId": "b"},
            [
                *({"kind": "other"}, {}, 1),
                *(
                    {"kind": "moderation", "action": "approve", "reviewId": "nobody", "source": source}
                    for source in ([2**31, 0, 0], [0, 2**63, 0], [0, -1, 0], [0, 0, 2**48], [0, 0, -(2**63)])
                ),
            ],
        ),
        (
            "store-updates",
            {"id": "good"},
            [{"name": "x"}, {"id": "", "name": "x"}, {"id": "a", "settings": {"reviewsEnabled": 1}}, "a"],
        ),
    ],
)
async def test_bad_messages_of_every_topic(service: Service, topic: str, good: Json, bad: list[Any]) -> None:
    key = new_id("key")
    await service.publish(topic, *(message(value, key) for value in [*bad, good]), Message(key, None))
    letters = await dead_letters_of(service, topic, [key], len(bad) + 1)
    assert [letter.value and json.loads(letter.value) for letter in letters] == [*bad, None]
    assert {dict(letter.headers)["x-error-code"] for letter in letters} == {b"invalid-message", b"empty"}


@pytest.mark.kafka
async def test_values_that_only_just_fit_block_nobody(facade: Facade, service: Service) -> None:
    # As a dead letter they have more headers; a compressed one is far beyond any limit once it is unpacked.
    product = new_id()
    topic = service.topic("review-submissions")
    largest = 12 * MIB - 1_000
    for compression, size in ((None, largest), ("gzip", 60 * MIB)):
        producer = AIOKafkaProducer(
            bootstrap_servers=service.servers.kafka, max_request_size=100 * MIB, compression_type=compression
        )
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"x" * size, product.encode())
        finally:
            await producer.stop()
    await service.publish("review-submissions", message(submission(product), product))
    await listed(facade, product, 1)
    letters = await dead_letters_of(service, "review-submissions", [product], 2)
    assert {dict(letter.headers)["x-error-code"] for letter in letters} == {b"too-large"}


@pytest.mark.parametrize("compression", ["gzip", "lz4", "snappy", "zstd"])
@pytest.mark.kafka
async def test_compressed_messages(facade: Facade, service: Service, compression: str) -> None:
    product = new_id()
    producer = Producer({"bootstrap.servers": service.servers.kafka, "compression.type": compression, "linger.ms": 50})
    for _ in range(20):
        producer.produce(service.topic("review-submissions"), message(submission(product, id=new_id())).value)
    assert await asyncio.to_thread(producer.flush, 20) == 0
    await listed(facade, product, 20)


async def test_approved_right_after_the_202_a_thousand_times(facade: Facade, service: Service) -> None:
    product, times, clients = new_id(), 1_000, 20

    async def client(share: Iterable[int]) -> None:
        async with connection(service) as facade:
            for number in share:
                status, answer = await facade.post(REVIEWS, [submission(product, 1 + number % 5)])
                assert status == 202
                status, _ = await facade.post(f"{REVIEWS}/approve", answer["ids"])
                assert status == 202

    await asyncio.gather(*(client(range(first, times, clients)) for first in range(clients)))
    await rated(facade, product, 3.0, times)


async def test_moderation_published_before_its_submission_a_thousand_times(facade: Facade, service: Service) -> None:
    product, times = new_id(), 1_000
    ids = [new_id("review") for _ in range(times)]
    # The last word counts: a quarter each ends approved, rejected, reset, deleted.
    words = [["approve"], ["approve", "reject"], ["reject", "approve", "reset"], ["approve", "delete"]]
    commands = [moderation(word, id) for n, id in enumerate(ids) for word in words[n % 4]]
    await service.publish("moderation-commands", *commands)
    await service.publish("review-submissions", *(message(submission(product, 4, id=id)) for id in ids))
    await rated(facade, product, 4.0, times // 4)
    for status in ("Rejected", "New"):
        search = partial(facade.page, entityIds=[product], reviewStatus=status, take=0)
        await eventually(search, lambda page: page["totalCount"] == times // 4)
    await eventually(partial(facade.page, entityIds=[product], take=0), lambda page: page["totalCount"] == 750)


async def test_a_refused_submission_is_told_and_taken_when_it_is_sent_again(facade: Facade, service: Service) -> None:
    store, product, id = await facade.open_store(reviewsEnabled=False), new_id(), new_id("review")
    review = message(submission(product, 5, storeId=store, id=id))
    await service.publish("review-submissions", review)

    async def refusals() -> list[Any]:
        key = f"Product:{product}".encode()
        return [record for record in await service.records("events") if record.key == key]

    (event,) = await eventually(refusals)
    headers = dict(event.headers)
    assert headers["ce_type"] == b"plaudit.SubmissionRefused"
    assert headers["ce_specversion"] == b"1.0"
    assert {"ce_id", "ce_source", "ce_time", "content-type"} < set(headers)
    told = json.loads(event.value)
    assert told.pop("message")
    assert told == {
        "reviewId": id,
        "entityType": "Product",
        "entityId": product,
        "storeId": store,
        "code": "reviews-disabled",
    }
    assert await facade.listed(entityIds=[product]) == []
    assert await facade.moderate("approve", id) == ["not-found"]
    assert {letter.key for letter in await service.dead_letters()}.isdisjoint({event.key})

    await facade.open_store(store)
    await service.publish("review-submissions", review)
    await listed(facade, product, 1)
    assert await facade.moderate("approve", id) == ["applied"]
    assert await facade.rating(product) == (5.0, 1)


async def test_events_tell_what_happened(facade: Facade, service: Service) -> None:
    product, store = new_id(), await facade.open_store()
    (id,) = await facade.submit(submission(product, 4, storeId=store))
    for action in ("approve", "approve", "reset", "reject", "delete", "delete"):
        await facade.moderate(action, id)

    async def events() -> list[tuple[str, Any]]:
        found = [r for r in await service.records("events") if r.key == f"Product:{product}".encode()]
        return [(dict(r.headers)["ce_type"].decode().removeprefix("plaudit."), json.loads(r.value)) for r in found]

    found = await eventually(events, lambda found: len(found) >= 6)
    assert [kind for kind, _ in found] == [
        "ReviewApproved",
        "RatingChanged",
        "ReviewReset",
        "RatingChanged",
        "ReviewRejected",
        "ReviewDeleted",
    ]
    assert {event["storeId"] for _, event in found} == {store}
    assert [event["reviewId"] for kind, event in found if kind.startswith("Review")] == [id] * 4
    ratings = [event for kind, event in found if kind == "RatingChanged"]
    assert [(r["reviewCount"], r["average"]) for r in ratings] == [(1, 4.0), (0, 0.0)]


async def test_our_own_messages_carry_cloud_events(facade: Facade, http: httpx.AsyncClient, service: Service) -> None:
    product = new_id()
    submitted = await http.post(REVIEWS, json=[submission(product)])
    (id,) = submitted.json()["ids"]
    await facade.moderate("approve", id)
    for topic, key in (
        ("review-submissions", f"Product:{product}"),
        ("moderation-commands", id),
        ("review-changes", f"Product:{product}"),
        ("events", f"Product:{product}"),
    ):

        async def found(topic: str = topic, key: str = key) -> list[Any]:
            return [record for record in await service.records(topic) if record.key == key.encode()]

        for record in await eventually(found):
            headers = dict(record.headers)
            assert headers["ce_specversion"] == b"1.0"
            assert headers["ce_type"].startswith(b"plaudit.")
            assert headers["content-type"] == b"application/json"
            assert {"ce_id", "ce_source", "ce_time"} < set(headers)


@pytest.fixture
async def own_facade(own_service: Service) -> AsyncIterator[Facade]:
    async with own_service.client() as client:
        yield Facade(client)


async def contents(service: Service) -> dict[str, list[Json]]:
    """Everything that the database says about reviews, ratings, stores and settings."""
    names = ("reviews", "ratings", "stores", "settings")
    async with service.mongo() as database:
        return {name: await database[name].find().sort("_id").to_list() for name in names}


async def refusals(service: Service) -> set[bytes]:
    """The ids of the events about refused submissions."""
    events = [dict(record.headers) for record in await service.records("events")]
    return {event["ce_id"] for event in events if event["ce_type"] == b"plaudit.SubmissionRefused"}


@pytest.mark.kafka
async def test_every_offset_of_every_topic_replayed_changes_nothing(own_service: Service, own_facade: Facade) -> None:
    service, facade, chance = own_service, own_facade, random.Random(11)
    products, stores = [new_id() for _ in range(4)], [await facade.open_store() for _ in range(2)]
    closed, later, soon_closed = (
        await facade.open_store(reviewsEnabled=False),
        await facade.open_store(reviewsEnabled=False),
        await facade.open_store(),
    )
    places = list(itertools.product(products, [None, *stores]))
    reviews = [
        submission(product, chance.randint(100, 500) / 100, storeId=store, id=new_id("review"))
        for product, store in places * 10
    ]
    ids = [review["id"] for review in reviews]
    parked = [moderation("approve", id) for id in ids[:20]]
    await service.publish("moderation-commands", *parked)
    await service.publish("review-submissions", *map(message, reviews))
    await service.idle()

    for action in ["approve", "reject", "reset", "approve", "delete"]:
        some = chance.sample(ids, 25)
        await facade.moderate(action, *some)
        # By several ids at once, and on whichever partition the key leads to.
        commands = [
            moderation(chance.choice(["approve", "reject", "reset"]), *chance.sample(ids, 7), key=new_id("key"))
            for _ in range(20)
        ]
        await service.publish("moderation-commands", *commands)
        await service.idle()
    await facade.moderate("delete", *ids[-5:])

    refused = [submission(products[0], 5, storeId=store, id=new_id("review")) for store in (closed, later, later)]
    await service.publish("review-submissions", *map(message, refused))
    await service.idle()
    await facade.open_store(later)
    # The second is sent again, the others aren't.
    await service.publish("review-submissions", message(refused[1]), message(submission(products[1], storeId=later)))
    (taken,) = await facade.submit(submission(products[0], 1, storeId=soon_closed))
    await facade.moderate("approve", taken)
    await service.idle()
    await facade.moderate("approve", refused[1]["id"])
    await facade.open_store(soon_closed, reviewsEnabled=False)
    for method in ("wilson", "average", "wilson"):
        await facade.command("PUT", "/api/settings", {"ratingCalculationMethod": method, "reminder": {"enabled": True}})
        await facade.command("PUT", f"/api/stores/{stores[0]}", {"settings": {"ratingCalculationMethod": method}})
    await facade.command("POST", f"/api/rating/calculateStore?storeId={stores[0]}")
    await service.publish("review-submissions", Message("bad", b"bad"))
    await service.idle()

    before, told = await contents(service), await refusals(service)
    kinds = {kind: sum(kind in review for review in before["reviews"]) for kind in ("status", "goneAt", "refused")}
    assert min(kinds.values()) >= 2, kinds
    assert await service.stop("worker") == 0
    await service.rewind()
    # The third refused one comes again meanwhile, which now is news, although it is in one batch with what is old.
    await service.publish("review-submissions", message(refused[2]))
    service.start("worker")
    await service.until_ready()
    await service.idle()
    after = await contents(service)
    (again,) = [review for review in after["reviews"] if review["_id"] == refused[2]["id"]]
    assert again["createdDate"]
    before["reviews"] = [again if review["_id"] == again["_id"] else review for review in before["reviews"]]
    for name, documents in before.items():
        assert after[name] == documents
    assert await refusals(service) == told
    verified = await asyncio.to_thread(service.run, "ratings", "verify")
    assert verified.returncode == 0, verified.stdout


@pytest.mark.kafka
async def test_a_worker_that_starts_late_finds_everything(servers: Servers, tmp_path: Path) -> None:
    # Submissions, commands and settings were published before any consumer group existed.
    product, id, store = new_id(), new_id("review"), new_id("store")
    service = Service(servers, tmp_path)
    initialised = await asyncio.to_thread(service.run, "init")
    assert initialised.returncode == 0, initialised.stderr
    await service.publish("moderation-commands", moderation("approve", id))
    await service.publish("review-submissions", message(submission(product, 2, id=id)))
    await service.publish("store-updates", message({"id": store, "name": "Late"}, store))
    async with running_service(servers, tmp_path, service=service), service.client() as client:
        await rated(Facade(client), product, 2.0, 1)

        async def name() -> Any:
            return (await client.get(f"/api/stores/{store}")).json().get("name")

        await eventually(name, lambda name: name == "Late")
