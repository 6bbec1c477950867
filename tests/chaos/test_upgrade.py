"""The short form of rolling upgrades: to this version and back, with changed settings and indexes."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.plan import Plan
from tests.chaos.short import good_result, seed
from tests.chaos.upgrades import UPGRADES

UPGRADE_AND_ROLLBACK = ("upgraded", "rolled-back", "settings-changed", "indexes-changed", "worker-killed")
UPGRADE_AND_MIGRATE = ("upgraded", "worker-killed")
"""At the end the schema is migrated under load."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds", [UPGRADE_AND_ROLLBACK, UPGRADE_AND_MIGRATE], ids=["upgrade-and-rollback", "upgrade-and-migrate"]
)
async def test_no_loss_across_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kinds: Sequence[str]
) -> None:
    plan = Plan(
        seed=seed(),
        faults=len(kinds),
        commands=200,
        seconds=1_800,  # enough for a busy machine
        reviewers=4,
        importers=1,
        buyers=2,
        audiences=1,
        deciders=1,
        processes=("api-1", "worker-1", "worker-2", "scheduler-1"),
        before=os.environ.get("BEFORE"),
        kinds=kinds,
        between_s=(0.0, 0.5),
        pause_s=0.2,
        waits_for_recovery=False,
    )
    result = await good_result(plan, tmp_path, capsys)
    if missing_kinds := [result.skipped[kind] for kind in UPGRADES if kind in result.skipped]:
        pytest.skip(f"Only changed settings and indexes were tested: {missing_kinds[0]}")
    assert set(kinds) <= set(result.faults)
