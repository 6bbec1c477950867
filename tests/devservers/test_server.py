"""Behaviour common to all embedded servers, tested on the one that starts fastest."""

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from devservers.errors import EmbeddedServerError
from devservers.ports import HOST, ReservedPort
from devservers.tansu import TansuProcess
from tests.support.processes import Marked
from tests.support.waiting import eventually


@pytest.fixture
def server(data: Path, marked: Marked) -> TansuProcess:
    """A server that isn't started yet; nothing of it may be left at the end."""
    assert not marked.commands()
    return TansuProcess(data / "tansu", data / "tansu.log")


async def test_exception_stops_server(server: TansuProcess, marked: Marked) -> None:
    async def run() -> None:
        async with server:
            assert marked.run("broker")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run()
    assert not marked.commands()


@pytest.mark.parametrize("moment", ["process-started", "--storage-engine"])
async def test_cancellation_stops_server(server: TansuProcess, marked: Marked, moment: str) -> None:
    async def run() -> None:
        async with server:
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    if moment == "--storage-engine":
        await marked.running(moment)
    else:  # that is the leash, which runs too briefly to be found by its command line
        await eventually(lambda: server.pid, pause_s=0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not marked.commands()


async def test_start_timeout_grows_after_a_late_start(server: TansuProcess, marked: Marked) -> None:
    server.start_timeout_s = 0.01
    late = 0
    await server.claim()
    try:
        while not server.running and late < 20:
            try:
                await server.start()
            except EmbeddedServerError:
                late += 1
        assert server.running
        assert late > 0
    finally:
        await server.__aexit__(None, None, None)
    assert not marked.commands()


async def test_unresponsive_server_is_killed(server: TansuProcess, marked: Marked) -> None:
    server.stop_grace_s = 0.1
    async with server:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
    assert not marked.commands()


async def test_start_and_stop_in_different_event_loops(server: TansuProcess) -> None:
    thread = threading.Thread(target=lambda: asyncio.run(server.start()))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert server.running
    await server.stop()
    server.release()


async def test_port_is_kept_while_stopped(server: TansuProcess) -> None:
    async with server:
        port = server.port
        await server.stop()
        others = [ReservedPort(0) for _ in range(200)]
        assert port not in {other.number for other in others}
        for other in others:
            other.release()
        await server.start()
        assert server.port == port


async def test_occupied_port_is_replaced(server: TansuProcess) -> None:
    async with server:
        port = server.port
    with socket.create_server((HOST, port)):
        async with server:
            assert server.port != port


async def test_folder_in_use_is_refused(server: TansuProcess, data: Path) -> None:
    second = TansuProcess(data / "tansu", data / "second.log")
    async with server:
        await server.stop()  # stopped, but still the owner of the folder
        with pytest.raises(EmbeddedServerError, match=rf"in use by another `plaudit up` \(process {os.getpid()}\)"):
            await second.start()
    async with second:
        assert second.running


async def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedServerError, match="is not writable"):
        await TansuProcess(tmp_path / "file" / "tansu", tmp_path / "log").start()


async def test_unwritable_log_is_reported(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(EmbeddedServerError, match=r"Tansu can't be started: .*logs'"):
        async with TansuProcess(tmp_path / "tansu", tmp_path / "logs" / "tansu.log"):
            pass
