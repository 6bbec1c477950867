"""Results of a run as a JSON file and as a Markdown page with plots."""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from benchmarks.comparison import Comparison
from benchmarks.plots import plot

Results = Mapping[str, Sequence[Comparison]]
"""Comparisons by group."""

_EXPLAINED: Final = Path(__file__).parents[1] / "docs" / "performance.md"


def write(results: Results, file: Path, page: Path, *, command: str, remark: str) -> None:
    """Write the JSON file, the page, and its plots into a folder named like the page; nothing if one of them fails."""
    plots = page.with_suffix("")
    texts = {file: _figures(results), page: _page(results, page, plots, command=command, remark=remark)}
    texts |= {_plot_of(group, plots): plot(_title(group), comparisons) for group, comparisons in results.items()}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _title(group: str) -> str:
    return group.replace("-", " ").capitalize()


def _plot_of(group: str, plots: Path) -> Path:
    return plots / f"{group}.svg"


def _figures(results: Results) -> str:
    rows = [comparison.as_json() for comparison in chain.from_iterable(results.values())]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def _page(results: Results, page: Path, plots: Path, *, command: str, remark: str) -> str:
    explained = os.path.relpath(_EXPLAINED, page.parent)
    goals = [comparison.met for comparison in chain.from_iterable(results.values()) if comparison.met is not None]
    lines = [
        "# Results of a benchmark run",
        "",
        f"Written by `{command}` on {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores with all servers on them. {remark} {sum(goals)} of {len(goals)} goals are met.",
        "",
        "A ratio is Plaudit's figure divided by that of the alternative, measured in turns. Figures with a unit are "
        "Plaudit's own. A bar shows the median: green if it meets its goal, red if not, blue without a goal. The line "
        "over it reaches from the smallest to the largest figure; the dashed line marks the goal. All figures: "
        f"[latest.json](latest.json). Method: [performance]({explained}).",
    ]
    for group in results:
        picture = _plot_of(group, plots).relative_to(page.parent)
        lines += ["", f"![{_title(group)}: medians, their range, and the goals]({picture})"]
    missed = missed_goals([comparison.as_json() for comparison in chain.from_iterable(results.values())])
    return "\n".join([*lines, *missed]) + "\n"


def missed_goals(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The lines of a Markdown table of the goals that are missed, of rows as in `latest.json`; none if all are met."""
    missed = [row for row in rows if row["met"] is False]
    if not missed:
        return []
    lines = ["", "## Missed goals", "", "| Measured | against | median | goal |", "| --- | --- | --- | --- |"]
    for row in missed:
        unit = "" if row["unit"] == "ratio" else f" {row['unit']}"
        median, goal = f"{row['ratio']['median']:,.4g}{unit}", f"{row['bound']} {row['goal']:g}{unit}"
        lines.append(f"| {row['name']} | {row['against']} | {median} | {goal} |")
    return lines
