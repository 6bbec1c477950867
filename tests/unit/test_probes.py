"""Probes, metrics and health checks of processes."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import pytest
from prometheus_client import Gauge

from messaging.metrics import REGISTRY
from plaudit.processes import probes as probes_module
from plaudit.processes.probes import Probes, serve_health
from tests.support.waiting import free_port

PATIENCE_S = 60.0


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture(autouse=True)
def _long_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough for a responsive event loop, however busy the machine is; only a blocked one exceeds it."""
    monkeypatch.setattr(probes_module, "LIVE_SECONDS", PATIENCE_S)


@pytest.fixture
async def probes(port: int) -> AsyncIterator[Probes]:
    probes = Probes(asyncio.get_running_loop())
    with serve_health(probes, "127.0.0.1", port):
        yield probes


async def fetch(port: int, path: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
        return await http.get(f"http://127.0.0.1:{port}{path}")


async def status(port: int, path: str) -> int:
    return (await fetch(port, path)).status_code


def status_requested_on_the_loop(port: int, path: str) -> int:
    """Block the event loop until the response arrives."""
    return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S).status_code


async def test_process_is_ready_once_it_is_set_so(probes: Probes, port: int) -> None:
    assert await status(port, "/health/ready") == 503
    probes.is_ready = True
    assert await status(port, "/health/ready") == 200


async def test_hindered_process_is_not_ready_and_gives_reasons(probes: Probes, port: int) -> None:
    probes.is_ready = True
    probes.failures = ["partition 3 of order-events has been at offset 17 for 61 s"]
    response = await fetch(port, "/health/ready")
    assert response.status_code == 503
    assert response.json() == {"status": "fail", "reasons": probes.failures}
    probes.failures = []
    assert await status(port, "/health/ready") == 200


async def test_process_is_live_while_its_event_loop_runs(
    probes: Probes, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await status(port, "/health/live") == 200
    monkeypatch.setattr(probes_module, "LIVE_SECONDS", 0.05)
    assert status_requested_on_the_loop(port, "/health/live") == 503


@pytest.mark.usefixtures("probes")
async def test_other_paths_are_unknown(port: int) -> None:
    assert await status(port, "/metrics") == 200
    assert await status(port, "/") == 404


async def test_metrics_are_refreshed_before_they_are_served(probes: Probes, port: int) -> None:
    gauge = Gauge("refreshed", "Told by this test", registry=REGISTRY)

    async def refresh() -> None:
        gauge.inc()

    probes.refresh = refresh
    served = [(await fetch(port, "/metrics")).text for _ in range(2)]
    REGISTRY.unregister(gauge)
    assert [re.findall(r"^refreshed (.+)$", text, re.MULTILINE) for text in served] == [["1.0"], ["2.0"]]


async def test_metrics_that_cannot_be_refreshed_are_not_served(
    probes: Probes, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes_module, "LIVE_SECONDS", 0.05)
    was_cancelled = asyncio.Event()

    async def refresh() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()

    probes.refresh = refresh
    assert await status(port, "/metrics") == 503
    await was_cancelled.wait()


@pytest.mark.usefixtures("probes")
async def test_idle_connection_is_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = probes_module._Handler
    assert handler.timeout is not None
    monkeypatch.setattr(handler, "timeout", handler.timeout / 100)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
    writer.close()


@contextmanager
def health_check(metrics_port: int, http_port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the health check of the image."""
    environment = {"PLAUDIT_METRICS__PORT": str(metrics_port), "PLAUDIT_HTTP__PORT": str(http_port)}
    with subprocess.Popen([sys.executable, "-m", "plaudit.healthy"], env=environment) as process:
        yield process


@pytest.mark.parametrize("is_facade", [False, True])
async def test_health_check_queries_the_process_that_listens(probes: Probes, port: int, is_facade: bool) -> None:
    ports = (free_port(), port) if is_facade else (port, free_port())
    for is_ready in (False, True):
        probes.is_ready = is_ready
        with health_check(*ports) as process:
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == (0 if is_ready else 1)


async def test_health_check_fails_if_nothing_listens() -> None:
    with health_check(free_port(), free_port()) as process:
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 1
