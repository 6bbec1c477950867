"""Everything that is measured: `make bench`, or `make bench QUICK=1` for a first look.

    python -m benchmarks [--quick] [group ...]

A whole run writes `latest.json` and `latest.md` to `benchmarks/results`; a quick one, of small sizes, writes to `quick`
there, and one in which a group failed to `incomplete`. None writes when groups are named.
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
from benchmarks.ground import Ground, ground
from benchmarks.progress import tell
from benchmarks.report import write
from benchmarks.sizes import QUICK, WHOLE, Size

_ROOT: Final = Path(__file__).parent.parent
_RESULTS: Final = _ROOT / "benchmarks" / "results"


Group = Callable[[Ground, Size], Awaitable[Sequence[Comparison]]]
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
    """The figures of each group, and the errors of those that failed, which keep no other from running."""
    results: dict[str, Sequence[Comparison]] = {}
    errors: list[Exception] = []
    with tempfile.TemporaryDirectory() as folder:
        async with ground(Path(folder)) as servers:
            for name in names:
                tell(name)
                started = monotonic()
                try:
                    results[name] = await GROUPS[name](servers, size)
                except Exception as error:
                    error.add_note(f"in group {name}")
                    errors.append(error)
                    tell(f"  FAILED: {error!r}")
                    continue
                for comparison in results[name]:
                    tell(f"  {comparison}")
                tell(f"  {name} took {monotonic() - started:.0f} s")
    return results, errors


def keep(results: dict[str, Sequence[Comparison]], *, quick: bool, failed: bool) -> None:
    """Write the results; those of a quick or an incomplete run into a folder of their own."""
    folder = _RESULTS / ("quick" if quick else "incomplete")
    page, remark = folder / "page.md", "A quick run of small sizes, once each: for the shape, not for the figures."
    if failed:
        remark = "Not all of it: some groups failed."
    elif not quick:
        folder, page, remark = _RESULTS, _RESULTS / "latest.md", "A whole run."
    command = f"make bench{' QUICK=1' if quick else ''}"
    write(results, folder / "latest.json", page, command=command, remark=remark)
    tell(f"Written: {page.relative_to(_ROOT)}")


def main() -> None:
    """Measure, tell, and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("group", nargs="*", choices=[*GROUPS, []])
    parser.add_argument("--quick", action="store_true", help="small sizes, once each")
    arguments = parser.parse_args()
    if arguments.quick:
        tell("A quick look: small sizes, once each. The figures are not for keeping.")
    names, size = arguments.group or list(GROUPS), QUICK if arguments.quick else WHOLE
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the service has it
        results, errors = runner.run(measure(names, size))
    met = [comparison.met for group in results.values() for comparison in group if comparison.met is not None]
    tell(f"{sum(met)} of {len(met)} goals are met")
    if not arguments.group:
        keep(results, quick=arguments.quick, failed=bool(errors))
    if errors:
        raise ExceptionGroup("some groups failed", errors)


if __name__ == "__main__":
    main()
