"""Recovery from outages and crashes: nothing is lost or applied twice, and no operator is needed."""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from devservers.broker import Broker, embedded_kafka
from devservers.mongo import embedded_mongo
from tests.support.facade import REVIEWS, WAIT, Facade, body_of, facade_of, new_id, submission
from tests.support.messages import message, moderation
from tests.support.processes import Marked
from tests.support.ratings import average
from tests.support.service import Json, Servers, Service
from tests.support.sockets import connection
from tests.support.up_command import Up
from tests.support.waiting import DEADLINE_S, eventually

OUTAGE_S = float(os.environ.get("PLAUDIT_TEST_OUTAGE_S", "3"))
"""Seconds that a server stays away; 30 in `make test-slow`."""

PUBLISHING_S = 10.0
"""Seconds for which the API tries to publish before it answers 503."""

PAUSE_S = 0.02
"""Seconds between the requests of a client: a load that one machine carries beside everything else."""

SUBMISSIONS = int(os.environ.get("PLAUDIT_TEST_SUBMISSIONS", "2000"))
"""Submissions, with half as many moderations; 20,000 in `make test-slow`."""


@dataclass
class Load:
    """Clients that submit and approve continuously, and the responses they got."""

    service: Service
    product: str
    statuses: Counter[int] = field(default_factory=Counter)
    submitted: set[str] = field(default_factory=set)
    approved: set[str] = field(default_factory=set)

    async def client(self) -> None:
        """Submit and approve until cancelled, retrying requests answered 503 with the same id."""
        async with connection(self.service.port) as facade:

            async def until_accepted(path: str, body: Any) -> None:
                while True:
                    status, answer = await facade.post(path, body)
                    self.statuses[status] += 1
                    assert status in (202, 503), answer
                    await asyncio.sleep(PAUSE_S)
                    if status == 202:
                        return

            while True:
                id = new_id("review")
                await until_accepted(REVIEWS, [submission(self.product, 4, id=id)])
                self.submitted.add(id)
                await until_accepted(f"{REVIEWS}/approve", [id])
                self.approved.add(id)

    async def goes_on(self, number: int = 50) -> None:
        """Wait until this many more reviews have been approved."""
        wanted = len(self.approved) + number
        await eventually(lambda: len(self.approved) >= wanted)


