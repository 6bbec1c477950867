"""Processes end on a stop signal."""

import asyncio
import signal
import subprocess
import sys

import pytest

from plaudit.processes.connections import run_unless_stopped, watch_stop_signals

_HANGING = """
import asyncio, time
from plaudit.processes.connections import watch_stop_signals

async def run():
    stop = watch_stop_signals(at_most={at_most})
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
