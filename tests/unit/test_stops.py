"""A process ends when it is asked to."""

import signal
import subprocess
import sys

import pytest

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
def test_one_that_hangs_is_ended(hang: str) -> None:
    with _running(hang, at_most=3) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        assert "not stopped in time" in process.stdout.read()
        assert process.wait(60) == 1


@pytest.mark.long
def test_one_that_does_not_ends_by_itself() -> None:
    with _running("pass", at_most=600) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
