"""Run all benchmarks, or some groups: `make bench`, or `make bench QUICK=1` for small sizes.

    python -m benchmarks [--quick] [group ...]

A full run writes `latest.json` and `latest.md` to `benchmarks/results`. A quick run writes to the folder `quick` there,
and a run with a failed group to `incomplete`. A run of named groups writes nothing.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import uvloop

from benchmarks import approval_cost, drivers, facade, ingest, latency, lists, moderation, processes, rules, storefront
from benchmarks.comparison import Comparison
from benchmarks.progress import print_progress
from benchmarks.report import write
from benchmarks.servers import Servers, running_servers
from benchmarks.sizes import FULL, QUICK, Size

_ROOT: Final = Path(__file__).parent.parent
_RESULTS: Final = _ROOT / "benchmarks" / "results"


Group = Callable[[Servers, Size], Awaitable[Sequence[Comparison]]]
GROUPS: Final[dict[str, Group]] = {
    "ingest": ingest.compare,
    "rules": rules.compare,
    "moderation": moderation.compare,
    "approval-cost": approval_cost.compare,
    "facade": facade.compare,
    "storefront": storefront.compare,
    "lists": lists.compare,
    "latency": latency.compare,
    "start": processes.start,
    "workers": processes.workers,
    "drivers": drivers.compare,
    "memory": processes.memory,
}


async def measure(names: Sequence[str], size: Size) -> tuple[dict[str, Sequence[Comparison]], list[Exception]]:
    """Run groups by name. Returns the comparisons by group, and the errors of failed groups; the others still run."""
    results: dict[str, Sequence[Comparison]] = {}
    errors: list[Exception] = []
    with tempfile.TemporaryDirectory() as folder:
        async with running_servers(Path(folder)) as servers:
            for name in names:
                print_progress(name)
                started = monotonic()
                try:
                    results[name] = await GROUPS[name](servers, size)
                except Exception as error:
                    error.add_note(f"in group {name}")
                    errors.append(error)
                    print_progress(f"  FAILED: {error!r}")
                    continue
                for comparison in results[name]:
                    print_progress(f"  {comparison}")
                print_progress(f"  {name} took {monotonic() - started:.0f} s")
    return results, errors


def write_results(results: dict[str, Sequence[Comparison]], *, quick: bool, failed: bool) -> None:
    """Write the results; those of a quick or an incomplete run go into a separate folder."""
    folder = _RESULTS / ("quick" if quick else "incomplete")
    page, remark = folder / "page.md", "A quick run with small sizes, one round each: its figures are not reliable."
    if failed:
        remark = "Incomplete: some groups failed."
    elif not quick:
        folder, page, remark = _RESULTS, _RESULTS / "latest.md", "A full run."
    command = f"make bench{' QUICK=1' if quick else ''}"
    write(results, folder / "latest.json", page, command=command, remark=remark)
    print_progress(f"Written: {page.relative_to(_ROOT)}")


def main() -> None:
    """Run the benchmarks, print the results, and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("group", nargs="*", choices=[*GROUPS, []])
    parser.add_argument("--quick", action="store_true", help="small sizes, one round each")
    arguments = parser.parse_args()
    if arguments.quick:
        print_progress("Quick run: small sizes, one round each. The figures are not reliable.")
    names, size = arguments.group or list(GROUPS), QUICK if arguments.quick else FULL
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the same event loop as the service
        results, errors = runner.run(measure(names, size))
    met = [comparison.met for group in results.values() for comparison in group if comparison.met is not None]
    print_progress(f"{sum(met)} of {len(met)} goals met")
    if not arguments.group:
        write_results(results, quick=arguments.quick, failed=bool(errors))
    if errors:
        raise ExceptionGroup("some groups failed", errors)


if __name__ == "__main__":
    main()
