"""`make chaos`: the long form of the fault suite."""

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable
from pathlib import Path

from tests.chaos.output import say
from tests.chaos.plan import KINDS, Plan, Result
from tests.chaos.run import run_chaos

RESULTS = Path(__file__).with_name("results") / "latest.json"
PROCESSES = ("api-1", "api-2", "worker-1", "worker-2", "worker-3", "scheduler-1", "scheduler-2")
ACTORS = {"reviewers": 16, "importers": 3, "buyers": 4, "audiences": 4, "deciders": 1}


def main() -> None:
    """Run the fault suite, write its results to a file, and fail if anything was lost, duplicated or wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=main.__doc__)
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(10**6),
        help="the same commands and order of faults as in the run that printed it, at different moments",
    )
    parser.add_argument("--faults", type=int, default=200, help="minimum number of faults")
    parser.add_argument(
        "--commands", type=int, default=500_000, help="number of acknowledged commands, unless --seconds is over first"
    )
    parser.add_argument("--seconds", type=float, default=6 * 3600.0, help="maximum duration of faults and load")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of faults, separated by commas")
    parser.add_argument("--before", help="the version before: a revision, or the folder of its source tree")
    for actor, count in ACTORS.items():
        parser.add_argument(f"--{actor}", type=int, default=count, help=f"number of {actor} that send commands")
    parser.add_argument("--batch", type=int, default=60, help="maximum number of reviews in one message")
    parser.add_argument(
        "--keep", type=Path, help="folder in which logs and data are kept; by default they are deleted at the end"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="file for the results")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := sorted(set(kinds).difference(KINDS)):
        parser.error(f"unknown kinds: {', '.join(unknown)}; use {', '.join(KINDS)}")
    sizes = {name: getattr(options, name) for name in ("seed", "faults", "commands", "seconds", "batch", *ACTORS)}
    plan = Plan(**sizes, processes=PROCESSES, before=options.before, kinds=kinds)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="plaudit-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        result = asyncio.run(_cancelled_by_sigterm(run_chaos(plan, folder, say)))
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    document = json.dumps(result.document(), indent=2)
    options.results.write_text(f"{document}\n")
    say(document)
    sys.exit(0 if result.is_good else 1)


async def _cancelled_by_sigterm(run: Awaitable[Result]) -> Result:
    """Await the run. SIGTERM cancels it like Ctrl-C, so that every server and process it started is stopped."""
    running = asyncio.ensure_future(run)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await running


if __name__ == "__main__":
    main()
