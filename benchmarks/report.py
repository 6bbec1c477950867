"""Where results go: a file for machines, a page for people."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.comparison import Comparison

RESULTS: Final = Path(__file__).parent / "results" / "latest.json"
_WIDTH: Final = 30


def write_results(comparisons: Sequence[Comparison], file: Path = RESULTS) -> None:
    """Write `latest.json`."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps([comparison.as_json() for comparison in comparisons], indent=2) + "\n")


def write_page(comparisons: Sequence[Comparison], file: Path, *, quick: bool) -> None:
    """Write the page: a table, and a bar for each ratio with its goal."""
    kind = "a quick run, of small sizes: for the shape, not for the figures" if quick else "a whole run"
    lines = [
        "# The figures of one run",
        "",
        f"Written by `make bench{' QUICK=1' if quick else ''}` on {datetime.now(UTC):%Y-%m-%d}, Python "
        f"{platform.python_version()}, 2 cores with all servers on them; {kind}. Ratios are ours divided by theirs, "
        "measured in turns; what matters is the median.",
        "",
        "| What | Against | min | median | max | Goal | Met | In figures |",
        "|---|---|---|---|---|---|---|---|",
        *map(_row, comparisons),
        "",
        "## As bars",
        "",
        "Median, with `|` at the goal; a full bar is 1.5 times the goal or more.",
        "",
        "```text plot",
        *(_bar(comparison) for comparison in comparisons if comparison.goal is not None),
        "```",
        "",
    ]
    file.write_text("\n".join(lines))


def _row(c: Comparison) -> str:
    sign = {"at least": "≥", "at most": "≤"}[c.bound]
    goal = f"{sign} {c.goal:g} {c.unit}".rstrip() if c.goal is not None else ""
    met = {True: "yes", False: "**no**", None: ""}[c.met]
    low, middle, high = (f"{value:.3g}" for value in (min(c.ratios), c.median, max(c.ratios)))
    return f"| {c.name} | {c.against} | {low} | {middle} {c.unit} | {high} | {goal} | {met} | {c.absolute} |"


def _bar(c: Comparison) -> str:
    goal = c.goal or 1.0
    share = min(1.5, c.median / goal) / 1.5
    bar = ("█" * round(share * _WIDTH)).ljust(_WIDTH)
    mark = round(_WIDTH / 1.5)
    return f"{bar[:mark]}|{bar[mark:]} {c.median:8.3g} {c.unit or 'x':3} {c.name}" + (
        f" / {c.against}" if c.against else ""
    )
