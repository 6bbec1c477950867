"""Everything that is measured: `make bench`, or `make bench QUICK=1` for a first look.

    python -m benchmarks [--quick] [group ...]

Writes `benchmarks/results/latest.json` and `docs/performance-latest.md`, but only when all groups ran.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks import approval_cost, drivers, facade, ingest, latency, lists, moderation, processes
from benchmarks.comparison import Comparison
from benchmarks.ground import Ground, ground
from benchmarks.report import write_page, write_results

PAGE = Path(__file__).parent.parent / "docs" / "performance-latest.md"


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    runs: int
    ingest: int
    moderation: int
    object_sizes: tuple[int, ...]
    approvals: int
    seconds: float
    listed: int
    list_requests: int
    observed: int
    memory: int


WHOLE = Size(5, 200_000, 100_000, (100, 10_000, 1_000_000), 10_000, 4.0, 1_000_000, 100, 300, 2_000_000)
QUICK = Size(1, 20_000, 5_000, (100, 10_000), 1_000, 1.5, 20_000, 20, 50, 50_000)

Group = Callable[[Ground, Size], Awaitable[Sequence[Comparison]]]
GROUPS: dict[str, Group] = {
    "ingest": lambda g, s: ingest.compare(g, s.runs, s.ingest),
    "moderation": lambda g, s: moderation.compare(g, s.runs, s.moderation),
    "approval-cost": lambda g, s: approval_cost.compare(g, s.runs, s.approvals, s.object_sizes),
    "facade": lambda g, s: facade.compare(g, s.runs, s.seconds),
    "lists": lambda g, s: lists.compare(g, s.runs, s.listed, s.list_requests),
    "latency": lambda g, s: latency.compare(g, s.observed),
    "start": lambda g, s: processes.start(g, s.runs),
    "workers": lambda g, s: processes.workers(g, s.ingest),
    "memory": lambda g, s: processes.memory(g, s.memory),
    "drivers": lambda g, s: drivers.compare(g, s.runs, s.seconds),
}


async def main(names: Sequence[str], size: Size) -> None:
    """Measure, and tell."""
    out = Console()
    comparisons: list[Comparison] = []
    with tempfile.TemporaryDirectory() as folder:
        async with ground(Path(folder)) as servers:
            for name in names or GROUPS:
                out.print(f"[bold]{name}[/bold]")
                for comparison in await GROUPS[name](servers, size):
                    comparisons.append(comparison)
                    verdict = {True: "met", False: "NOT MET", None: ""}[comparison.met]
                    out.print(
                        f"  {comparison.name} / {comparison.against}: {comparison.median:.3g} {comparison.unit} "
                        f"({min(comparison.ratios):.3g} to {max(comparison.ratios):.3g}) {verdict} "
                        f"{comparison.absolute}"
                    )
    if not names:
        write_results(comparisons)
        write_page(comparisons, PAGE, quick=size is QUICK)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("group", nargs="*", choices=[*GROUPS, []])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.group, QUICK if arguments.quick else WHOLE))
