"""Packages are locked by their hashes, and actions by their commits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_packages_are_locked_by_hash(lock: Path) -> None:
    text = lock.read_text()
    for requirement in re.sub(r"\\\n", "", text).strip().splitlines():
        assert re.match(r"^[\w.-]+(\[[\w,-]+\])?==\S+ ", requirement), requirement
        assert "--hash=sha256:" in requirement, requirement
    assert "://" not in text


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_actions_are_pinned_to_commits(workflow: Path) -> None:
    used = re.findall(r"uses:\s*(\S+)", workflow.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
    assert "contents: read" in workflow.read_text()


def test_the_security_rules_of_the_lint_are_on() -> None:
    assert re.search(r'^select = \[.*"S".*\]$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
