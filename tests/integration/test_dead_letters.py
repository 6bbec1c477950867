"""Messages that can't be processed become dead letters and delay no others."""

import json
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from messaging.topics import MAX_RECORD_BYTES
from tests.support.facade import Facade, new_id, submission
from tests.support.messages import Message, message
from tests.support.service import Json, Service
from tests.support.waiting import eventually

MIB = 1024 * 1024


def bad_values() -> dict[str, bytes | None]:
    """Return values that can never be read as a submission."""
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


async def test_bad_messages_become_dead_letters_and_others_are_stored(facade: Facade, service: Service) -> None:
    product = new_id()
    values = list(bad_values().items())
    messages: list[Message] = []
    for number, (name, value) in enumerate(values):
        # One key, so all of them are in the same partition.
        odd = [("trace", name.encode()), ("trace", b"\xff\x00"), ("x-error-code", b"theirs")]
        messages += [message(submission(product, title=f"good {number}"), product), Message(product, value, odd)]
    await service.publish("review-submissions", *messages, message(submission(product, title="end"), product))
    rows = await facade.until_listed(product, len(values) + 1)
    assert {row["title"] for row in rows} == {f"good {n}" for n in range(len(values))} | {"end"}

    letters = await service.letters("review-submissions", product, len(values))
    by_name = {dict(letter.headers[:1])["trace"].decode(): letter for letter in letters}
    codes = {}
    for name, value in values:
        letter = by_name[name]
        assert letter.value == value
        assert letter.headers[1] == ("trace", b"\xff\x00")
        reason = {header: value.decode() for header, value in letter.headers if header.startswith("x-")}
        error, source = {"x-error-code", "x-error-message"}, {"x-source-topic", "x-source-partition", "x-source-offset"}
        assert set(reason) == error | source | {"x-failed-at", "x-first-published"}
        assert len(letter.headers) == 2 + len(reason)
        assert reason["x-source-topic"] == service.topic("review-submissions")
        assert reason["x-source-offset"].isdecimal()
        assert reason["x-error-message"]
        codes[name] = reason["x-error-code"]
    expected = {
        "empty": ("no value",),
        "too-large": ("5 MB",),
        "invalid-json": ("empty", "not JSON", "half", "deep", "deep arrays", "invalid UTF-8", "null bytes"),
        "invalid-message": ("wrong types", "missing fields", "rating 9", "null characters", "1,001 reviews"),
    }
    for code, names in expected.items():
        assert {name: codes[name] for name in names} == dict.fromkeys(names, code)
    assert "/rating" in dict(by_name["rating 9"].headers)["x-error-message"].decode()


