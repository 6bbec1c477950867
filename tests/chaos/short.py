"""A short run of the fault suite, as a test."""

import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from devservers.errors import MissingPartError
from tests.chaos.plan import Plan, Result
from tests.chaos.run import run_chaos


def seed() -> int:
    """The seed in the environment variable SEED, else a random one."""
    return int(os.environ.get("SEED", random.randrange(10**6)))


def short_plan(kinds: Sequence[str], **sizes: Any) -> Plan:
    """A plan with each of these faults once, and with these other sizes."""
    few: dict[str, Any] = {
        "importers": 1,
        "buyers": 2,
        "deciders": 1,
        "commands": 200,
        "pause_s": 0.2,
        "between_s": (0.0, 0.5),
    }
    return Plan(seed=seed(), faults=len(kinds), kinds=kinds, waits_for_recovery=False, **few, **sizes)


async def good_result(plan: Plan, folder: Path, capsys: pytest.CaptureFixture[str]) -> Result:
    """Run a plan, and assert that nothing was lost, duplicated or wrong. Skips where Kafka can't run."""
    try:
        result = await run_chaos(plan, folder, print)
    except MissingPartError as missing:
        pytest.skip(f"Apache Kafka can't run here. {missing}")
    finally:
        for part in folder.glob("*-[0-9]"):
            shutil.rmtree(part, ignore_errors=True)
    assert result.is_good, f"{json.dumps(result.document(), indent=2)}\n{capsys.readouterr().out}"
    return result
