"""Servers that are killed repeatedly during restarts: `plaudit up` keeps trying until it is stopped."""

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, new_id, submission
from tests.support.processes import Marked
from tests.support.up_command import Up
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("kafka_can_run")

SERVERS = {"--replSet": "mongod.log", "kafka.Kafka": "kafka.log"}
ENDED, RETRYING = "server ended; restarting it", "server failed to start; retrying until Ctrl-C"
RECOVERY_S = 300.0
PAUSE_S = 0.2
"""Seconds between two reviews of a client: a page holds a thousand."""


async def kill_starts(up: Up, server: str, times: int) -> None:
    """Kill a running server, then `times` of its starts: alternately before and after its first log output."""
    log = up.endpoints.parent / "logs" / SERVERS[server]
    killed: set[int] = set()

    def found() -> int | None:
        new = [pid for pid, command in up.marked.commands().items() if server in command and pid not in killed]
        has_spoken = len(killed) % 2 == 0 or (log.exists() and log.stat().st_size > 0)
        return new[0] if new and has_spoken else None

    for _ in range(1 + times):
        pid = await eventually(lambda: asyncio.to_thread(found), deadline_s=RECOVERY_S)
        assert pid is not None
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGKILL)
        killed.add(pid)


async def submit_continuously(address: str, product: str, acknowledged: set[str]) -> None:
    """Submit reviews until cancelled, and record the accepted ones."""
    async with httpx.AsyncClient(base_url=address, timeout=40) as client:
        while True:
            with suppress(httpx.TransportError):
                answer = await client.post(REVIEWS, json=[submission(product)])
                assert answer.status_code in (200, 202, 503), answer.text
                if answer.status_code != 503:
                    acknowledged.update(answer.json()["ids"])
            await asyncio.sleep(PAUSE_S)


async def until_listed(address: str, product: str, acknowledged: set[str]) -> None:
    """Wait until all acknowledged reviews are listed."""

    async def missing() -> set[str]:
        async with httpx.AsyncClient(base_url=address, timeout=40) as client:
            try:
                answer = await client.post(f"{REVIEWS}/reviewList", json={"entityIds": [product], "take": 1_000})
            except httpx.TransportError:
                return acknowledged
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return acknowledged
        return acknowledged - {row["id"] for row in answer.json()["results"]}

    await eventually(missing, lambda left: not left, deadline_s=RECOVERY_S)


async def kill_and_recover(up: Up, process: subprocess.Popen[bytes], times: int) -> None:
    """Kill both servers and their starts while reviews are submitted; all acknowledged ones must be stored at the
    end."""
    await up.says(process, "Ctrl-C stops everything")
    address, product = f"http://127.0.0.1:{up.environment['PLAUDIT_HTTP__PORT']}", new_id()
    acknowledged: set[str] = set()
    clients = asyncio.create_task(submit_continuously(address, product, acknowledged))
    await eventually(lambda: len(acknowledged) > 20)
    await asyncio.gather(*(kill_starts(up, server, times) for server in SERVERS))
    before = len(acknowledged)
    await eventually(lambda: len(acknowledged) > before, deadline_s=RECOVERY_S)
    clients.cancel()
    await asyncio.gather(clients, return_exceptions=True)
    await until_listed(address, product, acknowledged)
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        (id,) = await Facade(client).submit(submission(product))
        assert await Facade(client).moderate("approve", id) == ["applied"]
    output = up.log.read_text().splitlines()
    for name in ("MongoDB", "Kafka"):
        lines = [line for line in output if name in line]
        assert any(RETRYING in line for line in lines)
        # A start may succeed right before it is killed.
        assert len([line for line in lines if ENDED in line or RETRYING in line]) >= 1 + times
    assert process.poll() is None


@pytest.mark.slow
async def test_kills_during_restart(tmp_path: Path, marked: Marked) -> None:
    up = Up(tmp_path, marked, "kafka")
    async with up.started() as process:
        await kill_and_recover(up, process, times=2)
        # Ctrl-C works during restarts, too.
        killing = asyncio.create_task(kill_starts(up, "kafka.Kafka", times=1_000))
        tries = up.log.read_text().count(RETRYING)
        await eventually(lambda: up.log.read_text().count(RETRYING) > tries)
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 60) == 0
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
    assert marked.commands() == {}


@pytest.mark.slow
async def test_ten_kills_during_restart(tmp_path: Path, marked: Marked) -> None:
    up = Up(tmp_path, marked, "kafka")
    async with up.started() as process:
        await kill_and_recover(up, process, times=10)
    await up.nothing_is_left()