@pytest.mark.parametrize(
    ("topic", "good", "bad"),
    [
        (
            "moderation-commands",
            {"action": "approve", "ids": ["nobody"]},
            [
                *({"action": "praise", "ids": ["a"]}, {"ids": ["a"]}, []),
                *({"action": "approve", "ids": ids} for ids in ([], "a", [None], ["x" * 129], ["a"] * 1_001)),
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
async def test_bad_messages_of_every_topic_become_dead_letters(
    service: Service, topic: str, good: Json, bad: list[Any]
) -> None:
    key = new_id("key")
    await service.publish(topic, *(message(value, key) for value in [*bad, good]), Message(key, None))
    letters = await service.letters(topic, key, len(bad) + 1)
    assert [letter.value and json.loads(letter.value) for letter in letters] == [*bad, None]
    assert {dict(letter.headers)["x-error-code"] for letter in letters} == {b"invalid-message", b"empty"}


@pytest.mark.long
@pytest.mark.kafka
async def test_huge_values_block_no_partition(facade: Facade, service: Service, product: str) -> None:
    # As a dead letter the value has more headers; a compressed one exceeds any limit once it is expanded.
    topic = service.topic("review-submissions")
    largest = MAX_RECORD_BYTES - 1_000
    for compression, size in ((None, largest), ("gzip", 60 * MIB)):
        options = {"bootstrap_servers": service.servers.kafka, "max_request_size": 100 * MIB}
        async with AIOKafkaProducer(**options, compression_type=compression) as producer:
            await producer.send_and_wait(topic, b"x" * size, product.encode())
    await service.publish("review-submissions", message(submission(product), product))
    await facade.until_listed(product, 1)
    (letter,) = await service.letters("review-submissions", product, 1)
    assert dict(letter.headers)["x-error-code"] == b"too-large"
    # The compressed one is not expanded, so not even its key is known, only its place.
    source = {name: dict(letter.headers)[name] for name in ("x-source-topic", "x-source-partition")}
    following = source | {"x-source-offset": str(int(dict(letter.headers)["x-source-offset"]) + 1).encode()}

    async def not_expanded() -> list[bytes]:
        headers_of_letters = [dict(each.headers) for each in await service.records("review-submissions.dlq")]
        return [headers["x-error-code"] for headers in headers_of_letters if following.items() <= headers.items()]

    assert await eventually(not_expanded) == [b"too-large"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("topic", "collection", "payload"),
    [
        ("review-feedback", "parkedCommands", {"action": "vote", "userId": "zoe", "helpful": True}),
        (
            "moderation-verdicts",
            "parkedVerdicts",
            {"textHash": "0" * 64, "source": "ai", "verdict": "flag", "labels": ["spam"], "score": 0.5},
        ),
    ],
)
async def test_expired_message_becomes_dead_letter(
    facade: Facade, service: Service, product: str, topic: str, collection: str, payload: Json
) -> None:
    id, command = new_id("review"), new_id("command")
    is_command = topic == "review-feedback"
    published = {"reviewId": id, **payload, **({"commandId": command} if is_command else {})}
    await service.publish(topic, message(published, id))
    path = f"/api/commands/{command}"
    async with service.mongo() as database:
        parked = database[collection]
        await eventually(partial(parked.count_documents, {"reviewId": id}), lambda found: found == 1)
        if is_command:
            assert (await facade.get(path))["outcome"] == "accepted"
        past = {"$dateSubtract": {"startDate": "$$NOW", "unit": "hour", "amount": 2}}
        await parked.update_many({"reviewId": id}, [{"$set": {"parkedAt": past}}])
        (letter,) = await service.letters(topic, id, 1)
        assert json.loads(letter.value) == published
        headers = dict(letter.headers)
        assert headers["x-error-code"] == b"review-not-found"
        (record,) = await service.keyed(topic, id)
        source = (record.topic, record.partition, record.offset)
        assert source == (
            headers["x-source-topic"].decode(),
            *(int(headers[f"x-source-{name}"]) for name in ("partition", "offset")),
        )
        await eventually(partial(parked.count_documents, {"reviewId": id}), lambda found: found == 0)
    if is_command:
        state = await facade.get(path)
        assert (state["outcome"], state["results"]) == ("refused", [{"id": id, "outcome": "not-found"}])
    # It has no effect on a review that is submitted later.
    await facade.submit(submission(product, 4, id=id))
    review = await facade.review(id)
    assert (review["helpful"], review["flags"]) == (0, [])


@pytest.mark.long
async def test_replay_of_expired_command_takes_effect(facade: Facade, service: Service, product: str) -> None:
    id = new_id("review")
    await facade.approve_early(id)
    async with service.mongo() as database:
        past = {"$dateSubtract": {"startDate": "$$NOW", "unit": "hour", "amount": 2}}
        await database["parkedCommands"].update_many({"reviewId": id}, [{"$set": {"parkedAt": past}}])
    (letter,) = await service.letters("moderation-commands", id, 1)
    await facade.submit(submission(product, 4, id=id))
    # A replay is a command of its own, since its id was answered already; a duplicate of the replay is a repeat.
    await service.run("dlq", "replay", f"moderation-commands/{letter.partition}/{letter.offset}")
    await facade.until_rated(product, 4, 1)
    published = await service.keyed("moderation-commands", id)
    (replayed,) = [record for record in published if "x-replayed-from" in dict(record.headers)]
    assert await facade.moderate("reject", id) == ["applied"]
    await service.publish("moderation-commands", Message(id, replayed.value, replayed.headers))
    await service.idle()
    assert (await facade.review(id))["reviewStatus"] == "Rejected"


@pytest.mark.long
@pytest.mark.parametrize(
    ("topic", "id_field", "identity"),
    [("order-events", "id", {}), ("object-updates", "entityId", {"entityType": "Product"})],
)
async def test_replay_overwrites_no_newer_state(service: Service, topic: str, id_field: str, identity: Json) -> None:
    id = new_id("told")
    field = "name" if identity else "status"

    def update(value: object) -> Message:
        return message({id_field: id, **identity, field: value}, id)

    async def newest() -> object:
        async with service.mongo() as database:
            order = await database["orders"].find_one({"_id": id})
            thing = await database["objects"].find_one({"_id.entityId": id})
            return order["status"] if order else thing and thing["facts"]["name"]

    await service.publish(topic, update(7))
    (letter,) = await service.letters(topic, id, 1)
    await service.publish(topic, update("Second"))
    await eventually(newest, lambda found: found == "Second")
    (service.folder / "mended.json").write_bytes(update("First").value or b"")
    place = f"{topic}/{letter.partition}/{letter.offset}"
    await service.run("dlq", "replay", place, "--value", "mended.json")
    await service.publish(topic, update(8))
    await service.letters(topic, id, 2)
    assert await newest() == "Second"


@pytest.mark.long
async def test_replay_overwrites_no_newer_edit(facade: Facade, service: Service, product: str) -> None:
    id, late = new_id("review"), new_id("review")

    def review_message(id: str, text: object) -> Message:
        return message({**submission(product, 4, id=id, userId="anna"), "review": text}, product)

    async def replay(letter: Any, corrected: Message) -> None:
        (service.folder / "mended.json").write_bytes(corrected.value or b"")
        place = f"review-submissions/{letter.partition}/{letter.offset}"
        await service.run("dlq", "replay", place, "--value", "mended.json")
        await service.idle()

    await service.publish(
        "review-submissions",
        review_message(id, "Stored"),
        review_message(id, 7),
        review_message(late, 8),
        review_message(late, 9),
    )
    letters = await service.letters("review-submissions", product, 3)
    await service.publish("review-submissions", review_message(id, "Newer"))
    await service.idle()
    await replay(letters[0], review_message(id, "Older"))
    assert (await facade.review(id))["review"] == "Newer"
    # The second letter is newer than the first, however late the first one's replay stores the review.
    await replay(letters[1], review_message(late, "First"))
    await replay(letters[2], review_message(late, "Second"))
    assert (await facade.review(late))["review"] == "Second"


@pytest.mark.long
async def test_letters_with_impossible_times_are_shown_and_judged(service: Service, facade: Facade) -> None:
    """Others may write to the topics of dead letters, too, and give their records any time. The API and the command
    line show the same."""
    topic, key, times = "image-commands", new_id(), (-1, -(2**62))
    await service.publish(f"{topic}.dlq", *(Message(key, b"{", timestamp=time) for time in times))
    letters = await service.letters(topic, key, len(times))
    places = [f"{topic}/{letter.partition}/{letter.offset}" for letter in letters]

    listed = json.loads((await service.run("dlq", "list", "--topic", topic, "--json")).stdout)
    assert {row["at"] for row in listed if row["place"] in places} == {"1970-01-01T00:00:00.000Z"}
    for place in places:
        assert (await facade.get(f"/api/deadLetters/{place}"))["at"] == "1970-01-01T00:00:00.000Z"
    summary = json.loads((await service.run("dlq", "summary", "--topic", topic, "--json")).stdout)
    assert summary["groups"][0]["oldestOpen"] == "1970-01-01T00:00:00.000Z"
    shown = await service.run("dlq", "show", topic, *places[1].split("/")[1:])
    assert "time       1970-01-01T00:00:00.000Z" in shown.stdout
    tried = json.loads((await service.run("dlq", "replay", *places, "--dry-run", "--json")).stdout)
    assert tried["replayed"] == len(places)
