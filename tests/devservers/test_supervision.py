"""Processes that `plaudit up` restarts when they end by themselves."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from devservers.errors import EmbeddedServerError
from devservers.server import ServerProcess
from devservers.tansu import TansuProcess
from plaudit.processes.supervision import ServiceProcess, keep_running, run_with
from tests.support.processes import Marked
from tests.support.up_command import Up
from tests.support.waiting import eventually


async def restore(_: ServerProcess) -> None:
    """Nothing is lost."""


def kill(marked: Marked, part: str) -> None:
    """Kill the only process whose command line contains this."""
    (pid,) = [pid for pid, command in marked.commands().items() if part in command]
    os.kill(pid, signal.SIGKILL)


@pytest.mark.long
async def test_restart_pauses_grow(tmp_path: Path) -> None:
    process = ServiceProcess("--version", tmp_path, {})
    with capture_logs() as logged:
        running = asyncio.create_task(keep_running([], [process], restore))

        def pauses() -> list[float]:
            return [line["pause_s"] for line in logged if "ended" in line["event"]]

        await eventually(pauses, lambda found: found[:4] == [0.0, 0.5, 1.0, 2.0])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    # Only the logs of the current run and of the one before are kept.
    assert sorted(each.name for each in tmp_path.iterdir()) == ["--version.log", "--version.log.1"]
    assert (tmp_path / "--version.log.1").read_text().startswith("plaudit ")
    assert {line["log"] for line in logged if "ended" in line["event"]} == {str(tmp_path / "--version.log.1")}


async def test_work_is_cancelled_when_server_ends(tmp_path: Path, marked: Marked) -> None:
    async with TansuProcess(tmp_path / "tansu", tmp_path / "tansu.log") as server:
        assert await run_with([server], asyncio.sleep(0, "done")) == "done"
        waiting = asyncio.create_task(run_with([server], asyncio.Event().wait()))
        server.kill()
        with pytest.raises(EmbeddedServerError, match=r"Tansu exited \(exit code -9\)"):
            await waiting
    assert not marked.commands()


@pytest.mark.long
async def test_up_ends_when_server_dies_during_start(tmp_path: Path, marked: Marked) -> None:
    up = Up(tmp_path, marked, "tansu")
    async with up.started() as process:
        await up.says(process, "Starting api")
        kill(marked, "--replSet")
        assert await asyncio.to_thread(process.wait, 60) == 1
    assert "MongoDB exited (exit code -9)" in up.log.read_text()
    await up.nothing_is_left()


@pytest.mark.long
async def test_two_ups_that_start_together_do_not_share_a_port(tmp_path: Path, marked: Marked) -> None:
    """The API of one would answer before that of the other listens, and both would count as ready."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    one = Up(tmp_path / "one", marked, "tansu")
    other = Up(tmp_path / "other", marked, "tansu", PLAUDIT_HTTP__PORT=one.environment["PLAUDIT_HTTP__PORT"])
    async with one.started() as first, other.started() as second:
        await eventually(lambda: first.poll() is not None or second.poll() is not None)
        (ended,) = (up for up, process in ((one, first), (other, second)) if process.poll() is not None)
        assert "choose another port with PLAUDIT_HTTP__PORT" in ended.log.read_text()
    await one.nothing_is_left()


@pytest.mark.long
async def test_up_goes_on_if_nobody_reads_its_output(tmp_path: Path, marked: Marked) -> None:
    up = Up(tmp_path, marked, "tansu")
    with up.log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "plaudit", "up"],
            env=up.environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline)
        process.stdout.close()
        await eventually(lambda: up.endpoints.exists() or process.poll() is not None)
        process.terminate()
        assert await asyncio.to_thread(process.wait, 60) == 0
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in up.log.read_text()
    await up.nothing_is_left()


async def test_state_is_restored_after_restart(tmp_path: Path) -> None:
    restored: list[bool] = []

    async def restore(server: ServerProcess) -> None:
        restored.append(server.running)
        if len(restored) == 1:
            server.kill()  # once more, during the restoration
            await asyncio.Event().wait()

    async with TansuProcess(tmp_path / "tansu", tmp_path / "tansu.log") as server:
        running = asyncio.create_task(keep_running([server], [], restore))
        server.kill()
        await eventually(lambda: restored == [True, True])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
