"""Manifests of Kubernetes: those that are kept, and those that the chart makes of a file with values."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

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
        """Those of some kinds, in their order."""
        return [document for document in self.documents if document["kind"] in kinds]

    def named(self, kind: str, name: str) -> Document:
        """The only one of a kind and a name."""
        (found,) = (document for document in self.of(kind) if document["metadata"]["name"] == name)
        return found

    def pods(self) -> list[Document]:
        """The templates of all pods."""
        running = [document["spec"]["template"] for document in self.of("Deployment", "Job")]
        return running + [document["spec"]["jobTemplate"]["spec"]["template"] for document in self.of("CronJob")]

    def settings(self) -> dict[str, str]:
        """The settings of every process."""
        return dict(self.named("ConfigMap", RELEASE)["data"])


def containers(pod: Document) -> list[Document]:
    """The containers of a pod, in the order in which they are started."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What Helm says; skips the test where it isn't installed."""
    if shutil.which("helm") is None:
        pytest.skip("helm isn't installed")
    return subprocess.run(["helm", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)


@cache
def rendered(values: Path, *others: str) -> Manifests:
    """The manifests that the chart makes of values, and of others as `a.b=1`; skips where Helm isn't installed."""
    said = [part for other in others for part in ("--set", other)]
    made = helm("template", RELEASE, CHART, "--namespace", RELEASE, "--values", values, *said)
    assert made.returncode == 0, made.stderr
    return Manifests([document for document in yaml.safe_load_all(made.stdout) if document])


@cache
def kept() -> Manifests:
    """The manifests of deploy/kubernetes."""
    return Manifests(list(yaml.safe_load_all(KEPT.read_text())))
