"""Commands are routed to the place of their review: by its id if the id contains it, otherwise by a look-up; early ones
wait there."""

import asyncio
import itertools
import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from consumers import routing_handover
from consumers.routing_handover import Handover
from domain.places import bucket_in, bucket_of, placed
from domain.ratings import Entity
from domain.schema import NEWEST
from messaging.kafka.connection import BrokerAwayError, KafkaConnection
from messaging.kafka.lag import ConsumerLag, Lag
from messaging.topics import Topic, TopicNames
from tests.support.facade import REVIEWS, WAIT, Facade, body_of, facade_of, new_id, once, submission
from tests.support.messages import message, review_message
from tests.support.retries import retry_until_decided
from tests.support.service import Json, Servers, Service
from tests.support.topics import delete_topic
from tests.support.waiting import eventually


def our_id(product: str, bucket: int | None = None) -> str:
    """Return an id like those of the service; with an explicit bucket, a forged one."""
    return placed(uuid4(), bucket_of(Entity("Product", product)) if bucket is None else bucket)


async def outcomes_of(service: Service, command_id: str, id: str) -> str:
    found: Json = await eventually(partial(service.find, "outcomes", f"{command_id}/{id}"))
    return str(found["outcome"])


async def send_early(facade: Facade, action: str, id: str) -> str:
    """Send a moderation that cannot take effect yet; returns its command id."""
    answer = await facade.http.post(f"{REVIEWS}/{action}", json=[id])
    assert answer.status_code == 202
    return str(answer.json()["commandId"])


async def decisions(service: Service, product: str, id: str) -> list[str]:
    """Return the moderation events of a review, in order."""
    kinds = [kind for kind, event in await service.events(f"Product:{product}") if event.get("reviewId") == id]
    return [kind for kind in kinds if kind in ("ReviewApproved", "ReviewRejected", "ReviewReset")]


async def parked(service: Service, id: str) -> int:
    async with service.mongo() as database:
        return await database["parkedCommands"].count_documents({"reviewId": id})


