"""Growing topics: partitions are added while everything runs, and records of a key keep their order."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from domain.places import murmur2
from messaging.kafka.partition_counts import Growth, Step
from messaging.topics import Topic
from storage.topics_growth import GrowthRepository
from tests.support.consumers import Desk
from tests.support.facade import REVIEWS, Facade, facade_of, new_id, submission
from tests.support.forks import ForkedCommand
from tests.support.messages import Message, review_message
from tests.support.retries import retry_until_served
from tests.support.service import PARTITIONS, Json, Servers, Service
from tests.support.topics import delete_topic
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

GROWN = 2 * PARTITIONS


async def save(service: Service, topic: str, growth: Growth) -> None:
    async with service.mongo() as database:
        await GrowthRepository(database).save(topic, growth)


async def stored(service: Service) -> set[str]:
    async with service.mongo() as database:
        return set(await database["reviews"].distinct("entityId"))


@pytest.mark.long
async def test_new_partitions_are_read_after_growth(stopped_service: Service) -> None:
    await save(stopped_service, "review-submissions", Growth(2, to=PARTITIONS))
    products = [new_id() for _ in range(40)]
    readable = {id for id in products if murmur2(f"Product:{id}".encode()) % PARTITIONS < 2}
    assert 0 < len(readable) < 40
    await stopped_service.publish("review-submissions", *(review_message(submission(id)) for id in products))
    async with stopped_service.running(api=False):
        assert await eventually(partial(stored, stopped_service), lambda found: found >= readable) == readable
        await save(stopped_service, "review-submissions", Growth(PARTITIONS))
        await eventually(partial(stored, stopped_service), set(products).__eq__)


@pytest.mark.long
async def test_import_uses_the_partitions_that_are_read(servers: Servers, tmp_path: Path) -> None:
    service, file = Service(servers, tmp_path), tmp_path / "reviews.jsonl"
    await service.run("init")
    await save(service, "review-submissions", Growth(2, to=PARTITIONS))
    products = [new_id() for _ in range(40)]
    file.write_text("".join(f"{json.dumps(submission(id))}\n" for id in products))
    await service.run("import", str(file))
    async with service.running(api=False):
        await eventually(partial(stored, service), set(products).__eq__)


@pytest.mark.long
async def test_unsuitable_partition_count_is_refused(stopped_service: Service) -> None:
    for number in (PARTITIONS + 2, PARTITIONS // 2):
        output = (await stopped_service.run("topics", "grow", str(number), code=2)).stderr
        assert f"has {PARTITIONS} partitions: the new number must be a multiple of it" in " ".join(output.split())
    assert "1000" in (await stopped_service.run("topics", "grow", "1004", code=2)).stderr
    output = (await stopped_service.run("topics", "grow", str(PARTITIONS))).stdout
    assert output == f"Every topic has {PARTITIONS} partitions.\n"
    result = json.loads((await stopped_service.run("topics", "grow", str(PARTITIONS), "--json")).stdout)
    assert result == {"partitions": PARTITIONS, "grown": []}


@pytest.mark.long
async def test_recreated_topic_has_previous_partitions(stopped_service: Service) -> None:
    for topic in Topic:
        if topic.is_consumed:
            await save(stopped_service, topic, Growth(GROWN))
    await delete_topic(stopped_service.servers, stopped_service.topic("order-events"))
    await stopped_service.run("init")

    async def counts() -> list[int]:
        return [await stopped_service.partitions(topic) for topic in ("order-events", "mail-commands", "events")]

    # The broker may not show yet what Kafka's controller has created.
    await eventually(counts, [GROWN, PARTITIONS, PARTITIONS].__eq__)
    stdout = (await stopped_service.run("topics", "grow", f"{GROWN}")).stdout
    assert stdout == f"Every topic has {GROWN} partitions.\n"
    await eventually(counts, [GROWN, GROWN, PARTITIONS].__eq__)


async def growths(service: Service) -> set[Growth]:
    async with service.mongo() as database:
        return set((await GrowthRepository(database).all()).values())


async def test_switch_that_mongodb_makes_too_late_changes_nothing(desk: Desk) -> None:
    growth = GrowthRepository(desk.database)
    await growth.save("events", Growth(PARTITIONS, to=GROWN))
    await growth.go_to(Step.SWITCHING, ["events"])
    later = [{"$set": {"since": {"$subtract": ["$since", 20_000]}}}]
    await desk.database["topics"].update_one({}, later)
    for within_s, step in ((15, Step.SWITCHING), (30, Step.SWITCHED), (15, Step.SWITCHED)):
        assert await growth.switch(["events"], within_s) == (step is Step.SWITCHED)
        assert [each.step for each in (await growth.all()).values()] == [step]


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_stopped_growth_is_rolled_back(stopped_service: Service, number: signal.Signals) -> None:
    stopped = grower(stopped_service)
    await eventually(partial(growths, stopped_service), {Growth(PARTITIONS, to=GROWN)}.__eq__)
    await eventually(partial(output_of_grower, stopped_service), lambda said: "until all processes know" in said)
    stopped.send_signal(number)
    assert await asyncio.to_thread(stopped.wait, 60) == 1
    assert "Traceback" not in await output_of_grower(stopped_service)
    assert await growths(stopped_service) == {Growth(PARTITIONS)}


class Upstream:
    """Publishers during the growth: each object gets consecutive numbered steps, counted in `steps`."""

    def __init__(self, service: Service, facades: Sequence[Facade], producer: AIOKafkaProducer) -> None:
        self._service = service
        self._facades = facades
        self._producer = producer
        self._is_over = False
        self.steps: dict[str, int] = {}

    async def send(self, topic: str, key: str, value: Json) -> None:
        await self._producer.send_and_wait(self._service.topic(topic), json.dumps(value).encode(), key.encode())

    async def moderate(self, id: str, number: int) -> None:
        action = "reject" if number % 2 else "approve"
        await self.send("moderation-commands", id, {"action": action, "ids": [id], "reason": f"{number}"})

    async def moderate_by_http(self, id: str, number: int) -> None:
        await self.post(f"{REVIEWS}/{'reject' if number % 2 else 'approve'}", [id], number)

    async def edit_by_http(self, product: str, number: int) -> None:
        # Out of order, the second of two equal edits would find another text.
        review = submission(product, id=f"{product}-review", review=f"Edit {number // 2}")
        await self.post(REVIEWS, [review], number)

    async def post(self, path: str, body: Sequence[str | Json], number: int) -> None:
        """Send a command to the API instances in turn, like a load balancer."""
        facade = self._facades[number % len(self._facades)]
        answer = await retry_until_served(
            partial(facade.http.post, path, json=body, headers={"Idempotency-Key": new_id("key")})
        )
        assert answer.status_code == 202, answer.text

    async def edit(self, product: str, number: int) -> None:
        review = submission(product, number % 5 + 1, id=f"{product}-review", review=f"Edit {number}")
        await self.send("review-submissions", f"Product:{product}", review)

    async def go_on(self, thing: str, step: Callable[[str, int], Coroutine[Any, Any, None]]) -> None:
        for number in count(self.steps.get(thing, 0)):
            await step(thing, number)
            self.steps[thing] = number + 1
            if self._is_over:
                return
            await asyncio.sleep(0.5)  # two steps of each object per second while the topics grow

    @asynccontextmanager
    async def running(self, *going: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            for each in going:
                tasks.create_task(each)
            yield
            self._is_over = True


@pytest.mark.slow
async def test_topics_grow_while_everything_runs(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    edited, foreign, ours, late, edited_late = ([new_id() for _ in range(12)] for _ in range(5))
    async with (
        service.running(("worker", "worker2")),
        facade_of(service) as facade,
        another_facade(service, tmp_path / "early") as early_one,
    ):
        # No mailer runs, so this record stays unread.
        await service.publish("mail-commands", Message("order", b"{}"))
        # Its metadata, and so its partitions, are refreshed late.
        producer = AIOKafkaProducer(bootstrap_servers=servers.kafka, metadata_max_age_ms=45_000)
        async with producer:
            upstream = Upstream(service, [facade], producer)
            named = {product: f"{product}-review" for product in foreign}
            named_late = {product: f"{product}-review" for product in late}
            await early_one.submit(submission(new_id()))
            await facade.submit(*(submission(product, id=id) for product, id in (named | named_late).items()))
            given = dict(zip(ours, await facade.submit(*map(submission, ours)), strict=True))
            going = [
                *(upstream.go_on(product, upstream.edit) for product in edited),
                *(upstream.go_on(id, upstream.moderate) for id in named.values()),
                *(upstream.go_on(id, upstream.moderate_by_http) for id in given.values()),
            ]
            async with upstream.running(*going):
                interrupted = grower(service)
                await eventually(partial(output_of_grower, service), lambda said: "aren't read yet" in said)
                interrupted.send_signal(signal.SIGKILL)
                await asyncio.to_thread(interrupted.wait, 60)
                doctor = (await service.run("doctor", code=None)).stdout
                assert f"`plaudit topics grow {GROWN}` continues" in " ".join(doctor.split())
                assert "is unfinished" in (await service.run("topics", "grow", f"{2 * GROWN}", code=2)).stderr
                async with another_facade(service, tmp_path / "late") as late_one:
                    # It knows the new partitions from its start, while the earlier instance learns them minutes later.
                    deciding = Upstream(service, [facade, late_one], producer)
                    editing = Upstream(service, [early_one, late_one], producer)
                    moderated = (deciding.go_on(id, deciding.moderate_by_http) for id in named_late.values())
                    edits = (editing.go_on(product, editing.edit_by_http) for product in edited_late)
                    async with deciding.running(*moderated), editing.running(*edits):
                        assert await asyncio.to_thread(grower(service, "--wait", "60").wait, 300) == 0
        assert f" to {GROWN} partitions: {service.prefix}" in await output_of_grower(service)
        service.grown = GROWN
        await service.idle()
        assert "no topic is growing" in (await service.run("doctor", code=None)).stdout
        for topic in ("review-submissions", "moderation-commands", "review-changes"):
            used = {record.partition for record in await service.records(topic)}
            assert used > set(range(PARTITIONS)), topic
        steps = upstream.steps | deciding.steps
        for product, id in (named | named_late | given).items():
            decisions = [data for _, data in await service.events(f"Product:{product}") if "statusBefore" in data]
            # Out of order, a decision would find its status already set, and change nothing.
            assert len(decisions) == steps[id]
            if product in named:
                assert [data["reason"] for data in decisions] == [f"{n}" for n in range(len(decisions))]
        for product in edited:
            (row,) = (await facade.page(entityIds=[product]))["results"]
            assert row["review"] == f"Edit {upstream.steps[product] - 1}"
            assert await edits_of(service, product) == upstream.steps[product] - 1
        for product in edited_late:
            assert await edits_of(service, product) == (editing.steps[product] - 1) // 2


async def edits_of(service: Service, product: str) -> int:
    return [kind for kind, _ in await service.events(f"Product:{product}")].count("ReviewEdited")


@asynccontextmanager
async def another_facade(service: Service, folder: Path) -> AsyncIterator[Facade]:
    """Run another API instance of a service."""
    other = Service(service.servers, folder, prefix=service.prefix)
    folder.mkdir()
    async with other.running(()), facade_of(other) as facade:
        yield facade


def grower(service: Service, *options: str) -> ForkedCommand:
    command = ("topics", "grow", f"{GROWN}", *options)
    environment = service.command_environment()
    return ForkedCommand(*command, environment=environment, folder=service.folder, log=service.folder / "grow.log")


async def output_of_grower(service: Service) -> str:
    return (service.folder / "grow.log").read_text()
