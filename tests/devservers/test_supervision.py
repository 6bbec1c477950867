"""What `plaudit up` starts again when it ends by itself."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from plaudit.processes.supervision import ServiceProcess, keep_running
from tests.support.waiting import eventually


@pytest.mark.long
async def test_what_keeps_ending_is_started_after_growing_pauses(tmp_path: Path) -> None:
    process = ServiceProcess("--version", tmp_path, {})
    with capture_logs() as logged:
        running = asyncio.create_task(keep_running([], [process]))

        def pauses() -> list[float]:
            return [line["pause_s"] for line in logged if "ended" in line["event"]]

        await eventually(pauses, lambda found: found[:4] == [0.0, 0.5, 1.0, 2.0])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    # The log of a run, and that of the run before, however many there are.
    assert sorted(each.name for each in tmp_path.iterdir()) == ["--version.log", "--version.log.1"]
    assert (tmp_path / "--version.log.1").read_text().startswith("plaudit ")