@asynccontextmanager
async def load(service: Service, clients: int = 4) -> AsyncIterator[Load]:
    """Put a service under load within the block."""
    under = Load(service, new_id())
    tasks = [asyncio.create_task(under.client()) for _ in range(clients)]
    try:
        yield under
        assert not [task for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [end for end in ends if isinstance(end, Exception)]
        assert not failures, failures


async def assert_nothing_lost(service: Service, under: Load) -> None:
    """Wait until everything accepted has taken effect exactly once, without dead letters."""
    async with facade_of(service) as facade:
        # A submission in flight when the load ended may have been accepted as well.
        await eventually(lambda: facade.rating(under.product), lambda rating: rating[1] >= len(under.approved))
        await service.idle()
        listed: set[str] = set()
        for skip in range(0, len(under.submitted) + 10, 1_000):
            listed |= set(await facade.listed(entityIds=[under.product], take=1_000, skip=skip))
        assert listed >= under.submitted
        assert len(listed) <= len(under.submitted) + 4
        assert (await facade.rating(under.product))[0] == 4.0
    assert await service.dead_letters() == []
    await service.run("ratings", "verify")


async def status_of(request: Callable[[], Awaitable[httpx.Response]]) -> int:
    """Return the status of a response; a 503 must name a time to retry."""
    response = await request()
    if response.status_code == 503:
        assert int(response.headers["retry-after"]) > 0
        assert response.headers["content-type"] == "application/problem+json"
    return response.status_code


async def is_listening(client: httpx.AsyncClient) -> bool:
    """True if the API answers at all."""
    try:
        return (await client.get("/health/live")).is_success
    except httpx.TransportError:
        return False


async def mongodb_away(servers: Servers, folder: Path) -> None:
    """MongoDB stops and crashes under load, and comes back."""
    async with embedded_mongo(folder / "mongo", print) as mongo:
        service = Service(Servers(servers.kafka, mongo.uri, servers.is_tansu), folder)
        async with service.running(), service.client() as client:
            facade = Facade(client)
            known, unknown = [await facade.open_store() for _ in range(2)]
            once = await facade.open_store(oneReviewPerCustomer=True)

            async def ready() -> Json:
                return body_of(await client.get("/health/ready"), dict)

            async def submit(store: str | None) -> int:
                given = [submission(under.product, 4, storeId=store, id=new_id("review"))]
                status = await status_of(partial(client.post, REVIEWS, json=given))
                if status == 202:
                    under.submitted.add(given[0]["id"])
                return status

            rating = {"entityIds": [new_id()], "entityType": "Product"}
            async with load(service) as under:
                assert [await submit(known), await submit(once)] == [202, 202]
                await under.goes_on()
                # A client's question about a store makes the process look up everything again, and forget nothing.
                about = {"storeId": once, "entityType": "Product", "entityId": new_id(), "userId": "anna"}
                assert (await client.get(f"{REVIEWS}/canLeaveFeedback", params=about)).is_success
                await mongo.stop()
                # Commands are accepted by the cached rules.
                assert set(await asyncio.gather(submit(known), submit(None))) == {202}
                health = await ready()
                assert (health["status"], health["reads"], health["commands"]) == ("warn", "fail", "pass")
                answers = await asyncio.gather(
                    submit(unknown),
                    submit(once),
                    status_of(partial(client.post, f"{REVIEWS}/reviewList", json={})),
                    status_of(partial(client.get, f"{REVIEWS}/{new_id()}")),
                    status_of(partial(client.post, "/api/rating/entityRating", json=rating)),
                )
                assert set(answers) == {503}
                assert (await client.get("/health/live")).status_code == 200
                await asyncio.sleep(OUTAGE_S)
                await mongo.start()
                await eventually(ready, lambda health: health["reads"] == "pass")
                await eventually(partial(submit, unknown), lambda status: status == 202)
                await under.goes_on()
                mongo.kill()
                await mongo.start()
                await under.goes_on()
            await assert_nothing_lost(service, under)
            # Both stop in time although they cannot finish their work in progress.
            async with load(service) as under:
                await mongo.stop()
                await under.goes_on()
                assert await service.stop("worker") == 0
            assert await service.stop("api") == 0
            # A process that starts now doesn't know how topics are divided.
            service.start("api")
            await eventually(partial(is_listening, client))
            moderate = partial(client.post, f"{REVIEWS}/approve", json=[new_id()])
            assert await status_of(moderate) == 503
            assert (await client.get("/health/ready")).status_code == 503
            await mongo.start()
            await eventually(partial(status_of, moderate), lambda status: status == 202)
            assert (await ready())["commands"] == "pass"


async def kafka_away(servers: Servers, folder: Path) -> None:
    """Kafka stops under load, and comes back."""
    async with embedded_kafka(folder / "kafka", print, broker=Broker.KAFKA) as kafka:
        service = Service(Servers(kafka.address, servers.mongo, is_tansu=False), folder)
        async with service.running(), service.client() as client:
            submit = partial(status_of, partial(client.post, REVIEWS, json=[submission(new_id())]))
            async with load(service) as under:
                await under.goes_on()
                await kafka.stop()
                assert set(await asyncio.gather(submit(), submit())) == {503}
                # Requests that need no broker are served, and orchestrators don't restart the process.
                ready = body_of(await client.get("/health/ready"), dict)
                assert (ready["status"], ready["reads"], ready["commands"]) == ("warn", "pass", "fail")
                assert (await client.post(f"{REVIEWS}/reviewList", json={})).status_code == 200
                await asyncio.sleep(OUTAGE_S - PUBLISHING_S)
                await kafka.start()
                await eventually(submit, lambda status: status == 202)
                await under.goes_on()
            assert under.statuses[503]
            await assert_nothing_lost(service, under)
            # Both stop in time although they cannot finish their work in progress.
            async with load(service) as under:
                await under.goes_on()
                kafka.kill()
                assert await service.stop("worker") == 0
            assert await service.stop("api") == 0


@dataclass
class History:
    """Submissions and moderation commands, and their expected result without disturbances."""

    submissions: list[Json]
    commands: list[tuple[str, str]]

    @classmethod
    def made_up(cls, chance: random.Random, submissions: int, commands: int, products: Sequence[str]) -> "History":
        """Return a random history; a third of the reviews is moderated, most of them several times."""
        reviews = [
            submission(chance.choice(products), chance.randint(4, 20) / 4, id=new_id("review"))
            for _ in range(submissions)
        ]
        moderated = [review["id"] for review in chance.sample(reviews, submissions // 3)]
        actions = ["approve", "approve", "approve", "reject", "reset", "delete"]
        return cls(reviews, [(chance.choice(actions), chance.choice(moderated)) for _ in range(commands)])

    def outcome(self) -> dict[str, str]:
        """Return the status of each remaining review, by id."""
        after = {"approve": "Approved", "reject": "Rejected", "reset": "New"}
        statuses = {review["id"]: "New" for review in self.submissions}
        for action, id in self.commands:
            if action == "delete":
                statuses.pop(id, None)
            elif id in statuses:
                statuses[id] = after[action]
        return statuses

    def ratings(self) -> dict[str, tuple[float, int]]:
        """Return the rating of each product."""
        statuses, rated = self.outcome(), dict[str, list[float]]()
        for review in self.submissions:
            if statuses.get(review["id"]) == "Approved":
                rated.setdefault(review["EntityId"], []).append(review["rating"])
        return {product: (average(r), len(r)) for product, r in rated.items()}


async def workers_killed(servers: Servers, folder: Path) -> None:
    """Workers are killed during thousands of submissions and moderations, and others continue."""
    products = [new_id() for _ in range(200)]
    history = History.made_up(random.Random(3), SUBMISSIONS, SUBMISSIONS // 2, products)
    service = Service(servers, folder)
    workers = ["worker-a", "worker-b", "worker-c"]
    async with (
        service.running(workers),
        service.client() as client,
        service.mongo() as database,
    ):
        reviews = database["reviews"]

        async def stored(share: float) -> None:
            # Polled often, to strike in the middle of a batch.
            await eventually(reviews.estimated_document_count, lambda n: n >= share * SUBMISSIONS, pause_s=0.005)

        async def moderated(share: float) -> None:
            count = partial(reviews.count_documents, {"seen": {"$exists": True}})
            await eventually(count, lambda found: found >= share * SUBMISSIONS / 3, deadline_s=300)

        async def publish() -> None:
            commands = [moderation(action, id) for action, id in history.commands]
            values = [message(r, r["EntityId"]) for r in history.submissions]
            for n in range(20):
                for topic, messages in (("moderation-commands", commands), ("review-submissions", values)):
                    size = len(messages) // 20
                    await service.publish(topic, *messages[n * size :][:size])

        publishing = asyncio.create_task(publish())
        for worker, share in zip(workers, (0.1, 0.2, 0.3), strict=True):
            await stored(share)
            assert await service.stop(worker, signal.SIGKILL) == -signal.SIGKILL
        await publishing
        for worker in ("worker-d", "worker-e"):
            service.start("worker", worker)
        # One of the two leaves during the work: its partitions are reassigned.
        await moderated(0.5)
        assert await service.stop("worker-d") == 0
        await service.idle()

        facade = Facade(client)
        statuses: dict[str, str] = {}
        for start in range(0, len(products), 10):
            page = await facade.page(entityIds=products[start : start + 10], take=0)
            for skip in range(0, page["totalCount"], 1_000):
                rows = await facade.page(entityIds=products[start : start + 10], take=1_000, skip=skip)
                statuses |= {row["id"]: row["reviewStatus"] for row in rows["results"]}
        assert statuses == history.outcome()
        ratings = {r["entityId"]: (r["value"], r["reviewCount"]) for r in await facade.ratings(*products)}
        assert ratings == history.ratings()
        assert await service.dead_letters() == []
    await service.run("ratings", "verify")


Scenarios = dict[str, asyncio.Task[None]]


@pytest.fixture(scope="module")
async def scenarios(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scenarios]:
    """Concurrent scenarios with a service each: most of the time they wait for something to come back."""
    tasks: Scenarios = {}
    for scenario in () if servers.is_tansu else (mongodb_away, kafka_away, workers_killed):
        name = scenario.__name__
        tasks[name] = asyncio.create_task(scenario(servers, tmp_path_factory.mktemp(name)))
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("name", ["workers_killed", "mongodb_away", "kafka_away"])
async def test_nothing_is_lost(scenarios: Scenarios, name: str) -> None:
    await scenarios[name]


@pytest.mark.long
async def test_stopped_by_sigterm_and_ctrl_c_at_any_moment(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    for command in ("api", "worker"):
        service.start(command)
    await service.until_ready()
    assert await service.stop("worker", signal.SIGTERM) == 0
    assert await service.stop("api", signal.SIGINT) == 0
    # Before it is ready: while it joins its consumer groups.
    service.start("worker")

    async def handles_signals() -> bool:
        status = Path(f"/proc/{service.processes['worker'].pid}/status")
        caught = (await asyncio.to_thread(status.read_text)).partition("SigCgt:")[2].split()[0]
        return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)

    await eventually(handles_signals)
    assert await service.stop("worker") == 0


@pytest.mark.long
async def test_waiting_client_is_answered_when_api_stops(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    async with service.running(workers=()), service.client() as http:
        review = submission(new_id("stopped"))
        waiting = asyncio.create_task(http.post(REVIEWS, json=[review], headers=WAIT))
        await eventually(partial(service.lag, "review-submissions"))
        assert await service.stop("api") == 0
        answer = await waiting
        assert (answer.status_code, answer.json()["outcome"]) == (202, "accepted"), answer.text


@pytest.fixture
def up(servers: Servers, tmp_path: Path) -> Up:
    return Up(tmp_path, Marked(), "tansu" if servers.is_tansu else "kafka")


@pytest.mark.long
async def test_up_in_one_command(up: Up) -> None:
    async with up.started() as process:
        await up.says(process, "Plaudit is ready")
        endpoints = json.loads(await asyncio.to_thread(up.endpoints.read_text))
        assert set(endpoints) - {"idempotence"} == {"http", "kafka", "mongo", "database"}
        async with httpx.AsyncClient(base_url=endpoints["http"], timeout=60) as client:
            # The specification's samples work unchanged: there is a store named Electronics.
            (id,) = await Facade(client).submit(submission(new_id(), 5, storeId="Electronics"))
            assert await Facade(client).moderate("approve", id) == ["applied"]
        demo = await asyncio.to_thread(up.run, "demo")
        assert demo.returncode == 0, demo.stdout + demo.stderr
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0
        assert not up.endpoints.exists()
        assert up.marked.commands() == {}


@pytest.mark.slow
async def test_up_is_killed_and_started_again(up: Up) -> None:
    async with up.started() as process:
        await up.says(process, "Starting api")
    await up.nothing_is_left()
    async with up.started() as process:
        await up.says(process, "Plaudit is ready")
    await up.nothing_is_left()