async def test_review_with_generated_id_is_moderated_without_router(
    facade: Facade, service: Service, product: str
) -> None:
    first, second = await facade.submit(submission(product), submission(product, rating=2))
    assert bucket_in(first) == bucket_in(second) == bucket_of(Entity("Product", product))
    await service.idle()

    async def bypasses_router() -> bool:
        before = len(await service.records("moderation-commands"))
        await facade.moderate("approve", first, second)
        await facade.until_rated(product, 3, 2)
        # Through the router if Kafka takes too long to report that nothing waits there.
        return len(await service.records("moderation-commands")) == before

    await eventually(bypasses_router)
    records = await service.keyed("review-changes", first) + await service.keyed("review-changes", second)
    count = await service.partitions("review-changes")
    assert {record.partition for record in records} == {bucket_of(Entity("Product", product)) * count // 4096}


async def test_repeat_with_same_key_is_the_same_review(facade: Facade, product: str) -> None:
    key, review = once(), submission(product)
    answers = [(await facade.http.post(REVIEWS, json=[review], headers=key)).json() for _ in range(2)]
    assert answers[0]["ids"] == answers[1]["ids"]
    await facade.until_listed(product, 1)


async def test_submission_stored_by_earlier_version_is_not_stored_again(
    facade: Facade, service: Service, product: str
) -> None:
    former, review = str(uuid4()), submission(product)
    await facade.submit({**review, "id": former})
    again = {**review, "id": our_id(product), "formerId": former}
    marker = submission(product, id=new_id("marker"))
    await service.publish("review-submissions", review_message(again), review_message(marker))
    listed = await facade.until_listed(product, 2)
    assert {row["id"] for row in listed} == {former, marker["id"]}


@pytest.mark.long
async def test_older_database_gets_places_while_service_runs(servers: Servers, tmp_path: Path, product: str) -> None:
    service = Service(servers, tmp_path)
    async with service.mongo() as database:
        await database["schema"].insert_one({"_id": "mark", "version": 1, "runsFrom": 0})
    key, review = {"Idempotency-Key": new_id("key")}, submission(product)
    unnamed = message(submission(product, rating=2), f"Product:{product}")
    async with service.running(), facade_of(service) as facade:
        await service.publish("review-submissions", unnamed)
        (former,) = (await facade.http.post(REVIEWS, json=[review], headers=key)).json()["ids"]
        assert bucket_in(former) is None
        await facade.moderate("approve", former)
        await facade.until_listed(product, 2)
        assert json.loads((await service.run("migrate", "--json")).stdout)["schema"] == NEWEST
        for process in ("worker", "api"):
            await service.restart(process)
        await service.until_ready()
        # Earlier submissions are recognised, whatever their ids would be under the new scheme.
        repeat = await retry_until_decided(partial(facade.http.post, REVIEWS, json=[review], headers={**WAIT, **key}))
        assert body_of(repeat, dict)["ids"] == [former]
        await service.publish("review-submissions", unnamed)
        (fresh,) = await facade.submit(submission(product, rating=5))
        assert bucket_in(fresh) is not None
        await facade.moderate("approve", fresh)
        await facade.moderate("reject", former)
        await service.idle()
        assert len(await facade.until_listed(product, 3)) == 3
        await facade.until_rated(product, 5, 1)


@pytest.mark.parametrize("kind", ["ours", "forged", "foreign"])
async def test_commands_before_their_review_take_effect_in_order(
    facade: Facade, service: Service, product: str, kind: str
) -> None:
    place = bucket_of(Entity("Product", product))
    id = {"ours": our_id(product), "forged": our_id(product, (place + 2048) % 4096), "foreign": new_id("review")}[kind]
    commands = [str(uuid4()) for _ in range(3)]
    early = [{"action": action, "ids": [id]} for action in ("approve", "reject", "approve")]
    await service.publish(
        "moderation-commands",
        *(message({**each, "commandId": command}, id) for each, command in zip(early, commands, strict=True)),
    )

    await eventually(partial(parked, service, id), (3).__eq__)
    await service.publish("review-submissions", review_message(submission(product, id=id, rating=5)))
    assert [await outcomes_of(service, command, id) for command in commands] == ["applied"] * 3
    await facade.until_rated(product, 5, 1)
    await eventually(partial(parked, service, id), (0).__eq__)
    expected = ["ReviewApproved", "ReviewRejected", "ReviewApproved"]
    await eventually(partial(decisions, service, product, id), expected.__eq__)
    await facade.moderate("reject", id)
    await facade.until_rated(product, 0, 0)


async def test_commands_by_http_and_kafka_before_their_review(facade: Facade, service: Service, product: str) -> None:
    id, commands = our_id(product), [str(uuid4()) for _ in range(2)]

    async def by_kafka(action: str, command: str) -> None:
        await service.publish("moderation-commands", message({"action": action, "ids": [id], "commandId": command}, id))

    async def until_parked(count: int) -> None:
        await eventually(partial(parked, service, id), count.__eq__)

    await by_kafka("approve", commands[0])
    await until_parked(1)
    second = await send_early(facade, "reject", id)
    await until_parked(2)
    await by_kafka("reset", commands[1])
    await until_parked(3)
    fourth = await send_early(facade, "approve", id)
    await until_parked(4)
    await service.publish("review-submissions", review_message(submission(product, id=id, rating=5)))
    for command in (commands[0], second, commands[1], fourth):
        assert await outcomes_of(service, command, id) == "applied"
    expected = ["ReviewApproved", "ReviewRejected", "ReviewReset", "ReviewApproved"]
    await eventually(partial(decisions, service, product, id), expected.__eq__)


async def test_commands_by_http_before_and_after_their_review(facade: Facade, service: Service, product: str) -> None:
    id = our_id(product)
    command = await send_early(facade, "approve", id)
    await eventually(partial(parked, service, id), (1).__eq__)
    await service.publish("review-submissions", review_message(submission(product, id=id, rating=4)))
    assert await outcomes_of(service, command, id) == "applied"
    await facade.until_rated(product, 4, 1)
    await facade.moderate("delete", id)
    late = await facade.command("POST", f"{REVIEWS}/approve", [id], once())
    assert [result["outcome"] for result in late] == ["not-found"]


@pytest.mark.long
async def test_command_by_http_follows_those_published_upstream(
    own_service: Service, own_facade: Facade, product: str
) -> None:
    service, facade = own_service, own_facade
    (id,) = await facade.submit(submission(product))
    await service.idle()
    await service.stop("worker")
    await service.publish("moderation-commands", message({"action": "reject", "ids": [id]}, id))
    command = await send_early(facade, "approve", id)
    service.start("worker")
    assert await outcomes_of(service, command, id) == "applied"
    await eventually(partial(decisions, service, product, id), ["ReviewRejected", "ReviewApproved"].__eq__)
    await facade.until_rated(product, 4, 1)


async def wait_for_handover(handover: Handover) -> None:
    """Wait as a worker does, retrying if Kafka takes too long to answer."""
    while True:
        with suppress(BrokerAwayError, KafkaError):
            return await handover.wait()
        await asyncio.sleep(0.1)  # the pause of a worker


@pytest.mark.long
async def test_commands_wait_for_those_forwarded_by_another_worker(own_service: Service, product: str) -> None:
    service = own_service
    await service.idle()
    await service.stop("worker")
    recount = {"kind": "recount", "entityType": "Product", "entityId": product}
    await service.publish("review-changes", message(recount, f"Product:{product}"))
    handover = Handover(KafkaConnection(service.servers.kafka), TopicNames(service.topic("")))
    waiting = asyncio.create_task(wait_for_handover(handover))
    await asyncio.sleep(2)  # nothing reports that it waits
    assert not waiting.done()
    service.start("worker")
    await waiting
    await service.stop("worker")
    await service.publish("review-changes", message(recount, f"Product:{product}"))
    # No other worker has had its partitions in between, so it need not wait; after a new assignment one may have.
    await wait_for_handover(handover)
    handover.on_partitions_assigned([])
    waiting = asyncio.create_task(wait_for_handover(handover))
    await asyncio.sleep(1)  # as above
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    service.start("worker")


@pytest.mark.long
async def test_records_published_after_slow_answer_are_not_awaited(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would wait for as long as others keep forwarding commands."""
    service, asked = Service(servers, tmp_path), itertools.count(1)
    await service.run("init")
    topic, connection = service.topic("review-changes"), KafkaConnection(servers.kafka)

    class LateLag(ConsumerLag):
        async def measure(self, *topics: Topic) -> Lag:
            if next(asked) == 2:
                raise BrokerAwayError("too late")
            return await super().measure(*topics)

    monkeypatch.setattr(routing_handover, "ConsumerLag", LateLag)
    handover = Handover(connection, TopicNames(service.prefix))
    await service.publish("review-changes", message({"id": "x"}, "x"))
    with pytest.raises(BrokerAwayError):
        await handover.wait()
    await service.publish("review-changes", message({"id": "x"}, "x"))
    consumer = AIOKafkaConsumer(**connection.client_options(), group_id=topic, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, number) for number in range(service.count)])
        ends = await consumer.end_offsets(consumer.assignment())
        await consumer.commit({partition: max(0, end - 1) for partition, end in ends.items()})
    finally:
        await consumer.stop()
    await asyncio.wait_for(handover.wait(), 60)


@pytest.mark.long
@pytest.mark.parametrize("partitions", [4, 1])
async def test_records_of_deleted_topic_are_not_awaited(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    service, has_looked, is_recreated = Service(servers, tmp_path), asyncio.Event(), asyncio.Event()
    await service.run("init")
    await service.publish("review-changes", *(message({"id": key}, key) for key in "abcdefghijkl"))

    class PausingLag(ConsumerLag):
        async def measure(self, *topics: Topic) -> Lag:
            found = await super().measure(*topics)
            has_looked.set()
            await is_recreated.wait()
            return found

    monkeypatch.setattr(routing_handover, "ConsumerLag", PausingLag)
    handover = Handover(KafkaConnection(servers.kafka), TopicNames(service.prefix))
    waiting = asyncio.create_task(wait_for_handover(handover))
    await has_looked.wait()
    await delete_topic(servers, service.topic("review-changes"))
    service.count = partitions
    await service.run("init")
    is_recreated.set()
    await asyncio.wait_for(waiting, 60)


@pytest.mark.long
async def test_early_command_is_given_up_eventually(own_service: Service, own_facade: Facade, product: str) -> None:
    async def send_direct() -> tuple[str, ...]:
        id = our_id(product)
        command = await send_early(own_facade, "approve", id)
        # Through the router if Kafka takes too long to report that nothing waits there.
        return () if await own_service.keyed("moderation-commands", id) else (id, command)

    id, command = await eventually(send_direct)

    async def make_overdue() -> bool:
        async with own_service.mongo() as database:
            past = {"$dateSubtract": {"startDate": "$$NOW", "unit": "hour", "amount": 2}}
            found = await database["parkedCommands"].update_many({"reviewId": id}, [{"$set": {"parkedAt": past}}])
        return found.modified_count == 1

    await eventually(make_overdue)
    assert await outcomes_of(own_service, command, id) == "not-found"
    (letter,) = await own_service.letters("review-changes", id, 1)
    assert json.loads(letter.value) == {
        "kind": "moderation",
        "reviewId": id,
        "action": "approve",
        "commandId": command,
    }
