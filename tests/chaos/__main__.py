"""`make chaos`: the long form."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.run import Plan, run_chaos

RESULTS = Path(__file__).with_name("results") / "latest.json"
PROCESSES = ("api-1", "api-2", "worker-1", "worker-2", "worker-3", "scheduler-1", "scheduler-2")


def main() -> None:
    """Run, write the results down, and fail if anything was lost, duplicated or wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--faults", type=int, default=200, help="at least so many")
    parser.add_argument("--commands", type=int, default=500_000, help="at least so many, acknowledged")
    parser.add_argument("--seconds", type=float, default=6 * 3600.0, help="at most so long")
    parser.add_argument("--kinds", default=",".join(FAULTS), help="of faults, by name")
    parser.add_argument("--reviewers", type=int, default=16)
    parser.add_argument("--importers", type=int, default=3)
    parser.add_argument("--buyers", type=int, default=4)
    parser.add_argument("--keep", type=Path, help="a folder for logs and data, kept; else they are deleted at the end")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the figures are kept")
    options = parser.parse_args()
    plan = Plan(
        seed=options.seed,
        faults=options.faults,
        commands=options.commands,
        seconds=options.seconds,
        reviewers=options.reviewers,
        importers=options.importers,
        buyers=options.buyers,
        processes=PROCESSES,
        kinds=options.kinds.split(","),
    )
    folder = options.keep or Path(tempfile.mkdtemp(prefix="plaudit-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        result = asyncio.run(run_chaos(plan, folder, say))
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.write_text(json.dumps(result.document(), indent=2) + "\n")
    say(json.dumps(result.document(), indent=2))
    sys.exit(0 if result.is_good else 1)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
