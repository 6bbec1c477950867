"""Termination of commands by signals."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import uvloop

from plaudit.cli import command_line
from plaudit.cli.command_line import until_terminated


@pytest.fixture
async def handler() -> AsyncIterator[None]:
    """Remove the loop's signal handlers after the test."""
    yield
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_lost_cancellation_is_repeated(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """PyMongo can lose a cancellation that arrives together with a response."""
    monkeypatch.setattr(command_line, "CANCEL_AGAIN_S", 0.01)
    lost: list[asyncio.CancelledError] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            lost.append(error)
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(until_terminated(work()))
    assert len(lost) == 1


def test_ctrl_c_while_the_command_is_imported_prints_no_traceback() -> None:
    # Each imported module is a line.
    command = [sys.executable, "-X", "importtime", "-m", "plaudit", "--version"]
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # the child of a background job would ignore it
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, handler)
    with process:
        assert process.stderr
        # So small that the child can't end before most of its lines are read.
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4_096)
        while not process.stderr.readline().endswith("domain.quantities\n"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (-signal.SIGINT, "")
    assert "Traceback" not in errors


def test_second_ctrl_c_ends_the_command_at_once() -> None:
    async def work() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)  # interrupted by the signal, or the test times out
        raise AssertionError("The command went on")

    with pytest.raises(KeyboardInterrupt):
        uvloop.run(until_terminated(work()))


def test_second_ctrl_c_interrupts_a_blocking_read() -> None:
    """A blocking read keeps the event loop from running anything else."""
    reading, writing = os.pipe()
    interrupts = [threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)) for after in (0.1, 0.2)]
    # Lets the test fail instead of hang.
    end = threading.Timer(20, os.write, (writing, b"end"))

    async def work() -> bytes:
        for each in (*interrupts, end):
            each.start()
        return os.read(reading, 3)

    try:
        with pytest.raises(KeyboardInterrupt):
            uvloop.run(until_terminated(work()))
    finally:
        for each in (*interrupts, end):
            each.cancel()
            each.join()
        os.close(reading)
        os.close(writing)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_background_command_ignores_ctrl_c() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def work() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.1)  # time for a signal handler of the loop to run
        return "done"

    try:
        assert uvloop.run(until_terminated(work())) == "done"
    finally:
        signal.signal(signal.SIGINT, before)
