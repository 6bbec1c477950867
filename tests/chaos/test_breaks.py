"""The deliberate breaks still apply to the code. `python -m tests.chaos.breaks` runs the fault suite on each."""

import shutil
import subprocess

import pytest

from tests.chaos.breaks.__main__ import BREAKS, EFFECTS, RUNS, TREE, reports_effect
from tests.chaos.clients import Ledger
from tests.chaos.difference import Difference, describe


@pytest.mark.parametrize("name", RUNS)
def test_break_applies(name: str) -> None:
    if not shutil.which("patch"):
        pytest.skip("the command `patch` isn't installed")
    command = ["patch", "--dry-run", "--strip=1", "--fuzz=0", f"--input={BREAKS / name}.patch"]
    tried = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stdout


def test_every_break_has_a_run() -> None:
    assert {patch.stem for patch in BREAKS.glob("*.patch")} == set(RUNS) == set(EFFECTS)


def test_only_its_own_effect_detects_a_break() -> None:
    lost, repeated = Difference("lost", "a", "return is missing, expected b"), "unexpected review: c"
    report = describe([lost, Difference("duplicated", "c", repeated)], Ledger())
    assert reports_effect(report, "no-tombstone")
    assert not reports_effect(describe([lost, Difference("wrong", "c", repeated)], Ledger()), "no-tombstone")
    assert not reports_effect("no differences", "no-tombstone")
