"""docker-compose.yml on a Docker engine: `make test ARGS="--stack='docker compose' tests/stack"`."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from tests.stack.stack import ROOT, SETTLED_S, Stack
from tests.support.facade import REVIEWS, Facade, new_id, submission
from tests.support.messages import message
from tests.support.reminders import order_with_products
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually
from tests.support.yaml_text import yaml_in

BATCH = 5
ENOUGH = 10
SERVERS = ("kafka", "mongo", "mail", "prometheus", "grafana")
PROCESSES = ("api", "worker", "scheduler", "mailer")


@dataclass
class Customers:
    """Submit reviews batch by batch, repeating each until it is accepted."""

    http: httpx.AsyncClient
    product: str = field(default_factory=new_id)
    ids: list[str] = field(default_factory=list)
    refusals: int = 0
    is_enough: bool = False

    async def submit(self) -> None:
        while not self.is_enough:
            body = [submission(self.product) for _ in range(BATCH)]
            key = {"Idempotency-Key": uuid4().hex}
            while (ids := await self._accepted(body, key)) is None:
                self.refusals += 1
            self.ids += ids

    async def _accepted(self, body: list[Json], key: dict[str, str]) -> list[str] | None:
        try:
            response = await self.http.post(REVIEWS, json=body, headers=key)
        except httpx.TransportError:
            return None
        if response.status_code == 202:
            ids: list[str] = response.json()["ids"]
            return ids
        assert response.status_code == 503, response.text
        return None

    async def carry_on(self) -> None:
        """Wait until more reviews have been accepted or more attempts have failed."""
        ids, refusals = len(self.ids) + ENOUGH * BATCH, self.refusals + ENOUGH
        await eventually(lambda: len(self.ids) >= ids or self.refusals >= refusals, deadline_s=SETTLED_S)

    async def succeed(self) -> None:
        """Wait until more reviews have been accepted."""
        ids = len(self.ids) + ENOUGH * BATCH
        await eventually(lambda: len(self.ids) >= ids, deadline_s=SETTLED_S)


@asynccontextmanager
async def customers(http: httpx.AsyncClient) -> AsyncIterator[Customers]:
    customers = Customers(http)
    submitting = asyncio.create_task(customers.submit())
    try:
        yield customers
        customers.is_enough = True
        await asyncio.wait_for(submitting, SETTLED_S)
    finally:
        submitting.cancel()


async def test_every_container_is_healthy(stack: Stack) -> None:
    states = await stack.states()
    assert states.pop("init/1") == "exited 0"
    assert set(states) == {f"{name}/1" for name in (*SERVERS, *PROCESSES)}
    assert set(states.values()) == {"healthy"}


@pytest.mark.parametrize("process", PROCESSES)
async def test_process_has_minimal_privileges(stack: Stack, process: str) -> None:
    assert (await stack.inside(process, "id", "-u")).stdout.strip() == "10001"
    assert "Read-only file system" in (await stack.inside(process, "touch", "/opt/plaudit/x")).stderr
    assert (await stack.inside(process, "grep", "CapEff", "/proc/1/status")).stdout.split() == ["CapEff:", "0" * 16]
    assert (await stack.inside(process, "python", "-m", "pip", "--version")).returncode == 1
    assert (await stack.inside(process, "sh", "-c", "command -v gcc make pip uv")).stdout == ""


async def test_demo_passes(stack: Stack, facade: Facade) -> None:
    await facade.open_store("Electronics")
    shown = await stack.run("exec", "-T", "-e", "PLAUDIT_HTTP__HOST=localhost", "api", "plaudit", "demo")
    assert "Done. All responses above came from the running service." in shown


async def test_reminder_survives_stopped_mail_services(stack: Stack, facade: Facade, tmp_path: Path) -> None:
    store, customer = await facade.open_store(), new_id("customer")
    await facade.command("PUT", "/api/settings", {"reminder": {"enabled": True, "daysInStatus": 10}})
    order = order_with_products("Complete", customer, store, datetime.now(UTC) - timedelta(days=11), "camera")
    upstream = Service(Servers(stack.kafka, "", is_tansu=False), tmp_path, prefix="plaudit.")
    await upstream.publish("order-events", message(order, order["id"]))

    async def known() -> bool:
        path = f"/api/return/available-quantities/{order['id']}"
        return (await facade.http.get(path)).status_code == 200

    await eventually(known)
    for container in ("mailer", "mail"):
        await stack.stop(container, "stop")
    await stack.run("exec", "-T", "scheduler", "plaudit", "reminders", "run")
    for container in ("mail", "mailer"):
        await stack.restart(container)

    async def mailed() -> list[str]:
        async with httpx.AsyncClient(base_url=stack.mail) as http:
            mails = (await http.get("/api/v1/messages")).json()["messages"]
        return [mail["To"] for mail in mails if customer in json.dumps(mail["To"])]

    assert len(await eventually(mailed, deadline_s=SETTLED_S)) == 1


async def test_three_workers_share_partitions(stack: Stack) -> None:
    await stack.start("--no-recreate", "--scale", "worker=3")
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    group = "plaudit.review-submissions"

    async def shares() -> list[int]:
        described = await asyncio.to_thread(lambda: admin.describe_consumer_groups([group])[group].result(20))
        of_workers: Counter[str] = Counter()
        for member in described.members:
            # A worker has several members in this group.
            of_workers[member.host] += len(member.assignment.topic_partitions)
        return sorted(of_workers.values())

    assert await eventually(shares, lambda found: found == [4, 4, 4], deadline_s=SETTLED_S)


async def test_prometheus_targets_and_alerts(stack: Stack) -> None:
    await stack.start("--no-recreate", "--scale", "worker=3")
    async with httpx.AsyncClient(base_url=stack.prometheus) as http:

        async def up() -> list[str]:
            found = (await http.get("/api/v1/query", params={"query": "up == 1"})).json()["data"]["result"]
            return sorted(sample["metric"]["job"] for sample in found)

        jobs = sorted(f"plaudit-{process}" for process in (*PROCESSES, "worker", "worker"))
        await eventually(up, lambda found: found == jobs, deadline_s=SETTLED_S)
        known = (await http.get("/api/v1/rules")).json()["data"]["groups"]
    written = yaml_in((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    assert {group["name"]: [rule["name"] for rule in group["rules"]] for group in known} == {
        group["name"]: [rule.get("alert") or rule["record"] for rule in group["rules"]] for group in written
    }


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("container", ["api", "worker/2", "scheduler", "mailer", "mail", "mongo", "kafka"])
async def test_no_loss_when_container_stops(stack: Stack, facade: Facade, container: str, how: str) -> None:
    await stack.start("--no-recreate", "--scale", "worker=3")
    async with customers(facade.http) as sending:
        await sending.carry_on()
        await stack.stop(container, how)
        await sending.carry_on()
        await stack.restart(container)
        await sending.succeed()
    ids = set(sending.ids)
    assert len(ids) == len(sending.ids)

    async def listed() -> int:
        return int((await facade.page(entityIds=[sending.product], take=0))["totalCount"])

    await eventually(listed, lambda count: count >= len(ids), deadline_s=SETTLED_S)
    stored = await every_id(facade, sending.product)
    assert sorted(stored) == sorted(ids)
    for start in range(0, len(stored), 1_000):
        assert set(await facade.moderate("approve", *stored[start : start + 1_000])) == {"applied"}
    assert (await facade.rating(sending.product))[1] == len(ids)


async def every_id(facade: Facade, product: str) -> list[str]:
    """Ids of all reviews of a product, read page by page."""
    found: list[str] = []
    while page := await facade.listed(entityIds=[product], take=1_000, skip=len(found)):
        found += page
    return found
