"""The container image: its build context, its labels, and the example workflows."""

import re
import tomllib
from pathlib import Path

from docker.utils.build import exclude_paths

from tests.support.yaml_text import yaml_in

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
WORKFLOWS = {path.name: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
    "packages"
]
NEEDED = {"pyproject.toml", "README.md", "LICENSE"}


def context(folder: Path) -> set[str]:
    """The files that Docker would send to a build, except for the Dockerfile and .dockerignore."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    paths = {Path(path) for path in exclude_paths(str(folder), rules)}
    files = {path.as_posix() for path in paths if (folder / path).is_file()}
    return files - {"Dockerfile", ".dockerignore"}


def test_build_context_has_only_the_copied_files() -> None:
    sent = context(ROOT)
    locks = set(re.findall(r"requirements/[a-z]+\.lock", DOCKERFILE))
    assert locks
    assert {path for path in sent if path.split("/")[0] not in PACKAGES} == locks | NEEDED
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {path for path in sent if path.split("/")[0] in PACKAGES} == sources


def test_build_context_has_no_secrets_caches_or_data(tmp_path: Path) -> None:
    left_out = [
        *(".env", ".git/config", ".venv/bin/python", ".plaudit/endpoints.json", ".schemathesis/a", "dist/a.whl"),
        *("docs/a.md", "tests/a.py", "plaudit/__pycache__/a.pyc", "plaudit/.env", "api/.mypy_cache/a", "key.pem"),
        *("node_modules/a.js", "docker-compose.yml", "requirements/dev.lock", "backup.tar"),
    ]
    for path in (*left_out, "plaudit/cli/main.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert context(tmp_path) == {"plaudit/cli/main.py"}


def test_image_labels() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.([a-z.]+)="([^"]*)"', DOCKERFILE))
    expected = {"title", "description", "licenses", "version", "revision", "created", "source", "base.name"}
    assert set(labels) == expected
    asked = set(re.findall(r"\$\{([A-Z]+)\}", " ".join(labels.values())))
    assert asked <= set(re.findall(r"^ARG ([A-Z]+)", DOCKERFILE, re.MULTILINE))
    assert {f"--build-arg {name}=" in WORKFLOWS["release.yml"] for name in asked - {"PYTHON"}} == {True}
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"python:${PYTHON}"}


def test_release_is_scanned_before_it_is_pushed_and_signed() -> None:
    steps = yaml_in(WORKFLOWS["release.yml"])["jobs"]["image"]["steps"]
    text = [str(step.get("uses", "")) + str(step.get("run", "")) for step in steps]
    order = [
        next(index for index, each in enumerate(text) if part in each)
        for part in ("@sha256:", "buildx build", "trivy-action", "docker push", "cosign sign --yes", "cosign attest")
    ]
    assert order == sorted(order)
