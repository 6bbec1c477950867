"""A fault of topics: they get more partitions under load, by a command that is killed now and then."""

import asyncio
from pathlib import Path

from tests.chaos.clients import KNOWN_S
from tests.chaos.faults import Fault, Stage
from tests.chaos.upgrades import upgrade
from tests.support.service import PARTITIONS

MOST = 4 * PARTITIONS
"""Topics grow to so many partitions: each is a fetch and a place in every worker."""

WAIT_S = 4 * KNOWN_S
LIMIT_S = 900.0


async def grow_topics(stage: Stage) -> None:
    """`plaudit topics grow` to twice as many, beside other faults; cut short once, it is run again.

    All processes must know how topics grow, so those of the version before are upgraded first.
    """
    await upgrade(stage)
    service, partitions = stage.fleet.service, stage.partitions
    # Each of these is a part of one of before: the last change in each is the last one in all of them, at any time.
    partitions.count, partitions.is_growing = 2 * partitions.count, True
    growing = asyncio.create_task(until_grown(stage, partitions.count))
    try:
        await stage.a_while(5.0, 60.0)
        await stage.disturb()
        await growing
    finally:
        growing.cancel()
    service.grown, partitions.is_growing = partitions.count, False


async def until_grown(stage: Stage, count: int) -> None:
    """Run the command until it has done it. Raises AssertionError where it doesn't in a quarter of an hour."""
    log = stage.fleet.service.folder / "topics-grow.log"
    try:
        async with asyncio.timeout(LIMIT_S):
            killed_after = stage.chance.choice([None, stage.chance.uniform(1.0, 80.0)])
            while await grow(stage, count, log, killed_after) != 0:
                killed_after = None
                await asyncio.sleep(1)  # an operator who runs it again
    except TimeoutError:
        raise AssertionError(f"topics didn't grow in {LIMIT_S:.0f} s: {log.read_text()[-3_000:]}") from None


async def grow(stage: Stage, count: int, log: Path, killed_after: float | None) -> int:
    """One run, killed after so many seconds. Returns its exit code."""
    fleet = stage.fleet
    with log.open("ab") as told:
        process = await asyncio.create_subprocess_exec(
            *fleet.this.command("topics", "grow", f"{count}", "--wait", f"{WAIT_S:.0f}"),
            env=fleet.environment(fleet.this),
            cwd=fleet.service.folder,
            stdout=told,
            stderr=told,
        )
    try:
        return await asyncio.wait_for(process.wait(), killed_after)
    except TimeoutError:
        process.kill()
        return await process.wait()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise


GROWTHS: dict[str, Fault] = {"topics-grown": grow_topics}


def why_not(stage: Stage) -> str | None:
    """Why topics can't grow in this run, or no further."""
    before = stage.fleet.before
    if before is not None and not (before.tree / "storage" / "topics_growth.py").exists():
        return f"{before.name}, which processes come back to, doesn't know how topics grow"
    if stage.partitions.count >= MOST:
        return f"topics have {MOST} partitions by now"
    return None
