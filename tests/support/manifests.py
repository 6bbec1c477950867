"""Kubernetes manifests: those in the repository, and those that the Helm chart renders."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.yaml_text import documents_in

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "plaudit"
KEPT: Final = ROOT / "deploy" / "kubernetes" / "plaudit.yaml"
VALUES: Final = {file.stem: file for file in sorted((CHART / "ci").glob("*.yaml"))}
PROCESSES: Final = ("api", "worker", "scheduler", "mailer")
RELEASE: Final = "plaudit"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manifests:
    """Documents that are applied together."""

    documents: Sequence[Document]

    def of(self, *kinds: str) -> list[Document]:
        """Documents of these kinds, in order."""
        return [document for document in self.documents if document["kind"] in kinds]

    def named(self, kind: str, name: str) -> Document:
        """The only document of this kind and name."""
        (found,) = (document for document in self.of(kind) if document["metadata"]["name"] == name)
        return found

    def pods(self) -> list[Document]:
        """The pod templates of all workloads."""
        running = [document["spec"]["template"] for document in self.of("Deployment", "Job")]
        return running + [document["spec"]["jobTemplate"]["spec"]["template"] for document in self.of("CronJob")]

    def settings(self) -> dict[str, str]:
        """The settings of all processes."""
        return dict(self.named("ConfigMap", RELEASE)["data"])


def containers(pod: Document) -> list[Document]:
    """The containers of a pod in the order in which they start."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm; skips the test where it isn't installed."""
    if shutil.which("helm") is None:
        pytest.skip("helm isn't installed")
    return subprocess.run(["helm", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)


@cache
def rendered(values: Path, *others: str) -> Manifests:
    """The manifests that the chart renders from a values file and `others`, each as `a.b=1`. Skips where Helm isn't
    installed."""
    overrides = [part for other in others for part in ("--set", other)]
    result = helm("template", RELEASE, CHART, "--namespace", RELEASE, "--values", values, *overrides)
    assert result.returncode == 0, result.stderr
    return Manifests(documents_in(result.stdout))


@cache
def kept() -> Manifests:
    """The manifests in deploy/kubernetes."""
    return Manifests(documents_in(KEPT.read_text()))
