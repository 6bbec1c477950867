"""`plaudit up` on the fallback broker, as without Java."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.support.processes import Marked
from tests.support.up_command import Up
from tests.support.waiting import eventually


@pytest.mark.slow
async def test_demo_and_doctor_on_tansu(tmp_path: Path, marked: Marked) -> None:
    up = Up(tmp_path, marked, "tansu")
    async with up.started() as process:
        await up.says(process, "Set PLAUDIT_BROKER=kafka and PLAUDIT_EMBEDDED__KAFKA_AUTH=true to require a password.")
        await up.says(process, "Ctrl-C stops everything")
        demo = await asyncio.to_thread(up.run, "demo")
        assert (demo.returncode, demo.stderr) == (0, ""), demo.stdout

        async def complaints() -> list[str]:
            doctor = await asyncio.to_thread(up.run, "doctor")
            lines = [line for line in doctor.stdout.splitlines() if "PLAUDIT_TEST_MARK" not in line]
            return [line for line in lines if not line.startswith("ok ")] if lines else [doctor.stderr]

        # Servers that are slow for a few seconds are reported, too.
        await eventually(complaints, lambda found: not found)
    await up.nothing_is_left()


@pytest.mark.slow
async def test_demo_after_tansu_crash(tmp_path: Path, marked: Marked) -> None:
    up = Up(tmp_path, marked, "tansu")
    async with up.started() as process:
        await up.says(process, "Ctrl-C stops everything")
        (pid,) = [pid for pid, command in marked.commands().items() if "--storage-engine" in command]
        os.kill(pid, signal.SIGKILL)
        await up.says(process, "server is running again")

        async def demo() -> tuple[int, str]:
            ended = await asyncio.to_thread(up.run, "demo")
            return ended.returncode, ended.stdout + ended.stderr

        await eventually(demo, lambda found: found[0] == 0)
    await up.nothing_is_left()
