"""The short form of `make chaos`."""

from pathlib import Path

import pytest

from tests.chaos.plan import Plan
from tests.chaos.short import good_result, seed

KINDS = (
    *("worker-killed", "facade-killed", "network-resets"),
    *("kafka-leader-killed", "mongodb-primary-killed", "clock-jumps", "bad-records"),
)


@pytest.mark.slow
async def test_no_loss_under_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(
        seed=seed(),
        faults=len(KINDS),
        commands=200,
        seconds=600,  # enough for a busy machine
        reviewers=5,
        importers=1,
        buyers=2,
        audiences=2,
        deciders=1,
        processes=("api-1", "worker-1", "worker-2"),
        kinds=KINDS,
        between_s=(0.0, 0.5),
        pause_s=0.2,
        waits_for_recovery=False,
    )
    result = await good_result(plan, tmp_path, capsys)
    assert set(KINDS) <= set(result.faults)
