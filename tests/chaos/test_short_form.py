"""The short form of `make chaos`."""

from pathlib import Path

import pytest

from tests.chaos.short import good_result, short_plan

KINDS = (
    *("worker-killed", "facade-killed", "network-resets"),
    *("kafka-leader-killed", "mongodb-primary-killed", "clock-jumps", "bad-records", "exported"),
)


@pytest.mark.slow
async def test_no_loss_under_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    processes = ("api-1", "worker-1", "worker-2")
    # Enough seconds for a busy machine.
    plan = short_plan(KINDS, seconds=600, reviewers=5, audiences=2, processes=processes)
    result = await good_result(plan, tmp_path, capsys)
    assert set(KINDS) <= set(result.faults)
