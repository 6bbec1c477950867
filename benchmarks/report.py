"""The results of a run as a JSON file, and as a page with plots."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

from benchmarks.comparison import Comparison
from benchmarks.plots import plot

Results = Mapping[str, Sequence[Comparison]]
"""The comparisons, by group."""

_EXPLAINED: Final = Path(__file__).parents[1] / "docs" / "performance.md"

TITLES: Final = {
    "ingest": "Ingest",
    "moderation": "Moderation",
    "approval-cost": "Cost of an approval",
    "facade": "Facade",
    "lists": "Lists",
    "latency": "Latency",
    "start": "Start",
    "workers": "Workers",
    "memory": "Memory",
    "drivers": "Drivers",
}


def write_results(results: Results, file: Path) -> None:
    """Write a JSON list with an object for each comparison."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [comparison.as_json() for comparison in chain.from_iterable(results.values())]
    file.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


def write_page(results: Results, file: Path, plots: Path, *, command: str, remark: str) -> None:
    """Write the page, and the plots that it shows into a folder of their own."""
    plots.mkdir(parents=True, exist_ok=True)
    explained = os.path.relpath(_EXPLAINED, file.parent)
    goals = [comparison.met for comparison in chain.from_iterable(results.values()) if comparison.met is not None]
    lines = [
        "# The figures of one run",
        "",
        f"Written by `{command}` on {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores with all servers on them. {remark} Of {len(goals)} goals {sum(goals)} are met.",
        "",
        "Ratios are ours divided by theirs, measured in turns; the median is what counts. Figures with a unit are "
        "plain ones of ours. A bar is the median, green where it meets its goal, red where it doesn't; the line over "
        "it reaches from the least to the largest figure, and the mark is at the goal. All figures: [latest.json]"
        f"(latest.json). Method: [performance]({explained}).",
    ]
    for group, comparisons in results.items():
        svg = plots / f"{group}.svg"
        svg.write_text(plot(TITLES[group], comparisons))
        lines += [
            "",
            f"![{TITLES[group]}: medians, their range, and the goals]({svg.relative_to(file.parent)})",
        ]
    file.write_text("\n".join(lines) + "\n")
