"""The short form of rolling upgrades: to this version and back, with changed settings and indexes."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.short import good_result, short_plan
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
    processes, before = ("api-1", "worker-1", "worker-2", "scheduler-1"), os.environ.get("BEFORE")
    # Enough seconds for a busy machine.
    plan = short_plan(kinds, seconds=1_800, reviewers=4, audiences=1, processes=processes, before=before)
    result = await good_result(plan, tmp_path, capsys)
    if missing_kinds := [result.skipped[kind] for kind in UPGRADES if kind in result.skipped]:
        pytest.skip(f"Only changed settings and indexes were tested: {missing_kinds[0]}")
    assert set(kinds) <= set(result.faults)
