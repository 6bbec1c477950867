"""The report that a benchmark run writes at its end, after most of an hour."""

import ast
import json
import re
from pathlib import Path

import pytest

from benchmarks.comparison import Comparison
from benchmarks.report import missed_goals, write

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SPEED = Comparison("Speed", "a bare loop", [0.5, 0.75, 1.0], 0.7)
TIME = Comparison("Time", "", [20.0], 10.0, "at most", "ms")


def group_names() -> list[str]:
    """The groups of a run. Parsed, not imported: the compared libraries are installed for benchmarks only."""
    tree = ast.parse((ROOT / "benchmarks" / "__main__.py").read_text())
    (groups,) = [
        each.value for each in tree.body if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == "GROUPS"
    ]
    assert isinstance(groups, ast.Dict)
    return [ast.literal_eval(key) for key in groups.keys if key is not None]


def test_every_group_has_a_chart_on_the_page(tmp_path: Path) -> None:
    names = group_names()
    assert "approval-cost" in names
    file, page = tmp_path / "latest.json", tmp_path / "latest.md"
    write({name: [SPEED, TIME] for name in names}, file, page, command="make bench", remark="A full run.")
    text = page.read_text()
    assert f"A full run. {len(names)} of {2 * len(names)} goals are met." in text
    pictures = dict(re.findall(r"!\[(.+): medians, their range, and the goals\]\((.+)\)", text))
    assert pictures["Approval cost"] == "latest/approval-cost.svg"
    assert list(pictures.values()) == [f"latest/{name}.svg" for name in names]
    for title, picture in pictures.items():
        assert f">{title}</text>" in (tmp_path / picture).read_text()
    assert len(json.loads(file.read_text())) == 2 * len(names)


def test_page_and_docs_tell_the_missed_goals_of_the_last_whole_run() -> None:
    rows = json.loads((RESULTS / "latest.json").read_text())
    goals = [row["met"] for row in rows if row["met"] is not None]
    met = f"{sum(goals)} of {len(goals)} goals"
    page = (RESULTS / "latest.md").read_text()
    assert f" {met} are met." in page
    assert page.endswith("\n".join(["", *missed_goals(rows), ""]))
    assert page.count("\n| ") == goals.count(False) + 2, "a line for each, below the head of the table"
    assert f"It met {met}." in " ".join((ROOT / "docs" / "performance.md").read_text().split())


def test_failed_report_writes_nothing(tmp_path: Path) -> None:
    broken = Comparison("Speed", "a bare loop", [], 0.7)
    with pytest.raises(ValueError, match="empty"):
        write({"ingest": [SPEED], "rules": [broken]}, tmp_path / "a.json", tmp_path / "a.md", command="", remark="")
    assert list(tmp_path.iterdir()) == []


def test_docs_list_the_groups() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    (names,) = re.findall(r"make bench ARGS=ingest # one group: (.+)", page)
    assert names.split(", ") == group_names()
