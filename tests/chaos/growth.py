"""A fault of topics: they get more partitions under load, by a command that is killed now and then."""

import asyncio

from tests.chaos.clients import METADATA_REFRESH_S
from tests.chaos.faults import Fault, Stage
from tests.chaos.operating import until_done
from tests.chaos.upgrades import upgrade
from tests.support.service import PARTITIONS

MAX_PARTITIONS = 4 * PARTITIONS
"""Maximum number of partitions per topic: each is a fetch and an assignment in every worker."""

WAIT_S = 4 * METADATA_REFRESH_S
"""The command's `--wait`: seconds for producers to notice new partitions."""
LONGEST_S = 80.0
"""Seconds within which the command is killed."""


async def grow_topics(stage: Stage) -> None:
    """Double the partitions with `plaudit topics grow`, beside other faults; a killed command is run again.

    All processes must support growing topics, so those of the version before are upgraded first.
    """
    await upgrade(stage)
    service, partitions = stage.fleet.service, stage.partitions
    # A new partition is a part of an old one, so the last change in each new one is always the last one overall.
    partitions.count, partitions.is_growing = 2 * partitions.count, True
    command = ("topics", "grow", f"{partitions.count}", "--wait", f"{WAIT_S:.0f}")
    growing = asyncio.create_task(until_done(stage, LONGEST_S, *command))
    try:
        await stage.pause(5.0, 60.0)
        await stage.disturb()
        await growing
    finally:
        growing.cancel()
    service.grown, partitions.is_growing = partitions.count, False


GROWTHS: dict[str, Fault] = {"topics-grown": grow_topics}


def obstacle_to_growth(stage: Stage) -> str | None:
    """The reason why topics can't grow in this run, or not any further; None if they can."""
    before = stage.fleet.before
    if before is not None and not (before.tree / "storage" / "topics_growth.py").exists():
        return f"{before.name}, to which processes roll back, doesn't support growing topics"
    if stage.partitions.count >= MAX_PARTITIONS:
        return f"topics already have {MAX_PARTITIONS} partitions"
    return None
