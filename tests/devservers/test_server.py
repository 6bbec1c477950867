"""What all embedded servers have in common, shown on the one that starts fastest."""

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
    """A server that isn't started yet, and of which nothing may be left."""
    assert not marked.commands()
    return TansuProcess(data / "tansu", data / "tansu.log")


async def test_stopped_by_an_exception(server: TansuProcess, marked: Marked) -> None:
    async def run() -> None:
        async with server:
            assert marked.run("broker")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run()
    assert not marked.commands()


@pytest.mark.parametrize("moment", ["as soon as there is a process", "--storage-engine"])
async def test_stopped_by_cancellation(server: TansuProcess, marked: Marked, moment: str) -> None:
    async def run() -> None:
        async with server:
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    if moment == "--storage-engine":
        await marked.running(moment)
    else:  # which is the leash: too briefly there to be looked for
        await eventually(lambda: server.pid, pause_s=0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not marked.commands()


async def test_killed_when_it_does_not_stop_in_time(server: TansuProcess, marked: Marked) -> None:
    server.stop_grace_s = 0.1
    async with server:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGSTOP)
    assert not marked.commands()


async def test_started_in_a_thread_that_ends_and_stopped_in_another_loop(server: TansuProcess) -> None:
    thread = threading.Thread(target=lambda: asyncio.run(server.start()))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert server.running
    await server.stop()
    server.release()


async def test_keeps_its_port_while_it_is_down(server: TansuProcess) -> None:
    async with server:
        port = server.port
        await server.stop()
        others = [ReservedPort(0) for _ in range(200)]
        assert port not in {other.number for other in others}
        for other in others:
            other.release()
        await server.start()
        assert server.port == port


async def test_takes_another_port_when_its_own_is_taken(server: TansuProcess) -> None:
    async with server:
        port = server.port
    with socket.create_server((HOST, port)):
        async with server:
            assert server.port != port


async def test_second_on_the_same_folder_is_refused_until_the_first_lets_go(server: TansuProcess, data: Path) -> None:
    second = TansuProcess(data / "tansu", data / "second.log")
    async with server:
        await server.stop()  # down, but still its owner
        with pytest.raises(EmbeddedServerError, match=rf"in use by another `plaudit up` \(process {os.getpid()}\)"):
            await second.start()
    async with second:
        assert second.running


async def test_says_that_the_folder_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedServerError, match="is not writable"):
        await TansuProcess(tmp_path / "file" / "tansu", tmp_path / "log").start()


async def test_says_why_the_log_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(EmbeddedServerError, match=r"Tansu can't be started: .*logs'"):
        async with TansuProcess(tmp_path / "tansu", tmp_path / "logs" / "tansu.log"):
            pass
