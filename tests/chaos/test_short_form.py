"""The short form of `make chaos`."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from devservers.errors import MissingPartError
from tests.chaos.run import Plan, run_chaos

KINDS = (
    *("worker-killed", "facade-killed", "network-resets"),
    *("kafka-leader-killed", "mongodb-primary-killed", "clock-jumps", "bad-records"),
)


@pytest.mark.slow
async def test_nothing_is_lost_whatever_is_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan(
        seed=int(os.environ.get("SEED", random.randrange(10**6))),
        faults=len(KINDS),
        commands=200,
        seconds=20,
        reviewers=5,
        importers=1,
        buyers=2,
        audiences=2,
        processes=("api-1", "worker-1", "worker-2"),
        kinds=KINDS,
        between_s=(0.0, 0.5),
        pause_s=0.2,
        waits_for_recovery=False,
    )
    try:
        result = await run_chaos(plan, tmp_path, print)
    except MissingPartError as missing:
        pytest.skip(f"Apache Kafka can't run here. {missing}")
    finally:
        for folder in tmp_path.glob("*-[0-9]"):
            shutil.rmtree(folder, ignore_errors=True)
    assert result.is_good, f"{json.dumps(result.document(), indent=2)}\n{capsys.readouterr().out}"
    assert result.faults.total() > 0
