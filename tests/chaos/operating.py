"""Commands of operators during a run, killed now and then and run again."""

import asyncio
from pathlib import Path

from tests.chaos.faults import Stage

LIMIT_S = 900.0
"""Seconds within which a command must have succeeded."""


async def until_done(stage: Stage, longest_s: float, *command: str) -> None:
    """Run a command until it succeeds, the first time perhaps killed within `longest_s`. Raises AssertionError after
    `LIMIT_S`."""
    log = stage.fleet.service.folder / f"{command[0]}.log"
    try:
        async with asyncio.timeout(LIMIT_S):
            killed_after = stage.rng.choice([None, stage.rng.uniform(1.0, longest_s)])
            while await run_once(stage, log, killed_after, *command) != 0:
                killed_after = None
                await asyncio.sleep(1)  # an operator runs it again
    except TimeoutError:
        ended = log.read_text()[-3_000:]
        raise AssertionError(f"`plaudit {command[0]}` didn't succeed in {LIMIT_S:.0f} s: {ended}") from None


async def run_once(stage: Stage, log: Path, killed_after: float | None, *command: str) -> int:
    """Run a command once, killed after `killed_after` seconds unless None. Returns its exit code."""
    fleet = stage.fleet
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *fleet.this.command(*command),
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
