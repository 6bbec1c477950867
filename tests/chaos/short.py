"""A short run of the fault suite, as a test."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from devservers.errors import MissingPartError
from tests.chaos.plan import Plan, Result
from tests.chaos.run import run_chaos


def seed() -> int:
    """The seed in the environment variable SEED, else a random one."""
    return int(os.environ.get("SEED", random.randrange(10**6)))


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
