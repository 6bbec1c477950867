"""`python -m tests.chaos.breaks [name ...]`: apply each patch to a copy of the tree, and check that the suite fails
on it."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chaos.output import say

BREAKS = Path(__file__).parent
TREE = BREAKS.parents[2]
TIMEOUT_S = 1_200
"""Timeout of a run."""

_FEW_CLIENTS = ["--faults=0", "--commands=1000000", "--reviewers=1", "--importers=1", "--buyers=1", "--audiences=1"]
"""Few clients of the numerous kinds, so that each of the other kinds has many turns."""

RUNS = {
    "commit-before-write": ["--faults=6", "--commands=2000", "--kinds=worker-killed"],
    "tally-outside-the-transaction": ["--faults=8", "--commands=2000", "--kinds=worker-killed,mongodb-primary-killed"],
    # Right in the end: only looks under load find it.
    "tally-after-the-commit": ["--faults=0", "--commands=1000000", "--seconds=240"],
    "no-parking": ["--faults=0", "--commands=1000"],
    "no-parking-of-feedback": [*_FEW_CLIENTS, "--audiences=8", "--seconds=60"],
    "no-expectation-when-parked": ["--faults=0", "--commands=1000"],
    "text-of-a-decision-ignored": ["--faults=0", "--commands=2000"],
    "acknowledged-before-kafka-has-it": ["--faults=4", "--commands=2000", "--kinds=facade-killed,kafka-leader-killed"],
    "no-tombstone": ["--faults=0", "--commands=3000"],
    "forward-after-an-error": ["--faults=4", "--commands=2000", "--kinds=bad-records"],
    "token-before-publish": ["--faults=8", "--commands=2000", "--kinds=worker-killed"],
    "edits-in-any-order": ["--faults=0", "--commands=3000", "--kinds=worker-killed"],
    "edits-announced-twice": ["--faults=0", "--commands=1000"],
    "unique-keys-without-holders": ["--faults=0", "--commands=3000", "--kinds=worker-killed"],
    "orders-that-verify-nothing": [*_FEW_CLIENTS, "--seconds=150"],
    "restored-over-a-decision": [*_FEW_CLIENTS, "--seconds=60"],
    "approvals-that-nobody-plans": [*_FEW_CLIENTS, "--seconds=60"],
    "published-over-a-decision": [*_FEW_CLIENTS, "--seconds=60"],
    "approved-before-all-is-read": [*_FEW_CLIENTS, "--faults=6", "--kinds=worker-killed", "--seconds=150"],
    # The version before is the tree without the break.
    "stored-field-renamed": ["--faults=2", "--commands=1000", "--kinds=upgraded,rolled-back", f"--before={TREE}"],
    "message-field-renamed": ["--faults=2", "--commands=1000", "--kinds=upgraded,rolled-back", f"--before={TREE}"],
    "returns-beyond-the-order": [*_FEW_CLIENTS, "--seconds=60"],
    "older-order-wins": [*_FEW_CLIENTS, "--seconds=60"],
    "viewed-until-the-next-event": [*_FEW_CLIENTS, "--seconds=60"],
    "key-ignored": [*_FEW_CLIENTS, "--seconds=60"],
    "events-not-owed": ["--faults=8", "--commands=2000", "--kinds=worker-killed"],
    "no-lease": ["--faults=0", "--commands=1000000", "--seconds=240"],
}
"""Arguments of `python -m tests.chaos` with which it detects each break."""

_LOST = "(lost|wrong), "
EFFECTS = {
    "commit-before-write": "wrong, review ",
    "tally-outside-the-transaction": "wrong, (rating|summary) ",
    "tally-after-the-commit": "wrong, rating of ",
    "no-parking": "wrong, review ",
    "no-parking-of-feedback": "wrong, feedback ",
    "no-expectation-when-parked": "wrong, (review|outcome) ",
    "text-of-a-decision-ignored": "wrong, (review|outcome) ",
    "acknowledged-before-kafka-has-it": _LOST,
    "no-tombstone": "duplicated, unexpected review",
    "forward-after-an-error": _LOST,
    "token-before-publish": "relayed, topic has ",
    "edits-in-any-order": "wrong, (review|a repeat) ",
    "edits-announced-twice": r"duplicated, \d+ events of",
    "unique-keys-without-holders": r"duplicated, \d+ of the",
    "orders-that-verify-nothing": "wrong, review ",
    "restored-over-a-decision": "wrong, ",
    "approvals-that-nobody-plans": _LOST,
    "published-over-a-decision": "wrong, ",
    "approved-before-all-is-read": "(wrong, outcome|duplicated, events of decisions)",
    "stored-field-renamed": "wrong, (rating|summary) ",
    "message-field-renamed": _LOST,
    "returns-beyond-the-order": r"(duplicated, \d+ returns|wrong, (available|return|outcome)) ",
    "older-order-wins": "wrong, (return|available) ",
    "viewed-until-the-next-event": r"duplicated, \d+ mails, ",
    "key-ignored": "(wrong, outcome|duplicated, unexpected review)",
    "events-not-owed": r"lost, (no|\d+ events) ",
    "no-lease": "duplicated, several schedulers",
}
"""The sort of differences that each break causes: a pattern of their kind and of how their text begins."""


def main() -> None:
    """Run the named breaks, or all; exit code 1 if the suite missed one."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"break to test (default: all): {', '.join(RUNS)}")
    names = parser.parse_args().names or list(RUNS)
    if unknown := [name for name in names if name not in RUNS]:
        parser.error(f"unknown break: {', '.join(unknown)}")
    missed = [name for name in names if not is_detected(name)]
    for name in missed:
        say(f"NOT DETECTED: {name}")
    sys.exit(1 if missed else 0)


def is_detected(name: str) -> bool:
    """True if the suite finds what this break causes on a tree with it; a crash or another difference doesn't count."""
    with tempfile.TemporaryDirectory(prefix="plaudit-break-") as folder:
        tree = Path(folder)
        listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        for file in subprocess.check_output(listing, cwd=TREE, text=True).splitlines():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / file, tree / file)
        shutil.rmtree(tree / "tests/chaos/results", ignore_errors=True)
        subprocess.run(["patch", "--strip=1", f"--input={BREAKS / name}.patch"], cwd=tree, check=True)
        # A run that hangs is killed and counts as missed, so that the others can follow.
        finished = subprocess.run(
            ["timeout", "--signal=KILL", str(TIMEOUT_S), sys.executable, "-m", "tests.chaos", "--seed=7", *RUNS[name]],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            check=False,
        )
    say(f"== {name}: exit code {finished.returncode}\n{finished.stdout}\n{finished.stderr[-2_000:]}")
    return reports_effect(finished.stdout, name)


def reports_effect(report: str, name: str) -> bool:
    """True if a run's report counts differences of the sort that this break causes (`difference.describe`)."""
    return re.search(rf"^  \d+ {EFFECTS[name]}", report, re.MULTILINE) is not None


if __name__ == "__main__":
    main()
