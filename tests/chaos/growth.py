"""A fault of topics: they get more partitions under load, by a command that is killed now and then."""

import asyncio
from pathlib import Path

from tests.chaos.clients import METADATA_REFRESH_S
from tests.chaos.faults import Fault, Stage
from tests.chaos.upgrades import upgrade
from tests.support.service import PARTITIONS

MAX_PARTITIONS = 4 * PARTITIONS
"""Maximum number of partitions per topic: each is a fetch and an assignment in every worker."""

WAIT_S = 4 * METADATA_REFRESH_S
"""The command's `--wait`: seconds for producers to notice new partitions."""
LIMIT_S = 900.0
"""Seconds within which topics must have grown."""


async def grow_topics(stage: Stage) -> None:
    """Double the partitions with `plaudit topics grow`, beside other faults; a killed command is run again.

    All processes must support growing topics, so those of the version before are upgraded first.
    """
    await upgrade(stage)
    service, partitions = stage.fleet.service, stage.partitions
    # A new partition is a part of an old one, so the last change in each new one is always the last one overall.
    partitions.count, partitions.is_growing = 2 * partitions.count, True
    growing = asyncio.create_task(until_grown(stage, partitions.count))
    try:
        await stage.pause(5.0, 60.0)
        await stage.disturb()
        await growing
    finally:
        growing.cancel()
    service.grown, partitions.is_growing = partitions.count, False


async def until_grown(stage: Stage, count: int) -> None:
    """Run the command until it succeeds. Raises AssertionError after `LIMIT_S`."""
    log = stage.fleet.service.folder / "topics-grow.log"
    try:
        async with asyncio.timeout(LIMIT_S):
            killed_after = stage.rng.choice([None, stage.rng.uniform(1.0, 80.0)])
            while await grow(stage, count, log, killed_after) != 0:
                killed_after = None
                await asyncio.sleep(1)  # an operator runs it again
    except TimeoutError:
        raise AssertionError(f"topics didn't grow in {LIMIT_S:.0f} s: {log.read_text()[-3_000:]}") from None


async def grow(stage: Stage, count: int, log: Path, killed_after: float | None) -> int:
    """Run the command once, killed after `killed_after` seconds unless None. Returns its exit code."""
    fleet = stage.fleet
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *fleet.this.command("topics", "grow", f"{count}", "--wait", f"{WAIT_S:.0f}"),
            env=fleet.environment(fleet.this),
            cwd=fleet.service.folder,
            stdout=output,
            stderr=output,
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


def obstacle_to_growth(stage: Stage) -> str | None:
    """The reason why topics can't grow in this run, or not any further; None if they can."""
    before = stage.fleet.before
    if before is not None and not (before.tree / "storage" / "topics_growth.py").exists():
        return f"{before.name}, to which processes roll back, doesn't support growing topics"
    if stage.partitions.count >= MAX_PARTITIONS:
        return f"topics already have {MAX_PARTITIONS} partitions"
    return None
