"""Packages are locked by hash, and actions by commit."""

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.yaml_text import yaml_in

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
NPM_LOCKS = [
    ROOT / "clients" / "typescript" / "package-lock.json",
    ROOT / "tests" / "support" / "oidc" / "package-lock.json",
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = PROJECT["tool"]["importlinter"]["root_packages"]
IMPORT = re.compile(r"^ *(?:import (\w+)[\w.]*(?: as \w+)?(?:  #.+)?$|from (\w+)[\w.]* import )", re.MULTILINE)
ABSENT = {"faust": "faust-streaming"}
"""The package names of modules that aren't installed here, if they differ from the module's."""


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_packages_are_locked_by_hash(lock: Path) -> None:
    text = lock.read_text()
    for requirement in re.sub(r"\\\n", "", text).strip().splitlines():
        assert re.match(r"^[\w.-]+(\[[\w,-]+\])?==\S+ ", requirement), requirement
        assert "--hash=sha256:" in requirement, requirement
    assert "://" not in text


@pytest.mark.parametrize("lock", NPM_LOCKS, ids=lambda lock: lock.parent.name)
def test_npm_packages_are_locked_by_hash_for_any_registry(lock: Path) -> None:
    _, *packages = json.loads(lock.read_text())["packages"].values()
    assert [each for each in packages if not each["integrity"].startswith("sha512-") or "resolved" in each] == []
    wanted = json.loads(lock.with_name("package.json").read_text())
    named = {**wanted.get("dependencies", {}), **wanted.get("devDependencies", {})}
    assert [version for version in named.values() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_actions_are_pinned_to_commits_and_have_minimal_permissions(workflow: Path) -> None:
    text = workflow.read_text()
    used = re.findall(r"uses:\s*(\S+)", text)
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)] == []
    assert yaml_in(text)["permissions"] == {"contents": "read"}


def test_secrets_of_a_checkout_are_not_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {".env", ".plaudit/"} <= set(ignored)  # secrets of the configuration; data and its passwords


def test_security_lint_rules_are_on() -> None:
    assert re.search(r'^select = \[.*"S".*\]$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


def declared(*groups: str) -> set[str]:
    """Names of the packages that the service, its extras and these dependency groups declare."""
    project, named = PROJECT["project"], PROJECT["dependency-groups"]
    listed = [project["dependencies"], *project["optional-dependencies"].values(), *(named[group] for group in groups)]
    return {re.split(r"[^\w.-]", requirement)[0] for each in listed for requirement in each}


def imported(folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The top-level module of each import in these folders, with its file, without our own and Python's modules."""
    own = {*ROOMS, "tests", "benchmarks", *sys.stdlib_module_names}
    for file in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for names in IMPORT.findall(file.read_text()):
            yield from ((module, str(file.relative_to(ROOT))) for module in {*names} - own - {""})


def packages_of(module: str, installed: Mapping[str, Sequence[str]]) -> set[str]:
    """The packages that a module may come from, as spelled in pyproject.toml."""
    return {name.lower().replace("_", "-") for name in installed.get(module, [ABSENT.get(module, module)])}


@pytest.mark.parametrize(
    ("folders", "groups"),
    [(ROOMS, ()), (["tests", "docs"], ("dev", "build")), (["benchmarks"], ("dev", "bench", "peer"))],
    ids=["product", "tests", "benchmarks"],
)
def test_imported_packages_are_declared(folders: Sequence[str], groups: Sequence[str]) -> None:
    """Declared packages have version bounds; a transitive dependency may disappear with its parent's next version."""
    installed, known = packages_distributions(), declared(*groups)
    missing = {each for each in imported(folders) if known.isdisjoint(packages_of(each[0], installed))}
    assert sorted(missing) == []
