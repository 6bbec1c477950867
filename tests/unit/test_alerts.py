"""Alerts: tested to fire and to stay silent, and linked to their sections of the runbook."""

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from plaudit.cli.main import app
from tests.support.rooms import ROOMS
from tests.support.yaml_text import yaml_in
from tests.unit.test_documents import headings_of

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "prometheus"
RUNBOOK: Final = ROOT / "docs" / "runbook.md"
TESTS: Final = sorted(FOLDER.glob("*_test.yml"))
ALERTS: Final[dict[str, dict[str, Any]]] = {
    rule["alert"]: rule
    for group in yaml_in((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


_SLOW: Final = {"alerts_hours_test.yml": pytest.mark.slow}
"""Tests that evaluate hours minute by minute."""


@pytest.mark.long
@pytest.mark.parametrize("file", [pytest.param(each, id=each.name, marks=_SLOW.get(each.name, ())) for each in TESTS])
def test_alert_rules_pass_promtool_tests(file: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool isn't installed: Debian has it in the package prometheus")
    result = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_alert_is_tested_firing_and_silent() -> None:
    expected = defaultdict(set)
    for test in (test for file in TESTS for test in yaml_in(file.read_text())["tests"]):
        for rule in test["alert_rule_test"]:
            expected[rule["alertname"]].add(bool(rule["exp_alerts"]))
    assert expected == {name: {True, False} for name in ALERTS}


def test_each_alert_has_annotations_and_a_runbook_section() -> None:
    assert re.findall(r"^## (Plaudit\w+)$", RUNBOOK.read_text(), re.MULTILINE) == list(ALERTS)
    anchors = headings_of(RUNBOOK)
    for name, rule in ALERTS.items():
        notes = rule["annotations"]
        assert notes.keys() == {"summary", "description", "runbook"}
        assert all(notes.values())
        assert notes["runbook"] == f"docs/runbook.md#{name.lower()}"
        assert name.lower() in anchors
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_runbook_sections_have_the_same_parts() -> None:
    _, *sections = re.split(r"^## Plaudit\w+$", RUNBOOK.read_text(), flags=re.MULTILINE)
    for section in sections:
        asked = re.findall(r"^\*\*(.+?)\.\*\*", section, re.MULTILINE)
        assert asked == ["Means", "Users notice", "Look", "Do", "Escalate"]


@pytest.mark.long
def test_runbook_commands_exist() -> None:
    named = re.findall(r"`plaudit ([a-z -]+)`", RUNBOOK.read_text())
    assert named
    for command in named:
        found: Any = typer.main.get_command(app)
        for word in command.split(" --")[0].split():
            assert word in found.commands, command
            found = found.commands[word]


def test_runbook_quotes_messages_and_panels_that_exist() -> None:
    code = [path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    shown = " ".join([*code, (ROOT / "deploy" / "grafana" / "plaudit.json").read_text()])
    quoted = re.findall(r'"([^"]+)"', " ".join(RUNBOOK.read_text().split()))
    assert len(quoted) > 15
    assert [text for text in quoted if text not in shown] == []


def test_prometheus_scrapes_the_processes_of_the_alerts() -> None:
    configured = yaml_in((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    (watched,) = re.findall(r'up\{job=~"(.+)"\}', ALERTS["PlauditTargetDown"]["expr"])
    processes = re.findall(r'absent\(plaudit_build_info\{process="(\w+)"\}\)', ALERTS["PlauditProcessMissing"]["expr"])
    assert [job["job_name"] for job in configured] == [f"plaudit-{process}" for process in processes]
    assert all(re.fullmatch(watched, job["job_name"]) for job in configured)
