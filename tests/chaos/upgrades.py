"""Faults of versions: processes go to this version and back to the one before, one by one, under load.

Other faults happen between two processes, so that each mixture of versions has its share of them.
"""

from collections.abc import Sequence

from tests.chaos.faults import Fault, Stage
from tests.chaos.versions import Version

ORDER = ("worker", "scheduler", "api")
"""Of an upgrade, and the other way round of a rollback: whoever reads what is new is there before who writes it."""

KILLED = 0.25
"""The share of processes that are killed instead of stopped."""

DISTURBED = 0.5
"""The share of processes beside whose start another fault begins; the others are waited for."""


async def upgrade(stage: Stage) -> None:
    """`plaudit init` of this version, then each process; when none is left of the version before, `plaudit migrate` as
    far as that goes on running."""
    fleet = stage.fleet
    await fleet.run(fleet.this, "init")
    await take_turns(stage, fleet.this, ORDER)
    if fleet.this.migrates:
        await fleet.run(fleet.this, "migrate", "--compatible")


async def migrate(stage: Stage) -> None:
    """The steps with which the version before doesn't run, then each process anew: they go by what they find at their
    start. There is no way back."""
    fleet = stage.fleet
    await fleet.run(fleet.this, "migrate")
    for name in [name for kind in ORDER for name in sorted(fleet.names(kind))]:
        await fleet.stop(name, in_time=False)
        fleet.start(name)
        await fleet.until_ready(name)


async def roll_back(stage: Stage) -> None:
    """Each process; indexes, topics and documents stay as this version has left them."""
    assert stage.fleet.before is not None
    await take_turns(stage, stage.fleet.before, ORDER[::-1])


async def take_turns(stage: Stage, version: Version, order: Sequence[str]) -> None:
    """Bring each process of another version to this one, and wait until all are ready."""
    fleet = stage.fleet
    for name in [name for kind in order for name in sorted(fleet.names(kind))]:
        if fleet.version(name) == version:
            continue
        if stage.chance.random() < KILLED:
            fleet.kill(name)
        else:
            await fleet.stop(name, in_time=False)
        fleet.versions[name] = version
        fleet.start(name)
        if stage.chance.random() < DISTURBED:
            await stage.disturb()
        else:
            await fleet.until_ready(name)
    await fleet.until_ready()


UPGRADES: dict[str, Fault] = {"upgraded": upgrade, "rolled-back": roll_back}
"""In the order in which they alternate: the processes begin with the version before."""
