"""Processes end on a stop signal."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from plaudit.processes.connections import run_unless_stopped, watch_stop_signals

_HANGING = """
import asyncio, time
from plaudit.processes.connections import watch_stop_signals, watch_terminal

async def run():
    stop = watch_stop_signals(at_most={at_most})
    watch_terminal()
    print("running", flush=True)
    await stop
    print("stopping", flush=True)
    {hang}

asyncio.run(run())
"""


def _running(hang: str, at_most: float) -> subprocess.Popen[str]:
    program = _HANGING.format(hang=hang, at_most=at_most)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


@pytest.mark.long
@pytest.mark.parametrize("hang", ["time.sleep(600)", "await asyncio.sleep(600)"])
def test_hanging_process_is_killed(hang: str) -> None:
    with _running(hang, at_most=3) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        assert "not stopped in time" in process.stdout.read()
        assert process.wait(60) == 1


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_process_ends_on_its_own_after_a_signal(number: signal.Signals) -> None:
    with _running("pass", at_most=600) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(number)
        assert process.wait(60) == 0


@pytest.mark.long
def test_process_ends_with_the_terminal_of_make(tmp_path: Path) -> None:
    # make gets SIGHUP as the session's leader, and waits for its child.
    program = tmp_path / "program.py"
    program.write_text(_HANGING.format(hang="pass", at_most=600))
    (tmp_path / "Makefile").write_text(f"up:\n\t@exec {sys.executable} {program}\n")
    terminal, other = os.openpty()
    in_terminal = ["sh", "-c", 'unset MAKEFLAGS MAKELEVEL; exec make < "$0" > "$0" 2>&1', os.ttyname(other)]
    process = subprocess.Popen(in_terminal, cwd=tmp_path, start_new_session=True)
    try:
        assert os.read(terminal, len("running")) == b"running"  # the end of the line may come later
        os.close(other)
        os.close(terminal)
        assert process.wait(60) == -signal.SIGHUP
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def test_sighup_stays_ignored_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        watch_stop_signals().cancel()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_work_is_cancelled_with_its_caller() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    stop = asyncio.create_task(asyncio.Event().wait())
    running = asyncio.create_task(run_unless_stopped(work(), stop, again_s=600))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    stop.cancel()
