"""Faults of versions: processes are upgraded to this version and rolled back, one by one, under load.

Other faults happen between two processes, so that each mixture of versions is tested with some of them.
"""

from collections.abc import Sequence

from tests.chaos.faults import Fault, Stage
from tests.chaos.versions import Version

ORDER = ("worker", "scheduler", "api")
"""Order of an upgrade, and reverse order of a rollback: readers of a new format are there before its writers."""

KILL_PROBABILITY = 0.25
"""Probability that a process is killed instead of stopped."""

DISTURB_PROBABILITY = 0.5
"""Probability that another fault begins while a process starts, instead of waiting for it."""


async def upgrade(stage: Stage) -> None:
    """Run `plaudit init` of this version, then replace each process.

    When no process of the version before is left, `plaudit migrate --compatible` runs the migrations that it still
    supports.
    """
    fleet = stage.fleet
    await fleet.run(fleet.this, "init")
    await replace_processes(stage, fleet.this, ORDER)
    if fleet.this.migrates:
        await fleet.run(fleet.this, "migrate", "--compatible")


async def migrate(stage: Stage) -> None:
    """Run the migrations that the version before doesn't support, then restart each process, because it reads the
    schema at its start.

    There is no rollback from here.
    """
    fleet = stage.fleet
    await fleet.run(fleet.this, "migrate")
    for name in [name for kind in ORDER for name in sorted(fleet.names(kind))]:
        await fleet.stop(name, in_time=False)
        fleet.start(name)
        await fleet.until_ready(name)


async def roll_back(stage: Stage) -> None:
    """Replace each process by the version before; indexes, topics and documents stay as this version left them."""
    assert stage.fleet.before is not None
    await replace_processes(stage, stage.fleet.before, ORDER[::-1])


async def replace_processes(stage: Stage, version: Version, order: Sequence[str]) -> None:
    """Replace each process of another version by this one, and wait until all are ready."""
    fleet = stage.fleet
    for name in [name for kind in order for name in sorted(fleet.names(kind))]:
        if fleet.version(name) == version:
            continue
        if stage.rng.random() < KILL_PROBABILITY:
            fleet.kill(name)
        else:
            await fleet.stop(name, in_time=False)
        fleet.versions[name] = version
        fleet.start(name)
        if stage.rng.random() < DISTURB_PROBABILITY:
            await stage.disturb()
        else:
            await fleet.until_ready(name)
    await fleet.until_ready()


UPGRADES: dict[str, Fault] = {"upgraded": upgrade, "rolled-back": roll_back}
"""In the order in which they alternate: the processes start with the version before."""
